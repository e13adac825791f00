#include "runtime/plugin/predicate.hpp"

#include <gtest/gtest.h>

#include <ostream>
#include <string>

namespace capstan::plugin {
namespace {

json::Value parsed(std::string_view text) {
    auto value = json::parse(text);
    EXPECT_TRUE(value) << text << ": " << (value ? "" : value.error().message);
    return value ? std::move(value).value() : json::Value();
}

Predicate compiled(std::string_view text, const PredicateContext& context = {}) {
    Problems problems;
    Predicate predicate = Predicate::compile(parsed(text), context, "/p", problems);
    EXPECT_TRUE(problems.empty()) << text << ": "
                                  << (problems.empty() ? "" : problems.lines().front());
    return predicate;
}

struct Row {
    const char* name;
    const char* predicate;
    EventType type;
    const char* old_object;  // "": absent
    const char* new_object;
    bool pass;
    bool error{false};
};
std::ostream& operator<<(std::ostream& out, const Row& row) {
    return out << row.name;
}

class PredicateRow : public testing::TestWithParam<Row> {};

TEST_P(PredicateRow, Decides) {
    const Row& row = GetParam();
    const json::Value named = parsed(R"({"specOnly": {"changed": "/spec"}})");
    const json::Value config = parsed(R"({"auto": true, "limit": "1Gi"})");
    Problems problems;
    const GateTable table = GateTable::parse(
        parsed(R"({"New": [{"since": "1.0", "stage": "Alpha", "default": false}]})"),
        "/featureGates",
        problems);
    GateSet gates = table.effective({1, 0, 0}, {{"New", true}}).set;
    PredicateContext context;
    context.named = &named;
    context.gates = &table;
    const Predicate predicate = compiled(row.predicate, context);
    const json::Value before = parsed(*row.old_object != '\0' ? row.old_object : "null");
    const json::Value after = parsed(*row.new_object != '\0' ? row.new_object : "null");
    EventView event;
    event.type = row.type;
    event.old_object = before.is_null() ? nullptr : &before;
    event.new_object = after.is_null() ? nullptr : &after;
    event.config = &config;
    event.gates = &gates;
    const Verdict verdict = predicate.evaluate(event);
    EXPECT_EQ(verdict.pass, row.pass);
    EXPECT_EQ(verdict.error, row.error);
}

constexpr auto kCreate = EventType::create;
constexpr auto kUpdate = EventType::update;
constexpr auto kDelete = EventType::removal;
constexpr auto kResync = EventType::resync;

INSTANTIATE_TEST_SUITE_P(
    Structure,
    PredicateRow,
    testing::Values(
        Row{"constant_true", "true", kUpdate, "{}", "{}", true},
        Row{"constant_false", "false", kUpdate, "{}", "{}", false},
        Row{"all_needs_each", R"({"all":[true,false]})", kUpdate, "{}", "{}", false},
        Row{"any_needs_one", R"({"any":[false,true]})", kUpdate, "{}", "{}", true},
        Row{"any_of_none_true", R"({"any":[false,false]})", kUpdate, "{}", "{}", false},
        Row{"not_turns", R"({"not":false})", kUpdate, "{}", "{}", true},
        Row{"use_named", R"({"use":"specOnly"})", kUpdate, R"({"spec":1})", R"({"spec":2})", true},
        Row{"case_create", R"({"case":{"create":true,"else":false}})", kCreate, "", "{}", true},
        Row{"case_else", R"({"case":{"create":true,"else":false}})", kUpdate, "{}", "{}", false},
        Row{"case_delete", R"({"case":{"delete":true,"else":false}})", kDelete, "{}", "", true},
        Row{"case_resync", R"({"case":{"resync":false,"else":true}})", kResync, "{}", "{}", false},
        Row{"case_external",
            R"({"case":{"external":true,"else":false}})",
            EventType::external,
            "{}",
            "{}",
            true}));

INSTANTIATE_TEST_SUITE_P(
    Transitions,
    PredicateRow,
    testing::Values(
        Row{"generation_on_create", R"({"generationChanged":true})", kCreate, "", "{}", true},
        Row{"generation_on_delete", R"({"generationChanged":true})", kDelete, "{}", "", true},
        Row{"generation_on_resync",
            R"({"generationChanged":true})",
            kResync,
            R"({"metadata":{"generation":3}})",
            R"({"metadata":{"generation":3}})",
            false},
        Row{"generation_moved",
            R"({"generationChanged":true})",
            kUpdate,
            R"({"metadata":{"generation":3}})",
            R"({"metadata":{"generation":4}})",
            true},
        Row{"deletion_started",
            R"({"deletionStarted":true})",
            kUpdate,
            R"({"metadata":{}})",
            R"({"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"}})",
            true},
        Row{"deletion_goes_on",
            R"({"deletionStarted":true})",
            kUpdate,
            R"({"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"}})",
            R"({"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"}})",
            false},
        Row{"deleting",
            R"({"deleting":true})",
            kUpdate,
            "{}",
            R"({"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"}})",
            true},
        Row{"changed_absent_to_present",
            R"({"changed":"/a/b"})",
            kUpdate,
            "{}",
            R"({"a":{"b":1}})",
            true},
        Row{"changed_null_is_absent", R"({"changed":"/a"})", kUpdate, "{}", R"({"a":null})", false},
        Row{"changed_one_of_list",
            R"({"changed":["/a","/b"]})",
            kUpdate,
            R"({"a":1,"b":1})",
            R"({"a":1,"b":2})",
            true},
        Row{"changed_ignores_order_of_members",
            R"({"changed":"/a"})",
            kUpdate,
            R"({"a":{"x":1,"y":2}})",
            R"({"a":{"y":2,"x":1}})",
            false},
        Row{"changed_in_list_item",
            R"({"changed":"/a/1"})",
            kUpdate,
            R"({"a":[1,2]})",
            R"({"a":[1,3]})",
            true},
        Row{"changed_only_in_ignored",
            R"({"changed":"/s","ignore":["/s/n","/s/d/e"]})",
            kUpdate,
            R"({"s":{"n":1,"d":{"e":1,"f":0}}})",
            R"({"s":{"n":2,"d":{"e":2,"f":0}}})",
            false},
        Row{"changed_beside_ignored",
            R"({"changed":"/s","ignore":["/s/d/e"]})",
            kUpdate,
            R"({"s":{"d":{"e":1,"f":0}}})",
            R"({"s":{"d":{"e":2,"f":1}}})",
            true},
        Row{"changed_new_member_beside_ignored",
            R"({"changed":"/s","ignore":["/s/n"]})",
            kUpdate,
            R"({"s":{"n":1}})",
            R"({"s":{"n":1,"m":1}})",
            true},
        Row{"changed_ignored_in_list",
            R"({"changed":"/s","ignore":"/s/0/t"})",
            kUpdate,
            R"({"s":[{"t":1}]})",
            R"({"s":[{"t":2}]})",
            false},
        Row{"labels_any",
            R"({"labelsChanged":[]})",
            kUpdate,
            R"({"metadata":{"labels":{"a":"1"}}})",
            R"({"metadata":{"labels":{"a":"2"}}})",
            true},
        Row{"labels_empty_is_absent",
            R"({"labelsChanged":[]})",
            kUpdate,
            R"({"metadata":{"labels":{}}})",
            R"({"metadata":{}})",
            false},
        Row{"labels_other_key",
            R"({"labelsChanged":["b"]})",
            kUpdate,
            R"({"metadata":{"labels":{"a":"1"}}})",
            R"({"metadata":{"labels":{"a":"2"}}})",
            false},
        Row{"annotations_key",
            R"({"annotationsChanged":["a/b"]})",
            kUpdate,
            R"({"metadata":{}})",
            R"({"metadata":{"annotations":{"a/b":"x"}}})",
            true},
        Row{"crosses_up",
            R"({"crosses":{"old":{"old":"/n"},"new":{"new":"/n"},"bound":5,"dir":"up"}})",
            kUpdate,
            R"({"n":4})",
            R"({"n":5})",
            true},
        Row{"crosses_stays_above",
            R"({"crosses":{"old":{"old":"/n"},"new":{"new":"/n"},"bound":5,"dir":"either"}})",
            kUpdate,
            R"({"n":6})",
            R"({"n":9})",
            false},
        Row{"crosses_down",
            R"({"crosses":{"old":{"old":"/n"},"new":{"new":"/n"},"bound":5,"dir":"down"}})",
            kUpdate,
            R"({"n":5})",
            R"({"n":4})",
            true},
        Row{"crosses_wrong_way",
            R"({"crosses":{"old":{"old":"/n"},"new":{"new":"/n"},"bound":5,"dir":"up"}})",
            kUpdate,
            R"({"n":5})",
            R"({"n":4})",
            false},
        Row{"crosses_on_create_without_default",
            R"({"crosses":{"old":{"old":"/n"},"new":{"new":"/n"},"bound":5,"dir":"up"}})",
            kCreate,
            "",
            R"({"n":9})",
            false},
        Row{"crosses_on_create_with_default",
            R"({"crosses":{"old":{"old":"/n","default":0},"new":{"new":"/n"},"bound":5,"dir":"up"}})",
            kCreate,
            "",
            R"({"n":9})",
            true}));

constexpr const char* kOwned =
    R"({"metadata":{"name":"main-compactor","labels":{"app":"etcd","tier":"x"},"annotations":{"op":"reconcile"},
        "ownerReferences":[{"kind":"Pod","name":"p"},{"apiVersion":"g/v1","kind":"Etcd","name":"main","controller":true}]},
        "status":{"active":1,"conditions":[{"type":"Ready","status":"True"}]}})";

