#include "runtime/webhook/admission_review.hpp"

#include <gtest/gtest.h>

#include <ostream>
#include <string>

namespace capstan::webhook {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kReview =
    R"({"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1",
 "request":{"uid":"u-1","operation":"CREATE","dryRun":true,"object":{"a":1}}})";

TEST(AdmissionReview, IsParsed) {
    ReviewId id;
    const auto review = parse_review(kReview, id);
    ASSERT_TRUE(review) << review.error().message;
    EXPECT_EQ(id.uid, "u-1");
    EXPECT_EQ(id.api_version, "admission.k8s.io/v1");
    EXPECT_TRUE(review.value().dry_run);
    EXPECT_EQ(json::dump(*review.value().request.find("object")), R"({"a":1})");
}

TEST(AdmissionReview, IsAnsweredInTheVersionAsked) {
    std::string text(kReview);
    text.replace(text.find("/v1\""), 4, "/v1beta1\"");
    ReviewId id;
    ASSERT_TRUE(parse_review(text, id));
    EXPECT_EQ(render_review(id, {.allowed = true}),
              R"({"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1",)"
              R"("response":{"uid":"u-1","allowed":true}})");
}

struct BadRow {
    const char* name;
    const char* cut;
    const char* with;
    const char* problem;
    const char* uid;  // what the answer may still echo
};
std::ostream& operator<<(std::ostream& out, const BadRow& row) {
    return out << row.name;
}
class BadReview : public ::testing::TestWithParam<BadRow> {};

TEST_P(BadReview, IsRefusedWithAReason) {
    const BadRow& row = GetParam();
    std::string text(kReview);
    const std::size_t at = text.find(row.cut);
    ASSERT_NE(at, std::string::npos);
    text.replace(at, std::string_view(row.cut).size(), row.with);
    ReviewId id;
    const auto review = parse_review(text, id);
    ASSERT_FALSE(review);
    EXPECT_EQ(review.error().code, Code::invalid);
    EXPECT_NE(review.error().message.find(row.problem), std::string::npos)
        << review.error().message;
    EXPECT_EQ(id.uid, row.uid);
}

INSTANTIATE_TEST_SUITE_P(
    Rules,
    BadReview,
    ::testing::Values(
        BadRow{"no_json", R"({"kind")", "kind", "is no AdmissionReview", ""},
        BadRow{"duplicate_member", R"("uid":"u-1")", R"("uid":"u-1","uid":"u-2")", "duplicate", ""},
        BadRow{
            "another_kind", "AdmissionReview", "TokenReview", "expected an AdmissionReview", "u-1"},
        BadRow{"another_version", "io/v1", "io/v2", "expected an AdmissionReview", "u-1"},
        BadRow{"another_group", "admission.k8s", "authentication.k8s", "expected an Adm", "u-1"},
        BadRow{"no_uid", R"("uid":"u-1",)", "", "/request/uid: missing", ""},
        BadRow{"uid_no_text", R"("u-1")", "7", "/request/uid: missing", ""},
        BadRow{"operation", R"("CREATE")", R"("PATCH")", "/request/operation: expected", "u-1"},
        BadRow{"no_request", R"("request":{)", R"("x":{)", "/request/uid: missing", ""}),
    [](const auto& row) { return row.param.name; });

TEST(AdmissionReview, NothingIsNoReview) {
    for (const char* text : {"", "null", "[]", "\"x\"", "{}"}) {
        ReviewId id;
        EXPECT_FALSE(parse_review(text, id)) << text;
    }
    ReviewId id;
    EXPECT_FALSE(parse_review(std::string(400, '[') + std::string(400, ']'), id)) << "too deep";
}

struct AnswerRow {
    const char* name;
    kube::AdmissionAnswer answer;
    const char* response;
};
std::ostream& operator<<(std::ostream& out, const AnswerRow& row) {
    return out << row.name;
}
class Answer : public ::testing::TestWithParam<AnswerRow> {};

TEST_P(Answer, IsRendered) {
    EXPECT_EQ(render_review({"admission.k8s.io/v1", "u"}, GetParam().answer),
              R"({"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":)" +
                  std::string(GetParam().response) + "}");
}

json::Value one_patch() {
    return json::parse(R"([{"op":"add","path":"/a","value":1}])").value();
}

