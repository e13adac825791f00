// What the S3 store says when it is refused, and how it treats versions, locks and encryption.
#include "plugins/steward-bridge/store/encoding.hpp"
#include "plugins/steward-bridge/store/fake_s3.hpp"
#include "plugins/steward-bridge/store/s3_store.hpp"
#include "plugins/steward-bridge/store/store_testing.hpp"
#include "plugins/steward-bridge/stream/testing_digest.hpp"

#include <filesystem>
#include <fstream>

namespace capstan::steward {
namespace {

using namespace testing;
using namespace std::chrono_literals;

class S3Refusals : public ::testing::Test {
protected:
    S3Refusals() {
        std::string name =
            (std::filesystem::temp_directory_path() / "capstan-keys-XXXXXX").string();
        directory = ::mkdtemp(name.data());
        put("region", "eu-1\n");
        put("accessKeyID", "AKIDEXAMPLE\n");
        put("secretAccessKey", "secret\n");
    }
    ~S3Refusals() override { std::filesystem::remove_all(directory); }
    void put(const std::string& name, const std::string& text) {
        std::ofstream(directory + "/" + name) << text;
    }
    std::unique_ptr<S3Store> connect() {
        const auto environment = [this](const std::string& name) {
            return name == "AWS_APPLICATION_CREDENTIALS" ? directory : "";
        };
        auto made = S3Store::connect({environment, "", endpoint, digests, server, pace},
                                     {"bucket", kPartBytesMin});
        EXPECT_TRUE(made) << made.error().message;
        return made ? std::move(made).value() : nullptr;
    }