INSTANTIATE_TEST_SUITE_P(
    Objects,
    PredicateRow,
    testing::Values(
        Row{"exists", R"({"exists":"/status/active"})", kUpdate, "{}", kOwned, true},
        Row{"exists_on_delete_looks_at_old",
            R"({"exists":"/status/active"})",
            kDelete,
            kOwned,
            "",
            true},
        Row{"absent", R"({"absent":"/status/none"})", kUpdate, "{}", kOwned, true},
        Row{"pointer_escapes",
            R"({"exists":"/a~1b/c~0d"})",
            kUpdate,
            "{}",
            R"({"a/b":{"c~d":1}})",
            true},
        Row{"labels", R"-({"labels":"app=etcd,tier in (x,y)"})-", kUpdate, "{}", kOwned, true},
        Row{"labels_not", R"({"labels":"app!=etcd"})", kUpdate, "{}", kOwned, false},
        Row{"labels_of_old", R"({"labels":"app","of":"old"})", kUpdate, "{}", kOwned, false},
        Row{"labels_of_either", R"({"labels":"app","of":"either"})", kUpdate, kOwned, "{}", true},
        Row{"labels_of_new_on_delete",
            R"({"labels":"app","of":"new"})",
            kDelete,
            kOwned,
            "",
            false},
        Row{"annotation_any", R"({"annotation":{"key":"op"}})", kUpdate, "{}", kOwned, true},
        Row{"annotation_equals",
            R"({"annotation":{"key":"op","equals":"reconcile"}})",
            kUpdate,
            "{}",
            kOwned,
            true},
        Row{"annotation_in",
            R"({"annotation":{"key":"op","in":["a","b"]}})",
            kUpdate,
            "{}",
            kOwned,
            false},
        Row{"owned",
            R"({"owned":{"kind":"Etcd","apiVersion":"g/v1","controller":true}})",
            kUpdate,
            "{}",
            kOwned,
            true},
        Row{"owned_not_as_controller",
            R"({"owned":{"kind":"Pod","controller":true}})",
            kUpdate,
            "{}",
            kOwned,
            false},
        Row{"condition",
            R"({"condition":{"type":"Ready","status":"True"}})",
            kUpdate,
            "{}",
            kOwned,
            true},
        Row{"condition_changed",
            R"({"condition":{"type":"Ready","changed":true}})",
            kUpdate,
            "{}",
            kOwned,
            true},
        Row{"condition_same",
            R"({"condition":{"type":"Ready","changed":true}})",
            kUpdate,
            kOwned,
            kOwned,
            false},
        Row{"any_item",
            R"({"anyItem":{"at":"/status/conditions","where":{"all":[{"eq":[{"item":"/type"},"Ready"]}, {"eq":[{"item":"/status"},"True"]}]}}})",
            kUpdate,
            "{}",
            kOwned,
            true},
        Row{"any_item_none",
            R"({"anyItem":{"at":"/status/conditions","where":{"eq":[{"item":"/type"},"No"]}}})",
            kUpdate,
            "{}",
            kOwned,
            false},
        Row{"any_item_absent",
            R"({"anyItem":{"at":"/no","where":{"eq":[{"item":""},1]}}})",
            kUpdate,
            "{}",
            kOwned,
            false},
        Row{"any_item_not_a_list",
            R"({"anyItem":{"at":"/status","where":{"eq":[{"item":""},1]}}})",
            kUpdate,
            "{}",
            kOwned,
            true,
            true}));

