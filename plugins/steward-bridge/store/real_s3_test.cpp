// The S3 store against a real server; real_s3_test.py starts one and says where it is.
#include "plugins/steward-bridge/store/encoding.hpp"
#include "plugins/steward-bridge/store/net_transport_test.hpp"
#include "plugins/steward-bridge/store/s3_store.hpp"
#include "plugins/steward-bridge/store/store_contract_test.hpp"
#include "plugins/steward-bridge/stream/testing_digest.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>

namespace capstan::steward {
namespace {

using namespace testing;

class RealPace final : public Pace {
public:
    WallTime wall_now() override {
        return std::chrono::time_point_cast<std::chrono::nanoseconds>(
                   std::chrono::system_clock::now()) +
               skew;
    }
    Result<void> sleep(std::chrono::nanoseconds) override {
        ++sleeps;
        return ok();
    }
    double chance() override { return 0; }
    std::chrono::nanoseconds skew{0};
    int sleeps{0};
};

// The real transport, but planned requests go wrong on the way.
class FaultyTransport final : public Transport {
public:
    enum class Kind : std::uint8_t { busy, cut_upload, cut_answer };
    struct Fault {
        std::string what;  // in the method and the URL
        Kind kind;
    };

    class Exchange final : public HttpExchange {
    public:
        Exchange(std::unique_ptr<HttpExchange> real, std::optional<Kind> kind)
            : real_(std::move(real)), kind_(kind) {}

        Result<void> write(std::string_view bytes) override {
            if (kind_ == Kind::busy) {
                return ok();
            }
            if (kind_ != Kind::cut_upload) {
                return real_->write(bytes);
            }
            auto& exchange = static_cast<NetExchange&>(*real_);
            CAPSTAN_TRY(exchange.write(bytes.substr(0, bytes.size() / 2), false));
            real_.reset();
            return cut();
        }
        Result<HttpHead> head() override {
            if (kind_ == Kind::busy) {
                return HttpHead{503, {}};
            }
            return real_ == nullptr ? Result<HttpHead>(cut()) : real_->head();
        }
        Result<std::size_t> read(std::span<char> into) override {
            if (kind_ == Kind::busy) {
                return std::size_t{0};
            }
            if (kind_ == Kind::cut_answer && pieces_++ == 3) {
                real_.reset();
            }
            return real_ == nullptr ? Result<std::size_t>(cut()) : real_->read(into);
        }

    private:
        static boost::outcome_v2::failure_type<Error> cut() {
            return fail(Code::unavailable, "cut by the test");
        }
        std::unique_ptr<HttpExchange> real_;
        const std::optional<Kind> kind_;
        int pieces_{0};
    };

    Result<std::unique_ptr<HttpExchange>> open(const HttpRequest& request,
                                               std::int64_t body_bytes) override {
        const std::string line = request.method + " " + request.url;
        const auto found = std::find_if(faults.begin(), faults.end(), [&line](const Fault& fault) {
            return line.find(fault.what) != std::string::npos;
        });
        std::optional<Kind> kind;
        if (found != faults.end()) {
            kind = found->kind;
            faults.erase(found);
        }
        std::unique_ptr<HttpExchange> real;
        if (kind != Kind::busy) {
            CAPSTAN_TRY(real, real_.open(request, body_bytes));
        }
        return std::unique_ptr<HttpExchange>(std::make_unique<Exchange>(std::move(real), kind));
    }
    std::vector<Fault> faults;

private:
    NetTransport real_;
};

std::string variable(const char* name) {
    const char* const value = std::getenv(name);
    return value == nullptr ? "" : value;
}

class RealS3 : public ::testing::Test {
protected:
    RealS3() {
        fields["AWS_REGION"] = "us-east-1";
        fields["AWS_ACCESS_KEY_ID"] = "capstan";
        fields["AWS_SECRET_ACCESS_KEY"] = "capstan-secret";
        fields["AWS_CA_BUNDLE"] = variable("CAPSTAN_S3_CA");
    }
    S3Parts make_parts() {
        return {[this](const std::string& name) { return fields[name]; },
                "",
                variable("CAPSTAN_S3_ENDPOINT"),
                digests,
                transport,
                pace};
    }
    // A bucket of its own for each test: made by a request that the store itself has no need for.
    std::unique_ptr<S3Store> connect(const std::string& bucket, const std::string& query = "") {
        auto access = S3Access::open(parts, bucket);
        EXPECT_TRUE(access) << access.error().message;
        S3Client client(access.value(), parts, bucket);
        S3Call make{"CreateBucket", "PUT"};
        if (query == "lock") {
            make.headers = {{"x-amz-bucket-object-lock-enabled", "true"}};
        }
        const auto made = client.send(make);
        EXPECT_TRUE(made) << made.error().message;
        EXPECT_TRUE(made.value().ok() || made.value().status == 409) << made.value().body;
        if (query == "versions") {
            S3Call versions{"PutBucketVersioning", "PUT"};
            versions.query = {{"versioning", ""}};
            versions.body =
                "<VersioningConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
                "<Status>Enabled</Status></VersioningConfiguration>";
            const auto set = client.expect(versions);
            EXPECT_TRUE(set) << set.error().message;
        }
        if (query == "lock") {
            S3Call lock{"PutObjectLockConfiguration", "PUT"};
            lock.query = {{"object-lock", ""}};
            lock.body =
                "<ObjectLockConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
                "<ObjectLockEnabled>Enabled</ObjectLockEnabled><Rule><DefaultRetention>"
                "<Mode>COMPLIANCE</Mode><Days>3</Days></DefaultRetention></Rule>"
                "</ObjectLockConfiguration>";
            lock.headers = {{"content-md5", to_base64(md5_raw(digests, lock.body).value())}};
            const auto set = client.expect(lock);
            EXPECT_TRUE(set) << set.error().message;
        }
        auto store = S3Store::connect(parts, {bucket, kPartBytesMin});
        EXPECT_TRUE(store) << store.error().message;
        return std::move(store).value();
    }

