// What a reader of deltas accepts beside what is written today, and what it refuses.
#include "plugins/steward-bridge/snapshot/delta_reader.hpp"

#include "plugins/steward-bridge/stream/testing_streams.hpp"

#include <gtest/gtest.h>

namespace capstan::steward {
namespace {

Result<std::vector<DeltaEvent>> read_events(const std::string& payload,
                                            DeltaRange range = {},
                                            std::size_t piece = 0) {
    TextSource source(payload, piece);
    DeltaReader reader(source, "Incr-7", range);
    std::vector<DeltaEvent> events;
    DeltaEvent event;
    while (true) {
        CAPSTAN_TRY(const bool more, reader.next(event));
        if (!more) {
            return events;
        }
        events.push_back(event);
    }
}

const DeltaEvent kPut{.key = "foo",
                      .value = "bar",
                      .create_revision = 23,
                      .mod_revision = 23,
                      .version = 1,
                      .lease = -5};

struct AcceptedRow {
    const char* name;
    const char* payload;
};
class Accepted : public testing::TestWithParam<AcceptedRow> {};

TEST_P(Accepted, AsTheSameEvent) {
    const std::string payload = GetParam().payload;
    for (const std::size_t piece : {0, 1, 2, 5}) {
        const auto events = read_events(payload, {23, 23}, piece);
        ASSERT_TRUE(events) << events.error().message;
        ASSERT_EQ(events.value().size(), 1u);
        EXPECT_EQ(events.value()[0], kPut);
    }
    for (std::size_t size = 0; size < payload.size(); ++size) {
        EXPECT_FALSE(read_events(payload.substr(0, size), {23, 23}, 7)) << size;
    }
}

// clang-format off
INSTANTIATE_TEST_SUITE_P(DeltaReader, Accepted, testing::Values(
    AcceptedRow{"plain",
        R"([{"etcdEvent":{"kv":{"key":"Zm9v","create_revision":23,"mod_revision":23,"version":1,"value":"YmFy","lease":-5}},"time":"2026-11-30T01:45:50Z"}])"},
    AcceptedRow{"zero_type_and_no_time",
        R"([{"etcdEvent":{"type":0,"kv":{"key":"Zm9v","create_revision":23,"mod_revision":23,"version":1,"value":"YmFy","lease":-5}}}])"},
    AcceptedRow{"white_space",
        " \n[ {\t\"etcdEvent\" :\r\n{ \"kv\" : { \"key\" : \"Zm9v\" , \"create_revision\" : 23 , "
        "\"mod_revision\" : 23 , \"version\" : 1 , \"value\" : \"YmFy\" , \"lease\" : -5 } } , "
        "\"time\" : \"x\" } ]"},
    AcceptedRow{"another_order",
        R"([{"time":"x","etcdEvent":{"kv":{"lease":-5,"value":"YmFy","version":1,"mod_revision":23,"create_revision":23,"key":"Zm9v"},"type":0}}])"},
    AcceptedRow{"previous",
        R"([{"etcdEvent":{"kv":{"key":"Zm9v","create_revision":23,"mod_revision":23,"version":1,"value":"YmFy","lease":-5},"prev_kv":{"key":"Zm9v","mod_revision":9,"value":"b2xk"}}}])"},
    AcceptedRow{"unknown_members",
        R"([{"x":null,"etcdEvent":{"y":[1,-2.5e+3,{"z":[[],{},"a\"]}\\"]},true,false],"kv":{"key":"Zm9v","q":{"a":{"b":{}}},"create_revision":23,"mod_revision":23,"version":1,"value":"YmFy","lease":-5}},"a name with spaces and \" in it that is longer than any name known here":{"etcdEvent":{}}}])"},
    AcceptedRow{"escapes",
        R"([{"etcd\u0045vent":{"\u006bv":{"key":"\u005am9v","create_revision":23,"mod_revision":23,"version":1,"value":"Y\u006dFy","lease":-5}}}])"},
    AcceptedRow{"nulls",
        R"([{"etcdEvent":{"type":null,"kv":{"key":"Zm9v","create_revision":23,"mod_revision":23,"version":1,"value":"YmFy","lease":-5},"prev_kv":null},"leases":null}])"}),
    [](const auto& row) { return row.param.name; });
// clang-format on

struct RefusedRow {
    const char* name;
    const char* payload;
    const char* error;
};
class Refused : public testing::TestWithParam<RefusedRow> {};