INSTANTIATE_TEST_SUITE_P(
    Comparisons,
    PredicateRow,
    testing::Values(
        Row{"eq_text", R"({"eq":[{"new":"/a"},"x"]})", kUpdate, "{}", R"({"a":"x"})", true},
        Row{"eq_other_kind_is_false",
            R"({"eq":[{"new":"/a"},"1"]})",
            kUpdate,
            "{}",
            R"({"a":1})",
            false},
        Row{"ne_absent_is_true", R"({"ne":[{"new":"/a"},1]})", kUpdate, "{}", "{}", true},
        Row{"lt_absent_is_false", R"({"lt":[{"new":"/a"},1]})", kUpdate, "{}", "{}", false},
        Row{"default_stands_in",
            R"({"lt":[{"new":"/a","default":0},1]})",
            kUpdate,
            "{}",
            "{}",
            true},
        Row{"real_against_integer",
            R"({"ge":[{"new":"/a"},2]})",
            kUpdate,
            "{}",
            R"({"a":2.5})",
            true},
        Row{"order_of_kinds_fails_open",
            R"({"lt":[{"new":"/a"},1]})",
            kUpdate,
            "{}",
            R"({"a":"x"})",
            true,
            true},
        Row{"failed_conversion_fails_open",
            R"({"eq":[{"new":"/a","as":"int"},1]})",
            kUpdate,
            "{}",
            R"({"a":"x"})",
            true,
            true},
        Row{"failure_makes_the_whole_true",
            R"({"not":{"eq":[{"new":"/a","as":"int"},1]}})",
            kUpdate,
            "{}",
            R"({"a":"x"})",
            true,
            true},
        Row{"int_from_text",
            R"({"gt":[{"new":"/a","as":"int"},9]})",
            kUpdate,
            "{}",
            R"({"a":"10"})",
            true},
        Row{"text_order_is_bytes",
            R"({"gt":[{"new":"/a"},"9"]})",
            kUpdate,
            "{}",
            R"({"a":"10"})",
            false},
        Row{"quantity_binary",
            R"({"eq":[{"new":"/a","as":"quantity"},"0.5Gi"]})",
            kUpdate,
            "{}",
            R"({"a":"512Mi"})",
            true},
        Row{"quantity_milli",
            R"({"lt":[{"new":"/a","as":"quantity"},1]})",
            kUpdate,
            "{}",
            R"({"a":"999m"})",
            true},
        Row{"quantity_exponent",
            R"({"eq":[{"new":"/a","as":"quantity"},"1k"]})",
            kUpdate,
            "{}",
            R"({"a":"1e3"})",
            true},
        Row{"quantity_of_config",
            R"({"gt":[{"new":"/a","as":"quantity"},{"config":"/limit"}]})",
            kUpdate,
            "{}",
            R"({"a":"2Gi"})",
            true},
        Row{"quantity_malformed",
            R"({"gt":[{"new":"/a","as":"quantity"},1]})",
            kUpdate,
            "{}",
            R"({"a":"2Qi"})",
            true,
            true},
        Row{"duration",
            R"({"ge":[{"new":"/a","as":"duration"},"90s"]})",
            kUpdate,
            "{}",
            R"({"a":"1m30s"})",
            true},
        Row{"time_difference",
            R"({"gt":[{"diff":[{"new":"/t","as":"time"},{"old":"/t","as":"time"}]},"5m"]})",
            kUpdate,
            R"({"t":"2026-01-01T00:00:00Z"})",
            R"({"t":"2026-01-01T00:06:00Z"})",
            true},
        Row{"times_far_away",
            R"({"gt":[{"new":"/t","as":"time"},{"old":"/t","as":"time"}]})",
            kUpdate,
            R"({"t":"0001-01-01T00:00:00Z"})",
            R"({"t":"9999-12-31T23:59:59Z"})",
            true},
        Row{"int_difference",
            R"({"gt":[{"diff":[{"new":"/r","as":"int"},{"old":"/r","as":"int"}]},1000])"
            "}",
            kUpdate,
            R"({"r":"5"})",
            R"({"r":"1006"})",
            true},
        Row{"string_conversion",
            R"({"eq":[{"new":"/a","as":"string"},"7"]})",
            kUpdate,
            "{}",
            R"({"a":7})",
            true},
        Row{"concat_owner",
            R"({"eq":[{"new":"/metadata/name"},{"concat":[{"owner":{"kind":"Etcd"}},"-compactor"]}]})",
            kUpdate,
            "{}",
            kOwned,
            true},
        Row{"length", R"({"eq":[{"len":"/status/conditions"},1]})", kUpdate, "{}", kOwned, true},
        Row{"in", R"({"in":[{"new":"/a"},["x","y"]]})", kUpdate, "{}", R"({"a":"y"})", true},
        Row{"in_absent", R"({"in":[{"new":"/a"},["x"]]})", kUpdate, "{}", "{}", false},
        Row{"prefix", R"({"prefix":[{"new":"/a"},"ab"]})", kUpdate, "{}", R"({"a":"abc"})", true},
        Row{"suffix", R"({"suffix":[{"new":"/a"},"bc"]})", kUpdate, "{}", R"({"a":"abc"})", true},
        Row{"prefix_of_number_fails_open",
            R"({"prefix":[{"new":"/a"},"1"]})",
            kUpdate,
            "{}",
            R"({"a":1})",
            true,
            true},
        Row{"gate", R"({"eq":[{"gate":"New"},true]})", kUpdate, "{}", "{}", true},
        Row{"config", R"({"eq":[{"config":"/auto"},true]})", kUpdate, "{}", "{}", true}));

