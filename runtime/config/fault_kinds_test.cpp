// What configuration files of other projects have got wrong, one suite a kind of fault. The table
// in docs/testing.md says which kind is where.
#include "runtime/config/operator_config.hpp"
#include "runtime/config/yaml.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <ostream>
#include <string>
#include <vector>

namespace capstan::config {
namespace {

using namespace std::chrono_literals;

// The value as compact JSON, or the error.
std::string outcome_of(std::string_view text) {
    const auto document = load(text, "f");
    return document ? json::dump(document.value().value) : document.error().message;
}

struct YamlRow {
    const char* name;
    std::string text;
    const char* expected;  // the JSON, or how the error begins: with file and line
};
std::ostream& operator<<(std::ostream& out, const YamlRow& row) {
    return out << row.name;
}

// Kind: parsing (zalando/postgres-operator#1361, lima#1044, kubernetes#128009). Read as YAML 1.2
// core, or refused with the line.
class YamlSurprise : public ::testing::TestWithParam<YamlRow> {};

TEST_P(YamlSurprise, IsReadAsYaml12CoreOrRefusedWithItsLine) {
    const std::string outcome = outcome_of(GetParam().text);
    EXPECT_EQ(outcome.substr(0, std::string_view(GetParam().expected).size()), GetParam().expected)
        << outcome;
}

INSTANTIATE_TEST_SUITE_P(
    All,
    YamlSurprise,
    ::testing::Values(
        YamlRow{"on_is_text", "a: on\n", R"({"a":"on"})"},
        YamlRow{"yes_is_text", "a: yes\nb: No\n", R"({"a":"yes","b":"No"})"},
        YamlRow{"leading_zero", "a: 1\nb: 0123\n", "f:2: /b: integer 0123 with a leading zero"},
        YamlRow{"quoted_leading_zero", "a: '0123'\n", R"({"a":"0123"})"},
        YamlRow{"exponent_is_a_real", "a: 1e3\n", R"({"a":1000.0})"},
        YamlRow{"anchor", "a: 1\nb: &x 2\n", "f:2: /b: anchors (&name) are not supported"},
        YamlRow{"alias", "a: 1\nb: *x\n", "f:2: "},
        YamlRow{"merge_key", "a: &x {b: 1}\nc:\n  <<: *x\n", "f:1: /a: anchors (&name)"},
        YamlRow{"tab_as_indentation", "a:\n\tb: 1\n", "f:2: "},
        YamlRow{"tab_as_indentation_of_a_list", "a:\n  - 1\n\t- 2\n", "f:3: "},
        YamlRow{"tab_after_the_colon", "a:\t1\nb: x\t# note\n", R"({"a":1,"b":"x"})"},
        YamlRow{"tab_inside_text", "a: \"x\ty\"\n", R"({"a":"x\ty"})"},
        YamlRow{"crlf",
                "a: 1\r\nb: yes\r\nc: |\r\n  x\r\n  y\r\n",
                R"({"a":1,"b":"yes","c":"x\ny\n"})"},
        YamlRow{"line_number_with_crlf", "a: 1\r\nb: 0123\r\n", "f:2: /b: integer 0123"},
        YamlRow{"bom",
                "\xEF\xBB\xBF"
                "a: 1\n",
                R"({"a":1})"},
        YamlRow{"bom_and_an_open_quote",
                "\xEF\xBB\xBF"
                "a: \"x\n",
                "f:1: /a: the closing quote is missing"},
        YamlRow{"bom_of_utf_16",
                "\xFF\xFE"
                "a\0:\0",
                "f:1: not UTF-8 text"},
        YamlRow{"two_documents", "a: 1\n---\nb: 2\n", "f:2: a second document"},
        YamlRow{"two_equal_documents", "a: 1\n---\na: 1\n", "f:2: a second document"},
        YamlRow{"end_marker", "a: 1\n...\n", R"({"a":1})"},
        YamlRow{"text_after_the_end_marker", "a: 1\n...\nb: 2\n", "f:3: a second document"},
        YamlRow{"directive_of_1_1", "%YAML 1.1\n---\na: yes\n", R"({"a":"yes"})"},
        YamlRow{"directive_of_2", "%YAML 2.0\n---\na: yes\n", "f:1: "},
        YamlRow{"duplicate_key", "a: 1\nb: 2\na: 3\n", "f:3: duplicate key \"a\", first on line 1"},
        YamlRow{"duplicate_key_in_quotes", "a: 1\n\"a\": 3\n", "f:2: duplicate key \"a\""},
        YamlRow{"sexagesimal_is_text", "a: 22:22\n", R"({"a":"22:22"})"},
        YamlRow{"underscores_are_text", "a: 1_000\n", R"({"a":"1_000"})"},
        YamlRow{"norway", "a: [no, se]\n", R"({"a":["no","se"]})"},
        YamlRow{"null_words", "a: ~\nb:\nc: Null\n", R"({"a":null,"b":null,"c":null})"},
        YamlRow{"binary_tag", "a: 1\nb: !!binary aGk=\n", "f:2: /b: tag "},
        YamlRow{"set_tag", "a: !!set {x, y}\n", "f:1: /a: tag "},
        YamlRow{"stray_comma", "a: 1\n---\n ,\n", "f:3: a \",\" outside of [] and {}"},
        YamlRow{"comma_after_the_text", "a: 1\n,\n", "f:2: "},
        YamlRow{"stray_bracket", "]", "f:1: "},
        YamlRow{"empty_documents", "---\n---\n---\na: 1\n---\n", R"({"a":1})"},
        YamlRow{"colon_without_a_space", "a:1\n", R"("a:1")"}),
    [](const auto& row_info) { return row_info.param.name; });

constexpr std::string_view kHead =
    "apiVersion: config.capstan.dev/v1alpha1\nkind: OperatorConfig\n";

std::string decoded(const std::string& rest) {
    const auto document = load(std::string(kHead) + rest, "f");
    if (!document) {
        return document.error().message;
    }
    const auto config = decode_operator_config(document.value());
    return config ? "accepted" : config.error().message;
}

TEST(OperatorConfigSurprise, WordsThatLookLikeSwitchesAndNumbersAreRefusedWhereOthersAreMeant) {
    EXPECT_EQ(decoded("listeners: {ops: {enabled: on}}\n"),
              "f:3: /listeners/ops/enabled: expected true or false, found string \"on\"");
    EXPECT_EQ(decoded("listeners: {ops: {port: 1e3}}\n"),
              "f:3: /listeners/ops/port: expected integer from 0 to 65535, found number 1000.0");
    EXPECT_EQ(
        decoded("limits:\n  requestsInFlight: 0_5\n"),
        "f:4: /limits/requestsInFlight: expected integer from 1 to 1024, found string \"0_5\"");
    EXPECT_EQ(decoded("plugins: {etcd: {path: 5}}\n"),
              "f:3: /plugins/etcd/path: expected text, found integer 5");
}

std::vector<std::string> examined(const std::string& text) {
    const std::string path =
        testing::TempDir() + "capstan-config-" + std::to_string(::getpid()) + ".yaml";
    std::ofstream(path) << text;
    auto checked = check_operator_config_file(path);
    std::remove(path.c_str());
    std::vector<std::string> problems =
        checked ? checked.value().problems : std::vector<std::string>{checked.error().message};
    for (std::string& problem : problems) {
        problem.replace(0, path.size(), "f");
    }
    return problems;
}

// Kind: one fault hides the others.
TEST(Faults, OfYamlHideNoneOfTheOthers) {
    const std::string head(kHead);
    EXPECT_EQ(examined(head + "gracefulStop: 15s\nlimits: {requestsInFlight: 0}\ngracefulStop: 1\n"
                              "namespaces: &x [A]\n"),
              (std::vector<std::string>{
                  "f:5: duplicate key \"gracefulStop\", first on line 3",
                  "f:6: /namespaces: anchors (&name) are not supported; write the value out",
                  "f:4: /limits/requestsInFlight: 0 is not between 1 and 1024",
                  "f:6: /namespaces: \"A\" is no namespace name"}));
    const auto cut = examined("gracefulStop: 15\nloging: {}\nlisteners: {ops: {port: 70000}\n");
    ASSERT_EQ(cut.size(), 3u) << cut.front();
    EXPECT_TRUE(cut[0].starts_with("f:")) << cut[0];
    EXPECT_TRUE(cut[1].starts_with("f:1: /gracefulStop: expected a duration")) << cut[1];
    EXPECT_EQ(cut[2], "f:2: /loging: unknown key \"loging\", did you mean \"logging\"?");
    EXPECT_EQ(examined(head + "loging: {}\n---\na: 1\n"),
              (std::vector<std::string>{
                  "f:4: a second document; only one is allowed here",
                  "f:3: /loging: unknown key \"loging\", did you mean \"logging\"?"}));
    EXPECT_EQ(examined(""), (std::vector<std::string>{"f: the file holds nothing"}));
}

struct DurationKey {
    const char* name;
    const char* before;  // the text up to the value
    const char* after;
    bool may_be_off;  // 0 has a meaning
};
std::ostream& operator<<(std::ostream& out, const DurationKey& row) {
    return out << row.name;
}

// Kind: type; empty versus unset (controller-runtime#1840, azure-service-operator#3965).
class Duration : public ::testing::TestWithParam<DurationKey> {
protected:
    static std::string with(const std::string& value) {
        return decoded(GetParam().before + value + GetParam().after);
    }
};

TEST_P(Duration, IsTextWithAUnitAndNothingElse) {
    const std::string path = std::string(": /") + GetParam().name + ": ";
    EXPECT_EQ(with("12s"), "accepted");
    EXPECT_EQ(with("\"12s\""), "accepted");
    for (const char* number : {"15", "1.5", "1e1", "true", "[15s]", "{s: 15}"}) {
        EXPECT_NE(with(number).find(path + "expected a duration with unit such as \"15s\""),
                  std::string::npos)
            << number << " " << with(number);
    }
    for (const char* text :
         {"\"\"", "\"15\"", "15 s", "1d", "s", "never", "\"-\"", "1h30", "99999999999h"}) {
        EXPECT_NE(with(text).find("is no duration; write 15s, 1m30s or 250ms"), std::string::npos)
            << text << " " << with(text);
    }
    EXPECT_NE(with("-12s").find("is not between"), std::string::npos);
    for (const char* unset : {"", "~", "null"}) {
        EXPECT_EQ(with(unset), "accepted") << "unset means the default: \"" << unset << "\"";
    }
}

TEST_P(Duration, IsZeroOnlyWhereThatMeansOff) {
    for (const char* zero : {"0", "\"0\"", "0s", "0ms"}) {
        const bool accepted = with(zero) == "accepted";
        EXPECT_EQ(accepted, GetParam().may_be_off) << zero << " " << with(zero);
    }
}

INSTANTIATE_TEST_SUITE_P(
    Keys,
    Duration,
    ::testing::Values(
        DurationKey{"gracefulStop", "gracefulStop: ", "\n", true},
        DurationKey{"limits/requestTimeout", "limits: {requestTimeout: ", "}\n", false},
        DurationKey{"limits/reconcileTimeout", "limits: {reconcileTimeout: ", "}\n", false},
        DurationKey{"limits/cacheSyncTimeout", "limits: {cacheSyncTimeout: ", "}\n", false},
        DurationKey{
            "leaderElection/leaseDuration", "leaderElection: {leaseDuration: ", "}\n", false},
        DurationKey{"leaderElection/renewDeadline",
                    "leaderElection: {leaseDuration: 1h, renewDeadline: ",
                    "}\n",
                    false},
        DurationKey{"leaderElection/retryPeriod",
                    "leaderElection: {leaseDuration: 1h, renewDeadline: 30m, retryPeriod: ",
                    "}\n",
                    false}));

// An unset value is the default, not "off": what is printed says so.
TEST(Duration, UnsetIsTheDefault) {
    const auto document = load(std::string(kHead) + "gracefulStop:\n", "f");
    EXPECT_EQ(decode_operator_config(document.value()).value().graceful_stop, 30s);
}

struct CrossRow {
    const char* name;
    const char* text;
    const char* expected;  // in the error; "accepted"
};
std::ostream& operator<<(std::ostream& out, const CrossRow& row) {
    return out << row.name;
}

// Kind: cross-field (settings that are valid alone and flap together).
class CrossField : public ::testing::TestWithParam<CrossRow> {};

TEST_P(CrossField, IsChecked) {
    EXPECT_NE(decoded(GetParam().text).find(GetParam().expected), std::string::npos)
        << decoded(GetParam().text);
}

#define ELECTION(lease, renew, retry)                                                          \
    "leaderElection: {leaseDuration: " lease ", renewDeadline: " renew ", retryPeriod: " retry \
    "}"                                                                                        \
    "\n"

INSTANTIATE_TEST_SUITE_P(
    Rules,
    CrossField,
    ::testing::Values(
        CrossRow{"usual", ELECTION("15s", "10s", "2s"), "accepted"},
        CrossRow{"renew_equals_lease",
                 ELECTION("15s", "15s", "2s"),
                 "f:3: /leaderElection/leaseDuration: must be longer than renewDeadline"},
        CrossRow{"renew_above_lease",
                 ELECTION("15s", "20s", "2s"),
                 "/leaderElection/leaseDuration: must be longer"},
        CrossRow{"renew_above_the_default_lease",
                 "leaderElection: {renewDeadline: 20s}\n",
                 "must be longer than renewDeadline"},
        CrossRow{"retry_of_a_fifth_less",
                 ELECTION("15s", "12s", "10s"),
                 "f:3: /leaderElection/renewDeadline: must be longer than 1.2 x retryPeriod"},
        CrossRow{"retry_just_below", ELECTION("15s", "12s", "9999ms"), "accepted"},
        CrossRow{"retry_above_renew",
                 ELECTION("15s", "10s", "12s"),
                 "must be longer than 1.2 x retryPeriod"},
        CrossRow{"same_port",
                 "listeners: {ops: {port: 9000}, api: {port: 9000}}\n",
                 "f:3: /listeners: ops and api have the same port 9000"},
        CrossRow{"same_port_as_the_default",
                 "listeners: {api: {port: 8080}}\n",
                 "ops and api have the same port 8080"},
        CrossRow{"same_port_of_one_that_is_off",
                 "listeners: {ops: {enabled: false, port: 9000}, api: {port: 9000}}\n",
                 "accepted"},
        CrossRow{
            "any_free_port_twice", "listeners: {ops: {port: 0}, api: {port: 0}}\n", "accepted"},
        CrossRow{"port_too_large",
                 "listeners: {ops: {port: 70000}}\n",
                 "70000 is not between 0 and 65535"},
        CrossRow{
            "port_negative", "listeners: {ops: {port: -1}}\n", "-1 is not between 0 and 65535"},
        CrossRow{"certificate_without_key",
                 "listeners: {api: {tls: {certificateFile: /c}}}\n",
                 "certificateFile and keyFile go together"},
        CrossRow{
            "client_auth_without_ca",
            "listeners: {api: {tls: {certificateFile: /c, keyFile: /k, clientAuth: require}}}\n",
            "needs clientCaFile"},
        CrossRow{"client_auth_without_tls",
                 "listeners: {api: {tls: {clientCaFile: /a, clientAuth: require}}}\n",
                 "needs certificateFile and keyFile"},
        CrossRow{"plugin_by_both_names",
                 "plugins: {etcd: {}, etcd.capstan.dev: {}}\n",
                 "configured twice"}),
    [](const auto& row_info) { return row_info.param.name; });

#undef ELECTION

}  // namespace
}  // namespace capstan::config