    std::string directory, endpoint{"https://127.0.0.1"};
    TestingDigests digests;
    FakePace pace;
    FakeS3 server{digests, pace};
};

struct Refusal {
    std::string name, request;
    int status;
    std::string code;
    Code expected;
    std::string says;
    HeaderList headers{};
};

class S3RefusalRows : public S3Refusals, public ::testing::WithParamInterface<Refusal> {};

TEST_P(S3RefusalRows, IsNamedWithItsRemedy) {
    const Refusal& row = GetParam();
    const auto store = connect();
    for (int i = 0; i < 2; ++i) {
        server.plan(row.request, answered(row.status, row.code, row.headers));
    }
    if (row.request.starts_with("PUT")) {
        STORE_FAILS(write_object(*store, "a", "x"), row.expected, row.says);
    } else if (row.request.starts_with("DELETE")) {
        STORE_FAILS(store->remove({"a", "v1"}), row.expected, row.says);
    } else if (row.request.starts_with("HEAD")) {
        STORE_FAILS(store->stat({"a"}), row.expected, row.says);
    } else {
        STORE_FAILS(list_all(*store, "p"), row.expected, row.says);
    }
    EXPECT_EQ(pace.sleeps.size(), 0u) << "trying again does not help";
}

INSTANTIATE_TEST_SUITE_P(
    Rows,
    S3RefusalRows,
    ::testing::Values(
        Refusal{"write", "PUT", 403, "AccessDenied", Code::forbidden, "s3:PutObject is missing"},
        Refusal{
            "list", "list-type", 403, "AccessDenied", Code::forbidden, "s3:ListBucket is missing"},
        Refusal{"versioning",
                "versioning",
                403,
                "AccessDenied",
                Code::forbidden,
                "s3:GetBucketVersioning is missing"},
        Refusal{"head", "HEAD", 403, "", Code::forbidden, "s3:GetObject is missing"},
        Refusal{"locked",
                "DELETE",
                403,
                "AccessDenied",
                Code::forbidden,
                "s3:DeleteObjectVersion is missing, unless object lock"},
        Refusal{"unknown_key",
                "PUT",
                403,
                "InvalidAccessKeyId",
                Code::forbidden,
                "refuses the keys (InvalidAccessKeyId)"},
        Refusal{"no_bucket", "PUT", 404, "NoSuchBucket", Code::invalid, "no such bucket"},
        Refusal{"other_region",
                "PUT",
                301,
                "PermanentRedirect",
                Code::invalid,
                "in region eu-2, not eu-1",
                {{"x-amz-bucket-region", "eu-2"}}},
        Refusal{
            "other_region_unnamed", "PUT", 301, "", Code::invalid, "correct region or endpoint"},
        Refusal{"unknown_request",
                "PUT",
                501,
                "NotImplemented",
                Code::unsupported,
                "does not know the request"},
        Refusal{"odd", "PUT", 400, "Odd", Code::invalid, "\"Odd: planned by the test\""},
        Refusal{"no_xml", "PUT", 418, "", Code::invalid, "HTTP 418"}),
    [](const auto& row) { return row.param.name; });

TEST_F(S3Refusals, SkewedClocksAreNamedBoth) {
    const auto store = connect();
    server.clock_ahead = 20min;
    const std::string ours = to_rfc3339(pace.now);
    const std::string theirs = to_rfc3339(pace.now + 20min);
    const auto listed = list_all(*store, "p");
    STORE_FAILS(
        listed, Code::forbidden, "this machine says " + ours + ", the store says " + theirs);
    // A HEAD has no body: the Date header alone tells.
    STORE_FAILS(store->stat({"a"}), Code::forbidden, "the store says " + theirs);
}

TEST_F(S3Refusals, KeysThatRotateAreReadAgain) {
    const auto store = connect();
    server.keys = {"AKIDNEXT", "next", {}};
    STORE_FAILS(write_object(*store, "a", "x"), Code::forbidden, "directory " + directory);
    put("accessKeyID", "AKIDNEXT");
    put("secretAccessKey", "next");
    STORE_OK(write_object(*store, "a", "x"));
    EXPECT_EQ(server.count("PUT"), 2u) << "found before the request";
}

TEST_F(S3Refusals, KeysThatRotateInAnUploadAreReadAgain) {
    const auto store = connect();
    const auto sink = store->create("a", {});
    STORE_OK(sink);
    STORE_OK(sink.value()->write(bytes_of(pattern(kPartBytesMin + 1))));
    server.keys = {"AKIDNEXT", "next", {}};
    put("accessKeyID", "AKIDNEXT");
    put("secretAccessKey", "next");
    STORE_OK(sink.value()->finish());
    EXPECT_EQ(pace.sleeps.size(), 0u);
}

TEST_F(S3Refusals, SecretInTheMiddleOfAChangeLeavesTheOldKeys) {
    const auto store = connect();
    std::filesystem::remove(directory + "/secretAccessKey");
    STORE_OK(write_object(*store, "a", "x"));
}

TEST_F(S3Refusals, VersionsShowTheOldestInPagesOfTwo) {
    server.versioned = true;
    for (const char* bytes : {"1", "22", "333"}) {
        server.put("p/a", bytes);
        pace.now += 1s;
    }
    server.put("p/b", "b");
    server.put("p/c", "c");
    server.put("p-2/x", "x");
    const auto store = connect();
    STORE_OK(store->remove({"p/b"}));
    STORE_OK(store->remove({"p/c"}));
    server.tags["p/c"] = "<Tag><Key>x-etcd-snapshot-exclude</Key><Value>true</Value></Tag>";
    server.tags["p/a"] = server.tags["p/c"];
    for (const std::size_t page : {std::size_t{1}, std::size_t{2}, std::size_t{3}, kPageKeys}) {
        ListOptions options;
        options.page_keys = page;
        const auto some = list_all(*store, "p", options);
        STORE_OK(some);
        ASSERT_EQ(some.value().size(), 2u) << "a tag without a delete marker hides nothing";
        EXPECT_EQ(some.value()[0].key + some.value()[1].key, "p/ap/b");
        EXPECT_EQ(read_object(*store, some.value()[0].name(), 10).value(), "1");
        EXPECT_EQ(read_object(*store, some.value()[1].name(), 10).value(), "b");
        EXPECT_FALSE(some.value()[0].locked_until);
        options.include_excluded = true;
        EXPECT_EQ(keys_of(*store, "p", options), (std::vector<std::string>{"p/a", "p/b", "p/c"}));
    }
    server.versioning_status = "Suspended";
    EXPECT_EQ(keys_of(*store, "p"), std::vector<std::string>{"p/a"});
}

TEST_F(S3Refusals, CheckLeavesNoVersions) {
    server.versioned = true;
    const auto store = connect();
    const StoreCheck check = check_store(*store, "p", "t");
    for (const CheckStep& step : check.steps) {
        EXPECT_EQ(step.problem, "") << step.name;
    }
    EXPECT_EQ(server.objects.size(), 0u);
}

TEST_F(S3Refusals, LockedVersionsSayUntilWhen) {
    server.versioned = true;
    server.put("p/a", "x");
    const WallTime written = pace.now;
    const auto store = connect();
    EXPECT_EQ(store->default_retention().value(), std::nullopt);
    const auto lock = [](const std::string& rule) {
        return "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled><Rule>"
               "<DefaultRetention><Mode>COMPLIANCE</Mode>" +
               rule + "</DefaultRetention></Rule></ObjectLockConfiguration>";
    };
    server.lock_configuration = lock("<Days>4</Days>");
    EXPECT_EQ(store->default_retention().value(), std::chrono::days(4));
    EXPECT_EQ(list_all(*store, "p").value()[0].locked_until, written + 96h);
    server.lock_configuration = lock("<Years>2</Years>");
    EXPECT_EQ(store->default_retention().value(), std::chrono::days(730));
    server.plan(
        "HEAD",
        answered(200, "", {{"x-amz-object-lock-retain-until-date", "2026-12-01T00:00:00.000Z"}}));
    EXPECT_EQ(store->stat({"p/a"}).value().locked_until, parse_rfc3339("2026-12-01T00:00:00Z"));
    // The right to ask may be missing: the listing is worth more.
    server.plan("object-lock", answered(403, "AccessDenied"));
    EXPECT_EQ(list_all(*store, "p").value().size(), 1u);
}

TEST_F(S3Refusals, StoresWithoutVersionsAreListed) {
    server.put("p/a", "x");
    const auto store = connect();
    server.plan("versioning", answered(501, "NotImplemented"));
    EXPECT_EQ(keys_of(*store, "p"), std::vector<std::string>{"p/a"});
}

TEST_F(S3Refusals, CustomersKeyIsSentWhereBytesAre) {
    const std::string key = pattern(32);
    put("sseCustomerKey", to_base64(key));
    put("sseCustomerAlgorithm", "AES256");
    const auto store = connect();
    STORE_OK(write_object(*store, "a", pattern(kPartBytesMin + 1)));
    STORE_OK(write_object(*store, "b", "x"));
    EXPECT_EQ(read_object(*store, {"b"}, 10).value(), "x");
    const std::string name = "x-amz-server-side-encryption-customer-";
    for (const HttpRequest& request : server.heads) {
        const bool completes =
            request.method == "POST" && request.url.ends_with("uploads=") == false;
        EXPECT_EQ(header_of(request.headers, name + "key"), completes ? "" : to_base64(key))
            << request.method << " " << request.url;
        EXPECT_EQ(header_of(request.headers, name + "key-md5"),
                  completes ? "" : to_base64(md5_raw(digests, key).value()));
    }
    endpoint = "http://127.0.0.1";
    const auto refused =
        S3Store::connect({[this](const std::string& n) {
                              return n == "AWS_APPLICATION_CREDENTIALS" ? directory : "";
                          },
                          "",
                          endpoint,
                          digests,
                          server,
                          pace},
                         {"bucket", kPartBytesMin});
    STORE_FAILS(refused, Code::invalid, "over https only");
}

}  // namespace
}  // namespace capstan::steward