// etcd-druid's own filters: internal/controller/{etcd,etcd member leases,compaction}/register.go.
constexpr const char* kEtcd = R"({"case":{"create":true,"delete":true,"update":{"any":[
    {"all":[{"any":[{"annotation":{"key":"druid.gardener.cloud/operation","equals":"reconcile"}},
                    {"annotation":{"key":"gardener.cloud/operation","equals":"reconcile"}}]},
            {"any":[{"eq":[{"new":"/status/lastOperation/state"},"Succeeded"]},{"generationChanged":true},
                    {"absent":"/status/lastOperation"}]}]},
    {"all":[{"eq":[{"config":"/auto"},true]},{"any":[{"generationChanged":true},{"absent":"/status/lastOperation"}]}]}]},
    "else":false}})";
constexpr const char* kLease = R"({"all":[{"any":[{"suffix":[{"new":"/metadata/name"},"full-snap"]},
    {"suffix":[{"new":"/metadata/name"},"delta-snap"]}]},
    {"case":{"create":true,"update":{"changed":"/spec/holderIdentity"},"else":false}}]})";

INSTANTIATE_TEST_SUITE_P(
    Druid,
    PredicateRow,
    testing::Values(
        Row{"etcd_status_only",
            kEtcd,
            kUpdate,
            R"({"metadata":{"generation":1},"status":{"lastOperation":{"state":"Error"}}})",
            R"({"metadata":{"generation":1},"status":{"lastOperation":{"state":"Succeeded"}}})",
            false},
        Row{"etcd_spec",
            kEtcd,
            kUpdate,
            R"({"metadata":{"generation":1},"status":{"lastOperation":{"state":"Succeeded"}}})",
            R"({"metadata":{"generation":2},"status":{"lastOperation":{"state":"Succeeded"}}})",
            true},
        Row{"etcd_annotation_while_failing",
            kEtcd,
            kUpdate,
            R"({"status":{"lastOperation":{"state":"Error"}}})",
            R"({"metadata":{"annotations":{"gardener.cloud/operation":"reconcile"}}, "status":{"lastOperation":{"state":"Error"}}})",
            false},
        Row{"etcd_annotation",
            kEtcd,
            kUpdate,
            R"({"status":{"lastOperation":{"state":"Succeeded"}}})",
            R"({"metadata":{"annotations":{"gardener.cloud/operation":"reconcile"}}, "status":{"lastOperation":{"state":"Succeeded"}}})",
            true},
        Row{"etcd_resync", kEtcd, kResync, "{}", "{}", false},
        Row{"lease_renewed",
            kLease,
            kUpdate,
            R"({"metadata":{"name":"main-full-snap"},"spec":{"holderIdentity":"5","renewTime":"a"}})",
            R"({"metadata":{"name":"main-full-snap"},"spec":{"holderIdentity":"5","renewTime":"b"}})",
            false},
        Row{"lease_new_revision",
            kLease,
            kUpdate,
            R"({"metadata":{"name":"main-full-snap"},"spec":{"holderIdentity":"5"}})",
            R"({"metadata":{"name":"main-full-snap"},"spec":{"holderIdentity":"6"}})",
            true},
        Row{"lease_of_member", kLease, kCreate, "", R"({"metadata":{"name":"main-0"}})", false}));