    std::map<std::string, std::string> fields;
    TestingDigests digests;
    FaultyTransport transport;
    RealPace pace;
    const S3Parts parts{make_parts()};
};

TEST_F(RealS3, DoesWhatEveryStoreDoes) {
    const auto store = connect("contract");
    expect_store_contract(*store);
}

TEST_F(RealS3, FencesLetOneIn) {
    const auto store = connect("fences");
    expect_fences(*store);
}

TEST_F(RealS3, LargeObjectsGoInPartsAndAreSeenWhenComplete) {
    const auto store = connect("large");
    expect_nothing_half_written(*store, 2 * kPartBytesMin + 1);
    const std::string bytes = pattern(2 * kPartBytesMin + 12'345);
    STORE_OK(write_object(*store, "l/v2/Full", bytes));
    const auto info = store->stat({"l/v2/Full"});
    STORE_OK(info);
    EXPECT_EQ(info.value().bytes, bytes.size());
    EXPECT_NE(info.value().etag.find("-3"), std::string::npos) << info.value().etag;
    const auto source = store->open({"l/v2/Full"}, kPartBytesMin - 5);
    STORE_OK(source);
    EXPECT_TRUE(read_all(*source.value(), 100'000) == bytes.substr(kPartBytesMin - 5));
}

TEST_F(RealS3, UploadsThatNobodyFinishesAreGivenUp) {
    const auto store = connect("unfinished");
    auto access = S3Access::open(parts, "unfinished");
    STORE_OK(access);
    S3Client client(access.value(), parts, "unfinished");
    for (const char* key : {"u/v2/Full", "u-2/v2/Full"}) {
        STORE_OK(client.expect({"CreateMultipartUpload", "POST", key, {{"uploads", ""}}}));
    }
    EXPECT_EQ(store->remove_unfinished("u", pace.wall_now() - std::chrono::hours(1)).value(), 0u);
    EXPECT_EQ(store->remove_unfinished("u", pace.wall_now() + std::chrono::hours(1)).value(), 1u);
    EXPECT_EQ(store->remove_unfinished("u", pace.wall_now() + std::chrono::hours(1)).value(), 0u);
}

TEST_F(RealS3, CutsAndBusyAnswersAreSurvived) {
    const auto store = connect("faults");
    using Kind = FaultyTransport::Kind;
    transport.faults = {{"partNumber=2", Kind::cut_upload},
                        {"partNumber=2", Kind::busy},
                        {"partNumber=1", Kind::cut_upload},
                        {"uploads=", Kind::busy},
                        {"POST", Kind::busy},
                        {"GET", Kind::busy},
                        {"GET", Kind::cut_answer},
                        {"GET", Kind::cut_answer}};
    const std::string bytes = pattern(2 * kPartBytesMin + 12'345);
    STORE_OK(write_object(*store, "f/v2/Full", bytes));
    const auto source = store->open({"f/v2/Full"}, 7);
    STORE_OK(source);
    EXPECT_TRUE(read_all(*source.value(), 100'000) == bytes.substr(7));
    EXPECT_EQ(transport.faults.size(), 0u);
    EXPECT_EQ(pace.sleeps, 8);
}

TEST_F(RealS3, CheckFindsNothingAndLeavesNothing) {
    const auto store = connect("check");
    const StoreCheck check = check_store(*store, "p", "token1");
    for (const CheckStep& step : check.steps) {
        EXPECT_EQ(step.problem, "") << step.name;
    }
    EXPECT_EQ(keys_of(*store, ""), std::vector<std::string>());
}

TEST_F(RealS3, WrongSecretIsToldInWords) {
    connect("keys");
    fields["AWS_SECRET_ACCESS_KEY"] = "another";
    const auto store = S3Store::connect(parts, {"keys", kPartBytesMin});
    STORE_OK(store);
    STORE_FAILS(list_all(*store.value(), "p"), Code::forbidden, "refuses the keys");
    STORE_FAILS(write_object(*store.value(), "a", "x"), Code::forbidden, "the environment");
    EXPECT_EQ(pace.sleeps, 0) << "not tried again";
}

TEST_F(RealS3, SkewedClockIsToldWithBothTimes) {
    const auto store = connect("skew");
    pace.skew = std::chrono::hours(2);
    STORE_FAILS(list_all(*store, "p"), Code::forbidden, "the clocks differ");
    STORE_FAILS(store->stat({"a"}), Code::forbidden, "the clocks differ");
}

TEST_F(RealS3, MissingBucketIsAnErrorOfTheConfiguration) {
    const auto other = connect("there");
    const auto store = S3Store::connect(parts, {"not-there", kPartBytesMin});
    STORE_OK(store);
    STORE_FAILS(list_all(*store.value(), "p"), Code::invalid, "no such bucket");
    STORE_FAILS(write_object(*store.value(), "a", "x"), Code::invalid, "no such bucket");
}

TEST_F(RealS3, UnknownAuthorityIsRefusedUnlessToldOtherwise) {
    fields["AWS_CA_BUNDLE"] = "";
    const auto store = S3Store::connect(parts, {"contract", kPartBytesMin});
    STORE_OK(store);
    STORE_FAILS(store.value()->stat({"a"}), Code::unavailable, "certificate");
}

TEST_F(RealS3, VersionsShowTheOldestAndAreRemovedForGood) {
    const auto store = connect("versions", "versions");
    STORE_OK(write_object(*store, "v/a", "first"));
    STORE_OK(write_object(*store, "v/a", "second, longer"));
    STORE_OK(write_object(*store, "v/b", "x"));
    STORE_OK(store->remove({"v/b"}));
    // Not pages of 1: this server then repeats a version for ever, which the store refuses.
    for (const std::size_t page : {std::size_t{2}, std::size_t{3}, kPageKeys}) {
        ListOptions options;
        options.page_keys = page;
        const auto all = list_all(*store, "v", options);
        STORE_OK(all);
        ASSERT_EQ(all.value().size(), 2u) << "a delete marker alone hides nothing";
        EXPECT_EQ(all.value()[0].key, "v/a");
        EXPECT_EQ(all.value()[0].bytes, 5u);
        EXPECT_EQ(read_object(*store, all.value()[0].name(), 100).value(), "first");
        EXPECT_EQ(read_object(*store, all.value()[1].name(), 100).value(), "x");
    }
    STORE_OK(store->remove(list_all(*store, "v").value()[0].name()));
    EXPECT_EQ(list_all(*store, "v").value()[0].bytes, 14u);
}

TEST_F(RealS3, LockedObjectsSayUntilWhenAndStay) {
    const auto store = connect("locked", "lock");
    EXPECT_EQ(store->default_retention().value(), std::chrono::days(3));
    const WallTime before = pace.wall_now() - std::chrono::seconds(1);
    STORE_OK(write_object(*store, "l/a", "x"));
    STORE_OK(write_object(*store, "l/b", pattern(kPartBytesMin + 1)));
    const auto listed = list_all(*store, "l");
    STORE_OK(listed);
    ASSERT_EQ(listed.value().size(), 2u);
    for (const ObjectInfo& object : listed.value()) {
        ASSERT_TRUE(object.locked_until) << object.key;
        EXPECT_GT(*object.locked_until, before + std::chrono::hours(71));
        STORE_FAILS(store->remove(object.name()), Code::forbidden, "object lock");
    }
    EXPECT_EQ(keys_of(*store, "l").size(), 2u);
}

}  // namespace
}  // namespace capstan::steward
