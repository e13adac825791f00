#include "runtime/kube/json_diff.hpp"

#include <gtest/gtest.h>

#include <ostream>
#include <random>
#include <string>

namespace capstan::kube {
namespace {

json::Value parsed(std::string_view text) {
    return json::parse(text).value();
}

struct Row {
    const char* name;
    const char* from;
    const char* to;
    const char* patch;
};
std::ostream& operator<<(std::ostream& out, const Row& row) {
    return out << row.name;
}
class JsonDiff : public ::testing::TestWithParam<Row> {};

TEST_P(JsonDiff, NamesOnlyWhatDiffers) {
    EXPECT_EQ(json::dump(json_diff(parsed(GetParam().from), parsed(GetParam().to))),
              GetParam().patch);
}

INSTANTIATE_TEST_SUITE_P(
    Rules,
    JsonDiff,
    ::testing::Values(
        Row{"equal", R"({"a":1,"b":[{}]})", R"({"b":[{}],"a":1})", "[]"},
        Row{"add_member",
            R"({"metadata":{}})",
            R"({"metadata":{"labels":{"a":"b"}}})",
            R"([{"op":"add","path":"/metadata/labels","value":{"a":"b"}}])"},
        Row{"remove_member", R"({"a":1,"b":2})", R"({"a":1})", R"([{"op":"remove","path":"/b"}])"},
        Row{"null_is_a_value",
            R"({"a":1})",
            R"({"a":null})",
            R"([{"op":"replace","path":"/a","value":null}])"},
        Row{"deep",
            R"({"a":{"b":{"c":1,"d":2}}})",
            R"({"a":{"b":{"c":3,"d":2}}})",
            R"([{"op":"replace","path":"/a/b/c","value":3}])"},
        Row{"other_kind",
            R"({"a":{"b":1}})",
            R"({"a":[1]})",
            R"([{"op":"replace","path":"/a","value":[1]}])"},
        Row{"escaped_key",
            R"({"a/b~c":1})",
            R"({"a/b~c":2})",
            R"([{"op":"replace","path":"/a~1b~0c","value":2}])"},
        Row{"unknown_fields_and_big_numbers_stay",
            R"({"spec":{"future":18446744073709551615,"real":0.1,"x":1}})",
            R"({"spec":{"future":18446744073709551615,"real":0.1,"x":2}})",
            R"([{"op":"replace","path":"/spec/x","value":2}])"},
        Row{"appended", "[1,2]", "[1,2,3]", R"([{"op":"add","path":"/2","value":3}])"},
        Row{"put_in_front", "[1,2]", "[0,1,2]", R"([{"op":"add","path":"/0","value":0}])"},
        Row{"put_between",
            "[1,4]",
            "[1,2,3,4]",
            R"([{"op":"add","path":"/1","value":2},{"op":"add","path":"/2","value":3}])"},
        Row{"taken_out",
            "[1,2,3,4]",
            "[1,4]",
            R"([{"op":"remove","path":"/2"},{"op":"remove","path":"/1"}])"},
        Row{"item_changed",
            R"([{"name":"a","v":1},{"name":"b"}])",
            R"([{"name":"a","v":2},{"name":"b"}])",
            R"([{"op":"replace","path":"/0/v","value":2}])"},
        Row{"emptied", "[1]", "[]", R"([{"op":"remove","path":"/0"}])"}),
    [](const auto& row) { return row.param.name; });

// Just enough of RFC 6902 to apply what json_diff makes.
void apply(json::Value& target, const json::Value& operation) {
    const json::View view(operation);
    const std::string path(view["path"].string_or(""));
    const std::string op(view["op"].string_or(""));
    const json::Value* value = operation.find("value");
    if (path.empty()) {
        target = *value;
        return;
    }
    const std::size_t slash = path.rfind('/');
    json::Value* parent = target.pointer(path.substr(0, slash));
    ASSERT_NE(parent, nullptr) << path;
    const std::string last = path.substr(slash + 1);
    if (json::Array* items = parent->if_array()) {
        const auto at = static_cast<std::ptrdiff_t>(std::stoul(last));
        if (op == "remove") {
            items->erase(items->begin() + at);
        } else if (op == "add") {
            items->insert(items->begin() + at, *value);
        } else {
            (*items)[static_cast<std::size_t>(at)] = *value;
        }
    } else if (op == "remove") {
        EXPECT_TRUE(parent->erase(last)) << path;
    } else {
        EXPECT_EQ(parent->find(last) == nullptr, op == "add") << path;
        parent->set(last, *value);
    }
}

json::Value random_value(std::mt19937& random, int depth) {
    const auto pick = [&random](unsigned below) { return static_cast<unsigned>(random()) % below; };
    switch (depth == 0 ? pick(3) : pick(5)) {
        case 0: return json::Value(static_cast<std::int64_t>(pick(3)));
        case 1: return json::Value(pick(2) == 0 ? "a" : "b");
        case 2: return {};
        case 3: {
            json::Value list = json::list();
            for (unsigned i = pick(4); i > 0; --i) {
                list.push_back(random_value(random, depth - 1));
            }
            return list;
        }
        default: {
            json::Value object = json::object();
            for (unsigned i = pick(4); i > 0; --i) {
                object.set(std::string(1, static_cast<char>('a' + pick(4))),
                           random_value(random, depth - 1));
            }
            return object;
        }
    }
}

TEST(JsonDiffRandom, PatchedOldIsNew) {
    constexpr unsigned kSeed = 20261130;
    std::mt19937 random(kSeed);
    for (int i = 0; i < 5000; ++i) {
        const json::Value from = random_value(random, 4), to = random_value(random, 4);
        json::Value patched = from;
        const json::Value patch = json_diff(from, to);
        for (const json::Value& operation : *patch.if_array()) {
            apply(patched, operation);
        }
        ASSERT_EQ(json::dump_sorted(patched), json::dump_sorted(to))
            << "seed " << kSeed << " round " << i << " " << json::dump(from) << " "
            << json::dump(patch);
    }
}

}  // namespace
}  // namespace capstan::kube
