// The S3 store against a server in memory: what it does when something goes wrong.
#include "plugins/steward-bridge/store/s3_store.hpp"

#include "plugins/steward-bridge/store/fake_s3.hpp"
#include "plugins/steward-bridge/store/store_contract_test.hpp"
#include "plugins/steward-bridge/stream/testing_digest.hpp"

namespace capstan::steward {
namespace {

using namespace testing;
using namespace std::chrono_literals;
using Kind = Fault::Kind;
using Milliseconds = std::vector<std::chrono::milliseconds>;

class S3StoreTest : public ::testing::Test {
protected:
    S3StoreTest() { store = connect(); }

    S3Parts parts() {
        return {[this](const std::string& name) { return fields[name]; },
                "",
                "http://127.0.0.1:9000",
                digests,
                server,
                pace};
    }
    std::unique_ptr<S3Store> connect() {
        auto made = S3Store::connect(parts(), {"bucket", kPartBytesMin});
        EXPECT_TRUE(made) << made.error().message;
        return made ? std::move(made).value() : nullptr;
    }
    Result<std::string> read(const std::string& key) {
        return read_object(*store, {key}, 100 * 1024 * 1024);
    }

    std::map<std::string, std::string> fields{{"AWS_REGION", "eu-1"},
                                              {"AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"},
                                              {"AWS_SECRET_ACCESS_KEY", "secret"}};
    TestingDigests digests;
    FakePace pace;
    FakeS3 server{digests, pace};
    std::unique_ptr<S3Store> store;
};

TEST_F(S3StoreTest, DoesWhatEveryStoreDoes) {
    expect_store_contract(*store);
}

TEST_F(S3StoreTest, ServersThatDoNotEncodeKeysAreListedToo) {
    server.url_encoding = false;
    expect_store_contract(*store);
}

TEST_F(S3StoreTest, FencesLetOneIn) {
    expect_fences(*store);
}

TEST_F(S3StoreTest, NothingIsSeenBeforeItIsFinished) {
    expect_nothing_half_written(*store, 2 * kPartBytesMin + 1);
    EXPECT_EQ(server.uploads.size(), 0u) << "aborted";
    EXPECT_EQ(server.count("DELETE /bucket/h/v2/Full?uploadId="), 1u);
}

TEST_F(S3StoreTest, SmallObjectsAreOneRequest) {
    STORE_OK(write_object(*store, "p/a", pattern(kPartBytesMin)));
    EXPECT_EQ(server.requests, std::vector<std::string>{"PUT /bucket/p/a"});
    STORE_OK(write_object(*store, "p/b", pattern(kPartBytesMin + 1)));
    EXPECT_EQ(server.count("partNumber="), 2u);
    EXPECT_TRUE(read("p/b").value() == pattern(kPartBytesMin + 1));
}

TEST_F(S3StoreTest, PartsAreLargerForLargerObjects) {
    CreateOptions options;
    options.bytes_about = 6 * kPartBytesMin * kPartsMax;
    const auto sink = store->create("p/a", options);
    STORE_OK(sink);
    STORE_OK(sink.value()->write(bytes_of(pattern(6 * kPartBytesMin))));
    EXPECT_EQ(server.count("partNumber="), 0u) << "a part holds 30 MiB";
}

TEST_F(S3StoreTest, ListsInPagesAndOnlyBelowThePrefix) {
    for (const char* key : {"c/v2/1", "c/v2/2", "c/v2/3", "c/v1/x/4", "c2/v2/5", "c"}) {
        server.put(key, "x");
    }
    ListOptions options;
    options.page_keys = 2;
    EXPECT_EQ(keys_of(*store, "c", options),
              (std::vector<std::string>{"c/v1/x/4", "c/v2/1", "c/v2/2", "c/v2/3"}));
    EXPECT_EQ(server.count("list-type=2"), 2u);
    EXPECT_EQ(server.count("prefix=c%2F"), 2u);
}

TEST_F(S3StoreTest, ListingThatNeverEndsIsRefused) {
    server.put("c/1", "x");
    Fault page = answered(200);
    page.body = "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>";
    server.plan("list-type=2", page);
    STORE_FAILS(list_all(*store, "c"), Code::invalid, "not from where on");
    page.body =
        "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>t"
        "</NextContinuationToken></ListBucketResult>";
    server.plan("list-type=2", page);
    server.plan("list-type=2", page);
    STORE_FAILS(list_all(*store, "c"), Code::invalid, "not from where on");
    page.body = "<Other/>";
    server.plan("list-type=2", page);
    STORE_FAILS(list_all(*store, "c"), Code::invalid, "no ListBucketResult");
    page.body = "<ListBucketResult><Contents><Key>c/1</Key><Size>1";
    server.plan("list-type=2", page);
    STORE_FAILS(list_all(*store, "c"), Code::invalid, "ends early");
}

TEST_F(S3StoreTest, BusyStoreIsAskedAgainLaterAndLater) {
    server.put("a", "x");
    server.plan("list-type=2", {Kind::cut_answer, 20});
    server.plan("list-type=2", {Kind::slow_answer, 20});
    EXPECT_EQ(list_all(*store, "").value().size(), 1u);
    pace.sleeps.clear();
    for (const int status : {503, 500, 429, 502, 504}) {
        server.plan("GET /bucket/a", answered(status, "SlowDown"));
    }
    EXPECT_EQ(read("a").value(), "x");
    EXPECT_EQ(pace.sleeps, (Milliseconds{1s, 2s, 4s, 8s, 16s}));
}

TEST_F(S3StoreTest, StoreThatStaysBusyIsGivenUpInWords) {
    for (int i = 0; i < 6; ++i) {
        server.plan("GET /bucket/a", answered(503, "SlowDown"));
    }
    STORE_FAILS(read("a"), Code::overloaded, "slow down");
    EXPECT_EQ(server.count("GET /bucket/a"), 6u);
    for (int i = 0; i < 6; ++i) {
        server.plan("GET /bucket/a", {Kind::refused});
    }
    STORE_FAILS(read("a"), Code::unavailable, "GetObject bucket/a at http://127.0.0.1:9000");
    for (int i = 0; i < 6; ++i) {
        server.plan("GET /bucket/a", {Kind::silent});
    }
    STORE_FAILS(read("a"), Code::timeout, "GetObject bucket/a");
}

TEST_F(S3StoreTest, WaitsAsLongAsAskedAndByChanceALittleLess) {
    server.put("a", "x");
    server.plan("GET /bucket/a", answered(503, "SlowDown", {{"retry-after", "7"}}));
    server.plan("GET /bucket/a", answered(503));
    pace.chance_value = 0.5;
    EXPECT_EQ(read("a").value(), "x");
    EXPECT_EQ(pace.sleeps, (Milliseconds{7s, 1500ms}));
    server.plan("GET /bucket/a", answered(503, "SlowDown", {{"retry-after", "3600"}}));
    STORE_FAILS(read("a"), Code::overloaded, "slow down");
}

TEST_F(S3StoreTest, StopEndsTheWaiting) {
    server.plan("GET /bucket/a", answered(503));
    pace.cancelled = true;
    STORE_FAILS(read("a"), Code::cancelled, "stop");
    EXPECT_EQ(server.count("GET"), 1u);
}

TEST_F(S3StoreTest, ReaderGoesOnWhereTheConnectionBroke) {
    const std::string bytes = pattern(200'000);
    server.put("a", bytes);
    server.plan("GET /bucket/a", {Kind::cut_answer, 70'000});
    server.plan("GET /bucket/a", {Kind::slow_answer, 50'000});
    server.plan("GET /bucket/a", {Kind::refused});
    EXPECT_TRUE(read("a").value() == bytes);
    const HttpRequest& last = server.heads.back();
    EXPECT_EQ(header_of(last.headers, "range"), "bytes=120000-");
    EXPECT_EQ(header_of(last.headers, "if-match"), server.newest("a")->etag);
}

TEST_F(S3StoreTest, ReaderDoesNotMixTwoContents) {
    server.put("a", pattern(200'000));
    server.plan("GET /bucket/a", {Kind::cut_answer, 70'000});
    const auto source = store->open({"a"}, 0);
    STORE_OK(source);
    server.put("a", pattern(200'000, 2));
    std::vector<std::uint8_t> buffer(70'000);
    STORE_OK(source.value()->read(buffer));
    STORE_FAILS(source.value()->read(buffer), Code::conflict, "replaced while it was read");
}

TEST_F(S3StoreTest, ReaderGivesUpWhenNothingComesAnyMore) {
    server.put("a", pattern(1000));
    for (int i = 0; i < 10; ++i) {
        server.plan("GET /bucket/a", {Kind::cut_answer, i == 0 ? 500u : 0u});
    }
    STORE_FAILS(read("a"), Code::unavailable, "at byte 500 of 1000");
    EXPECT_EQ(server.count("GET"), 6u);
}

TEST_F(S3StoreTest, BodyThatIsShorterThanAnnouncedIsNotTheEnd) {
    const std::string bytes = pattern(1000);
    server.put("a", bytes);
    Fault liar = answered(200, "", {{"content-length", "1000"}, {"etag", "\"etag-1\""}});
    liar.body = bytes.substr(0, 600);
    server.plan("GET /bucket/a", liar);
    EXPECT_TRUE(read("a").value() == bytes);
}

TEST_F(S3StoreTest, AnswersInChunksAreReadToTheirEnd) {
    const std::string bytes = pattern(200'000);
    server.put("a", bytes);
    server.says_sizes = false;
    server.plan("GET /bucket/a", {Kind::cut_answer, 70'000});
    EXPECT_TRUE(read("a").value() == bytes);
    STORE_FAILS(store->stat({"a"}), Code::invalid, "does not say the size");
}

TEST_F(S3StoreTest, PartIsOutWhileTheNextOneFills) {
    const auto sink = store->create("a", {});
    STORE_OK(sink);
    const std::string part = pattern(kPartBytesMin);
    STORE_OK(sink.value()->write(bytes_of(part)));
    STORE_OK(sink.value()->write(bytes_of("x")));
    EXPECT_EQ(server.count("partNumber=1"), 1u);
    EXPECT_EQ(server.uploads.begin()->second.parts.size(), 0u) << "its answer is not awaited yet";
    STORE_OK(sink.value()->write(bytes_of(part)));
    EXPECT_EQ(server.uploads.begin()->second.parts.size(), 1u);
    STORE_OK(sink.value()->finish());
    EXPECT_TRUE(server.newest("a")->bytes == part + "x" + part);
}

TEST_F(S3StoreTest, CutInAPartSendsThePartAgain) {
    const std::string bytes = pattern(2 * kPartBytesMin + 7);
    server.plan("partNumber=2", {Kind::cut_upload});
    server.plan("partNumber=2", {Kind::lost_answer});
    server.plan("uploads", answered(500, "InternalError"));
    STORE_OK(write_object(*store, "a", bytes));
    EXPECT_EQ(server.count("partNumber=2"), 3u);
    EXPECT_EQ(server.count("partNumber=1"), 1u);
    EXPECT_TRUE(server.newest("a")->bytes == bytes);
}

TEST_F(S3StoreTest, UploadThatFailsIsAbortedAndNotPublished) {
    for (int i = 0; i < 6; ++i) {
        server.plan("partNumber=2", answered(500, "InternalError"));
    }
    {
        const auto sink = store->create("a", {});
        STORE_OK(sink);
        STORE_FAILS(sink.value()->write(bytes_of(pattern(3 * kPartBytesMin + 1))),
                    Code::unavailable,
                    "UploadPart bucket/a");
        STORE_FAILS(sink.value()->write(bytes_of("more")), Code::unavailable, "not uploaded whole");
        STORE_FAILS(sink.value()->finish(), Code::unavailable, "not uploaded whole");
    }
    EXPECT_EQ(server.uploads.size(), 0u);
    EXPECT_EQ(server.objects.size(), 0u);
}

TEST_F(S3StoreTest, UploadsOfTheDeadAreGivenUpThoseOfTheLivingGoOn) {
    server.uploads["u1"] = {"p/v2/old", pace.now - 25h};
    server.uploads["u2"] = {"p/v2/new", pace.now - 1h};
    server.uploads["u3"] = {"p/v2/&older", pace.now - 100h};
    server.uploads["u4"] = {"p-2/v2/not-ours", pace.now - 100h};
    EXPECT_EQ(store->remove_unfinished("p", pace.now - 24h).value(), 2u);
    ASSERT_EQ(server.uploads.size(), 2u);
    EXPECT_EQ(server.uploads.count("u2") + server.uploads.count("u4"), 2u);
    server.plan("uploads=", answered(403, "AccessDenied"));
    STORE_FAILS(store->remove_unfinished("p", pace.now),
                Code::forbidden,
                "s3:ListBucketMultipartUploads is missing");
}

TEST_F(S3StoreTest, CompletionWhoseAnswerWasLostIsRecognised) {
    const std::string bytes = pattern(kPartBytesMin + 7);
    server.plan("POST /bucket/a?uploadId", {Kind::lost_answer});
    STORE_OK(write_object(*store, "a", bytes));
    EXPECT_TRUE(server.newest("a")->bytes == bytes);
    EXPECT_EQ(server.count("DELETE"), 0u);
}

TEST_F(S3StoreTest, ErrorInsideASuccessIsAnError) {
    Fault hidden = answered(200, "InternalError");
    server.plan("POST /bucket/a?uploadId", hidden);
    STORE_OK(write_object(*store, "a", pattern(kPartBytesMin + 7)));
    EXPECT_EQ(server.count("POST /bucket/a?uploadId"), 2u);
    for (int i = 0; i < 6; ++i) {
        server.plan("POST /bucket/b?uploadId", hidden);
    }
    STORE_FAILS(write_object(*store, "b", pattern(kPartBytesMin + 7)),
                Code::unavailable,
                "CompleteMultipartUpload bucket/b");
    EXPECT_EQ(server.uploads.size(), 0u);
}

TEST_F(S3StoreTest, CompletionUnderAConditionLetsOneIn) {
    CreateOptions once;
    once.if_absent = true;
    const auto sink = store->create("a", once);
    STORE_OK(sink);
    STORE_OK(sink.value()->write(bytes_of(pattern(kPartBytesMin + 7))));
    server.put("a", "somebody else's");
    STORE_FAILS(sink.value()->finish(), Code::exists, "bucket/a");
    EXPECT_EQ(server.newest("a")->bytes, "somebody else's");
}

TEST_F(S3StoreTest, OwnFenceIsRecognisedWhenItsAnswerWasLost) {
    server.plan("PUT /bucket/f", {Kind::lost_answer});
    const auto mine = store->put_if_absent("f", "mine");
    STORE_OK(mine);
    EXPECT_EQ(mine.value(), server.newest("f")->etag);
    server.plan("PUT /bucket/f", {Kind::lost_answer});
    const auto taken = store->put_if_match("f", "mine again", mine.value());
    STORE_OK(taken);
    EXPECT_EQ(taken.value(), server.newest("f")->etag);
    // The same, but somebody else was first: not ours.
    server.plan("PUT /bucket/f", {Kind::refused});
    STORE_FAILS(store->put_if_absent("f", "other"), Code::exists, "bucket/f");
    server.put("g", "theirs");
    server.plan("PUT /bucket/g", {Kind::refused});
    STORE_FAILS(store->put_if_match("g", "mine", "\"old\""), Code::conflict, "bucket/g");
}

TEST_F(S3StoreTest, ConflictOfTwoWritersIsTriedAgain) {
    server.plan("PUT /bucket/f", answered(409, "ConditionalRequestConflict"));
    STORE_OK(store->put_if_absent("f", "mine"));
    EXPECT_EQ(pace.sleeps.size(), 1u);
    for (int i = 0; i < 6; ++i) {
        server.plan("PUT /bucket/g", answered(409, "ConditionalRequestConflict"));
    }
    STORE_FAILS(store->put_if_absent("g", "mine"), Code::unavailable, "bucket/g");
}

TEST_F(S3StoreTest, CheckFindsAStoreThatIgnoresConditions) {
    const StoreCheck good = check_store(*store, "p", "t1");
    EXPECT_TRUE(good.ok());
    EXPECT_EQ(server.objects.size(), 0u);
    server.honours_conditions = false;
    const StoreCheck bad = check_store(*store, "p", "t2");
    EXPECT_FALSE(bad.ok());
    for (const CheckStep& step : bad.steps) {
        EXPECT_EQ(step.problem.empty(), step.name != "fence") << step.name << step.problem;
    }
    EXPECT_EQ(server.objects.size(), 0u);
}

TEST_F(S3StoreTest, FenceThatFailsOtherwiseIsNoFence) {
    server.plan("PUT /bucket/p/capstan/check-t-fence", answered(200, "", {{"etag", "\"1\""}}));
    server.plan("PUT /bucket/p/capstan/check-t-fence", answered(501, "NotImplemented"));
    const StoreCheck check = check_store(*store, "p", "t");
    ASSERT_EQ(check.steps[4].name, "fence");
    EXPECT_NE(check.steps[4].problem.find("does not know the request"), std::string::npos)
        << check.steps[4].problem;
}

TEST_F(S3StoreTest, CheckSaysWhichStepFailsAndCleansUp) {
    server.plan("PUT /bucket/p/capstan/check-t", answered(403, "AccessDenied"));
    const StoreCheck check = check_store(*store, "p", "t");
    ASSERT_EQ(check.steps.size(), 2u);
    EXPECT_EQ(check.steps[0].name, "write");
    EXPECT_NE(check.steps[0].problem.find("s3:PutObject is missing"), std::string::npos)
        << check.steps[0].problem;
    EXPECT_EQ(check.steps[1].name, "delete");
    server.plan("GET /bucket/p/capstan/check-t", answered(200, "", {{"content-length", "0"}}));
    const StoreCheck other = check_store(*store, "p", "t");
    EXPECT_NE(other.steps[3].problem.find("reads back as other bytes"), std::string::npos);
    EXPECT_EQ(server.objects.size(), 0u);
}

}  // namespace
}  // namespace capstan::steward