TEST(Predicate, FailsOpenOverTooManyItems) {
    json::Value object = {{"items", json::list()}};
    for (std::size_t i = 0; i <= kAnyItemItemsMax; ++i) {
        object["items"].push_back(json::Value(i));
    }
    EventView event;
    event.new_object = &object;
    const Predicate predicate =
        compiled(R"({"anyItem":{"at":"/items","where":{"eq":[{"item":""},-1]}}})");
    EXPECT_TRUE(predicate.evaluate(event).error);
    object.find("items")->if_array()->pop_back();
    EXPECT_FALSE(predicate.evaluate(event).error);
    EXPECT_FALSE(predicate.evaluate(event).pass);
}

TEST(Predicate, SaysWhatItLooksAt) {
    const auto looks = [](const char* text) { return compiled(text).looks_at(); };
    using Pointers = std::vector<std::string>;
    EXPECT_EQ(looks("true"), Pointers());
    EXPECT_EQ(looks(R"({"generationChanged":true})"), Pointers{"/metadata/generation"});
    EXPECT_EQ(looks(R"({"all":[{"changed":["/spec/a/b","/status"]},{"labelsChanged":[]}]})"),
              (Pointers{"/metadata/labels", "/spec/a", "/status"}));
    EXPECT_EQ(looks(R"({"changed":[""]})"), Pointers{""});
    EXPECT_EQ(looks(R"({"eq":[{"new":"/spec/x/0/y"},{"config":"/limit"}]})"), Pointers{"/spec/x"});
    EXPECT_EQ(looks(R"({"anyItem":{"at":"/items","where":{"eq":[{"item":"/z"},1]}}})"),
              Pointers{"/items"});
    const std::vector<std::string> finalizers = {"example.com/cleanup"};
    PredicateContext context;
    context.finalizers = &finalizers;
    EXPECT_EQ(compiled("false", context).looks_at(),
              (Pointers{"/metadata/deletionTimestamp", "/metadata/finalizers"}));
}

TEST(Predicate, NeverSuppressesTheStartOfADeletionItMustFinish) {
    const std::vector<std::string> finalizers = {"example.com/cleanup"};
    PredicateContext context;
    context.finalizers = &finalizers;
    const Predicate predicate = compiled("false", context);
    const json::Value alive = parsed(R"({"metadata":{"finalizers":["example.com/cleanup"]}})");
    const json::Value dying = parsed(
        R"({"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":["other/x","example.com/cleanup"]}})");
    const json::Value foreign = parsed(
        R"({"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":["other/x"]}})");
    EventView event{EventType::update, &alive, &dying};
    EXPECT_TRUE(predicate.evaluate(event).pass);
    EXPECT_TRUE(predicate.evaluate(event).forced);
    event = {EventType::create, nullptr, &dying};
    EXPECT_TRUE(predicate.evaluate(event).forced);
    event = {EventType::update, &dying, &dying};
    EXPECT_FALSE(predicate.evaluate(event).pass);
    event = {EventType::update, &alive, &foreign};
    EXPECT_FALSE(predicate.evaluate(event).pass);
}

}  // namespace
}  // namespace capstan::plugin