INSTANTIATE_TEST_SUITE_P(
    Rules,
    Answer,
    ::testing::Values(
        AnswerRow{"allowed", {.allowed = true}, R"({"uid":"u","allowed":true})"},
        AnswerRow{"denied",
                  {.message = "no"},
                  R"({"uid":"u","allowed":false,"status":)"
                  R"({"status":"Failure","message":"no","code":403,"reason":"Forbidden"}})"},
        AnswerRow{"denied_without_words",
                  {},
                  R"({"uid":"u","allowed":false,"status":)"
                  R"({"status":"Failure","message":"denied","code":403,"reason":"Forbidden"}})"},
        AnswerRow{"denied_with_code_and_reason",
                  {.code = 422, .message = "bad", .reason = "Odd"},
                  R"({"uid":"u","allowed":false,"status":)"
                  R"({"status":"Failure","message":"bad","code":422,"reason":"Odd"}})"},
        AnswerRow{"patched",
                  {.allowed = true, .patch = one_patch()},
                  R"({"uid":"u","allowed":true,"patch":)"
                  R"("W3sib3AiOiJhZGQiLCJwYXRoIjoiL2EiLCJ2YWx1ZSI6MX1d","patchType":"JSONPatch"})"},
        AnswerRow{"empty_patch_is_none",
                  {.allowed = true, .patch = json::list()},
                  R"({"uid":"u","allowed":true})"},
        AnswerRow{"denial_has_no_patch",
                  {.message = "no", .patch = one_patch()},
                  R"({"uid":"u","allowed":false,"status":)"
                  R"({"status":"Failure","message":"no","code":403,"reason":"Forbidden"}})"},
        AnswerRow{"warnings_and_audit",
                  {.allowed = true, .warnings = {"old\nfield", "x"}, .audit = {{"k", "v"}}},
                  R"({"uid":"u","allowed":true,"warnings":["old field","x"],)"
                  R"("auditAnnotations":{"k":"v"}})"}),
    [](const auto& row) { return row.param.name; });

TEST(Warnings, AreCutBetweenCharacters) {
    kube::AdmissionAnswer answer{.allowed = true};
    answer.warnings = {std::string(255, 'a') + "é"};  // two bytes, one too many
    EXPECT_NE(render_review({}, answer).find("[\"" + std::string(255, 'a') + "\"]"),
              std::string::npos);
    answer.warnings = {std::string(254, 'a') + "é"};
    EXPECT_NE(render_review({}, answer).find("[\"" + std::string(254, 'a') + "é\"]"),
              std::string::npos);
}

TEST(Warnings, AreFourKibibytesInAll) {
    kube::AdmissionAnswer answer{.allowed = true};
    answer.warnings.assign(40, std::string(300, 'w'));
    const auto rendered = json::parse(render_review({}, answer)).value();
    const auto& warnings = json::View(rendered)["response"]["warnings"].array();
    EXPECT_EQ(warnings.size(), kWarningsBytesMax / kWarningBytesMax);
    EXPECT_EQ(warnings.front().if_string()->size(), kWarningBytesMax);
}

TEST(Failure, IsAReviewToo) {
    EXPECT_EQ(render_failure({}, 500, "broken"),
              R"({"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":)"
              R"({"uid":"","allowed":false,"status":)"
              R"({"status":"Failure","message":"broken","code":500,"reason":"InternalError"}}})");
}

struct TimeRow {
    const char* query;
    std::chrono::nanoseconds time;
};

TEST(HandlerTime, ComesFromTheQueryLessTheWayBack) {
    const TimeRow rows[] = {{"", 9500ms},
                            {"timeout=10s", 9500ms},
                            {"timeout=1s", 900ms},
                            {"a=b&timeout=2s&c=d", 1800ms},
                            {"timeout=30s", 29500ms},
                            {"timeout=5m", 29500ms},
                            {"timeout=0s", 9500ms},
                            {"timeout=-1s", 9500ms},
                            {"timeout=soon", 9500ms},
                            {"timeout=", 9500ms},
                            {"xtimeout=1s", 9500ms}};
    for (const TimeRow& row : rows) {
        EXPECT_EQ(handler_time(row.query), row.time) << row.query;
    }
}

TEST(Base64, HasPadding) {
    EXPECT_EQ(to_base64(""), "");
    EXPECT_EQ(to_base64("f"), "Zg==");
    EXPECT_EQ(to_base64("fo"), "Zm8=");
    EXPECT_EQ(to_base64("foo"), "Zm9v");
    EXPECT_EQ(to_base64(std::string_view("\xff\0\x80", 3)), "/wCA");
}

}  // namespace
}  // namespace capstan::webhook