TEST_P(Refused, WithWhatAndWhere) {
    for (const std::size_t piece : {0, 1, 3}) {
        const auto events = read_events(GetParam().payload, {23, 24}, piece);
        ASSERT_FALSE(events);
        EXPECT_EQ(events.error().code, Code::invalid);
        EXPECT_TRUE(events.error().message.starts_with("Incr-7 is damaged: "));
        EXPECT_NE(events.error().message.find(GetParam().error), std::string::npos)
            << events.error().message;
    }
}

// clang-format off
#define PUT(key, revision) \
    R"({"etcdEvent":{"kv":{"key":")" key R"(","create_revision":)" revision \
    R"(,"mod_revision":)" revision R"(,"version":1}}})"
INSTANTIATE_TEST_SUITE_P(DeltaReader, Refused, testing::Values(
    RefusedRow{"nothing", "", "it ends where '[' must be at byte 0"},
    RefusedRow{"no_array", R"({"a":1})", "there is '{' where '[' must be at byte 0"},
    RefusedRow{"no_events", "[]", "it holds no event"},
    RefusedRow{"null_event", "[null]", "there is 'n' where '{' must be at byte 1"},
    RefusedRow{"null_event_inside", R"([{"etcdEvent":null}])", "where '{' must be"},
    RefusedRow{"cut", "[" PUT("YQ==", "23") ",{\"etcdEv",
        "it ends where the rest of a string must be"},
    RefusedRow{"not_closed", "[" PUT("YQ==", "23") "," PUT("YQ==", "24"),
        "it ends where ']' must be"},
    RefusedRow{"something_behind", "[" PUT("YQ==", "23") "," PUT("YQ==", "24") "]]",
        "there is ']' where the end must be"},
    RefusedRow{"comma_behind", "[" PUT("YQ==", "23") ",]", "where '{' must be"},
    RefusedRow{"zero_byte", R"([{"etcdEvent")" "\x01" R"(:1}])", "a byte of value 1 where ':'"},
    RefusedRow{"line_break_in_a_string", "[{\"time\":\"a\nb\"}]",
        "a byte of value 10 where a character of a string must be at byte 11"},
    RefusedRow{"key_twice", R"([{"etcdEvent":{"kv":{"key":"YQ==","key":"YQ=="}}}])",
        R"(member "key" comes twice)"},
    RefusedRow{"event_twice", R"([{"etcdEvent":{"kv":{"key":"YQ=="}},"etcdEvent":{}}])",
        R"(member "etcdEvent" comes twice)"},
    RefusedRow{"unknown_type", R"([{"etcdEvent":{"type":2}}])", "unknown type 2"},
    RefusedRow{"type_as_text", R"([{"etcdEvent":{"type":"DELETE"}}])", "where a number must be"},
    RefusedRow{"number_as_text", R"([{"etcdEvent":{"kv":{"mod_revision":"23"}}}])",
        "where a number must be at byte 36"},
    RefusedRow{"fraction", R"([{"etcdEvent":{"kv":{"mod_revision":23.0}}}])", "no 64-bit integer"},
    RefusedRow{"exponent", R"([{"etcdEvent":{"kv":{"mod_revision":2e1}}}])", "no 64-bit integer"},
    RefusedRow{"leading_zero", R"([{"etcdEvent":{"kv":{"mod_revision":023}}}])",
        "no 64-bit integer"},
    RefusedRow{"too_large", R"([{"etcdEvent":{"kv":{"lease":9223372036854775808}}}])",
        "no 64-bit integer"},
    RefusedRow{"far_too_large",
        R"([{"etcdEvent":{"kv":{"lease":922337203685477580812345678901234567890}}}])",
        "no 64-bit integer"},
    RefusedRow{"no_base64", R"([{"etcdEvent":{"kv":{"key":"Zm9*"}}}])", "there is no base64"},
    RefusedRow{"base64_cut", R"([{"etcdEvent":{"kv":{"key":"Zm9vY"}}}])",
        "base64 ends inside a group of four"},
    RefusedRow{"base64_without_padding", R"([{"etcdEvent":{"kv":{"key":"Zg="}}}])",
        "base64 ends inside a group of four"},
    RefusedRow{"base64_behind_padding", R"([{"etcdEvent":{"kv":{"key":"Zg==Zg=="}}}])",
        "there is no base64"},
    RefusedRow{"base64_padding_alone", R"([{"etcdEvent":{"kv":{"key":"Z==="}}}])",
        "there is no base64"},
    RefusedRow{"bad_escape", R"([{"etcd\x0045vent":1}])", "where an escape must be"},
    RefusedRow{"bad_unicode", R"([{"etcd\u00G5vent":1}])", "where a hexadecimal digit must be"},
    RefusedRow{"bad_null", R"([{"etcdEvent":{"type":nul1}}])", "where null must be"},
    RefusedRow{"no_key", R"([{"etcdEvent":{"kv":{"mod_revision":23}}}])",
        "an event without key or mod_revision"},
    RefusedRow{"no_kv", R"([{"etcdEvent":{}}])", "an event without key or mod_revision"},
    RefusedRow{"no_event", R"([{}])", "an event without key or mod_revision"},
    RefusedRow{"no_version",
        R"([{"etcdEvent":{"kv":{"key":"YQ==","create_revision":23,"mod_revision":23}}}])",
        "the put of revision 23 has no version"},
    RefusedRow{"created_later",
        R"([{"etcdEvent":{"kv":{"key":"YQ==","create_revision":24,"mod_revision":23,"version":1}}}])", "the put of revision 23 has no version"},
    RefusedRow{"first_missing", "[" PUT("YQ==", "24") "]", "revision 23 is missing before 24"},
    RefusedRow{"before_first", "[" PUT("YQ==", "22") "]", "revision 23 is missing before 22"},
    RefusedRow{"last_missing", "[" PUT("YQ==", "23") "]",
        "its last revision is 23, not 24 as in its name"},
    RefusedRow{"beyond_last", "[" PUT("YQ==", "23") "," PUT("YQ==", "24") "," PUT("YQ==",
        "25") "]", "revision 25 is above 24"},
    RefusedRow{"gap", "[" PUT("YQ==", "23") "," PUT("YQ==", "26") "]",
        "revision 24 is missing before 26"},
    RefusedRow{"falling", "[" PUT("YQ==", "23") "," PUT("YQ==", "24") "," PUT("YQ==", "23") "]",
        "revision 23 comes after 24"},
    RefusedRow{"lease_without_name", R"([{"leases":[{7:1}]}])", "where '\"' must be"}),
    [](const auto& row) { return row.param.name; });
// clang-format on

TEST(DeltaReader, NeedsNoName) {
    EXPECT_EQ(read_events("[]").value().size(), 0u);
    EXPECT_EQ(read_events("[" PUT("YQ==", "7") "," PUT("Yg==", "7") "]").value().size(), 2u);
    EXPECT_FALSE(read_events("[" PUT("YQ==", "7") "," PUT("Yg==", "9") "]"));
}

// The number ends the text and is whole: only what follows is missing.
TEST(DeltaReader, EndsInANumber) {
    for (const std::size_t piece : {0, 1, 5}) {
        const auto events = read_events(R"([{"etcdEvent":{"kv":{"lease":-92)", {}, piece);
        ASSERT_FALSE(events);
        EXPECT_NE(events.error().message.find("it ends where '}' must be at byte 32"),
                  std::string::npos)
            << events.error().message;
    }
}

TEST(DeltaReader, SkipsDeepNestingUpToALimit) {
    const auto nested = [](std::size_t depth) {
        return R"([{"x":)" + std::string(depth, '[') + std::string(depth, ']') +
               R"(,"etcdEvent":)"
               R"({"kv":{"key":"YQ==","mod_revision":1,"create_revision":1,"version":1}}}])";
    };
    EXPECT_TRUE(read_events(nested(kDeltaDepthMax)));
    const auto deeper = read_events(nested(kDeltaDepthMax + 1));
    ASSERT_FALSE(deeper);
    EXPECT_NE(deeper.error().message.find("nested deeper than 128"), std::string::npos);
}

TEST(DeltaReader, LimitsValues) {
    TextSource source(R"("YWJj")");
    DeltaScanner fits(source, "x", 3);
    std::string bytes;
    EXPECT_TRUE(fits.read_base64(bytes));
    EXPECT_EQ(bytes, "abc");
    TextSource other(R"("YWJjZA==")");
    DeltaScanner scanner(other, "x", 3);
    EXPECT_FALSE(scanner.read_base64(bytes));
    EXPECT_EQ(scanner.error().code, Code::too_large);
}

TEST(DeltaReader, PassesOnWhatTheSourceReports) {
    TextSource source("[" PUT("YQ==", "7"), 11);
    source.fail_at_end({Code::unavailable, "the store is gone", {}});
    DeltaReader reader(source, "Incr");
    DeltaEvent event;
    EXPECT_TRUE(reader.next(event).value());
    const auto more = reader.next(event);
    ASSERT_FALSE(more);
    EXPECT_EQ(more.error().code, Code::unavailable);
    EXPECT_EQ(more.error().message, "the store is gone");
    EXPECT_FALSE(reader.next(event));
}

}  // namespace
}  // namespace capstan::steward
