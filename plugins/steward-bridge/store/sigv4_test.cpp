#include "plugins/steward-bridge/store/sigv4.hpp"

#include "plugins/steward-bridge/stream/testing_digest.hpp"

#include "capstan/json.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

namespace capstan::steward {
namespace {

constexpr const char* kEmpty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

// The examples of the S3 API reference, "Signature Calculations for the Authorization Header".
class SigV4 : public ::testing::Test {
protected:
    std::string signature(Signing request) {
        request.headers.emplace_back("host", "examplebucket.s3.amazonaws.com");
        request.headers.emplace_back("x-amz-date", "20130524T000000Z");
        request.headers.emplace_back("x-amz-content-sha256", request.payload_sha256);
        const auto value = authorization_of(
            digests,
            {"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", {}},
            {"20130524T000000Z", "us-east-1", "s3"},
            request);
        EXPECT_TRUE(value) << value.error().message;
        return value ? value.value() : "";
    }
    TestingDigests digests;
};

TEST_F(SigV4, ExampleGetObject) {
    EXPECT_EQ(
        signature({"GET", "/test.txt", {}, {{"range", "bytes=0-9"}}, kEmpty}),
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
        "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, "
        "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

TEST_F(SigV4, ExamplePutObject) {
    const std::string got = signature(
        {"PUT",
         "/test%24file.text",
         {},
         {{"date", "Fri, 24 May 2013 00:00:00 GMT"}, {"x-amz-storage-class", "REDUCED_REDUNDANCY"}},
         "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"});
    EXPECT_TRUE(
        got.ends_with("Signature=98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"))
        << got;
}

TEST_F(SigV4, ExampleGetBucketLifecycle) {
    const std::string got = signature({"GET", "/", {{"lifecycle", ""}}, {}, kEmpty});
    EXPECT_TRUE(
        got.ends_with("Signature=fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"))
        << got;
}

TEST_F(SigV4, ExampleListObjects) {
    const std::string got =
        signature({"GET", "/", {{"prefix", "J"}, {"max-keys", "2"}}, {}, kEmpty});
    EXPECT_TRUE(
        got.ends_with("Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"))
        << got;
}

TEST_F(SigV4, QueriesAreSortedAfterEncoding) {
    EXPECT_EQ(canonical_query({{"b", "1"}, {"a-", "x y"}, {"a", "/"}, {"a", "+"}}),
              "a=%2B&a=%2F&a-=x%20y&b=1");
}

// Rows that sigv4_vectors.py computed with code of its own.
TEST_F(SigV4, AgreesWithAnIndependentImplementation) {
    const char* const path = std::getenv("CAPSTAN_SIGV4_VECTORS");
    ASSERT_NE(path, nullptr) << "set by meson";
    std::ifstream in(path);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    const json::Value root = json::parse(text).value();
    const auto pairs = [](const json::View& view) {
        HeaderList out;
        const auto items = view.items().value();
        for (const json::View& item : items) {
            out.emplace_back(item[0].string_or(""), item[1].string_or(""));
        }
        return out;
    };
    const auto rows = json::View(root).items().value();
    ASSERT_GE(rows.size(), 100u);
    for (const json::View& row : rows) {
        const auto text_of = [&row](const char* key) {
            return std::string(row[key].string_or(""));
        };
        const auto value =
            authorization_of(digests,
                             {text_of("accessKey"), text_of("secretKey"), {}},
                             {text_of("date"), text_of("region"), text_of("service")},
                             {text_of("method"),
                              text_of("path"),
                              pairs(row["query"]),
                              pairs(row["headers"]),
                              text_of("payload")});
        ASSERT_TRUE(value);
        EXPECT_EQ(value.value(), text_of("authorization")) << json::dump(*row.value());
    }
}

}  // namespace
}  // namespace capstan::steward
