// What literals make, and what does not compile into something else than it looks like.
#include "capstan/json.hpp"

#include <gtest/gtest.h>

namespace capstan::json {
namespace {

static_assert(!std::is_constructible_v<Value, const Value*>, "a pointer is no truth value");
static_assert(!std::is_constructible_v<Value, char>, "a character is no number");
static_assert(std::is_constructible_v<Value, bool>);
static_assert(std::is_constructible_v<Value, std::uint64_t>);

// Whether braces around this make a member or a value; a deleted choice counts as no.
template <class T>
concept MakesMember = requires(T item) {
    Member{"k", {item}};
};
static_assert(!MakesMember<const char*> && !MakesMember<int> && !MakesMember<bool>);
static_assert(MakesMember<Member>);
template <class T>
concept MakesPair = requires(T a, T b) {
    Member{"k", {a, b}};
};
static_assert(!MakesPair<int> && !MakesPair<double> && !MakesPair<std::string>);
template <class T>
concept MakesListOfOneObject = requires(T a, T b) {
    Value{{{a, b}, {b, a}}};
};
static_assert(!MakesListOfOneObject<const char*>);
template <class T>
concept HasKey = requires(T key) {
    Member{key, 1};
};
static_assert(HasKey<std::string> && HasKey<std::string_view> && HasKey<const char*>);
static_assert(!HasKey<int> && !HasKey<std::nullptr_t>);
static_assert(std::is_constructible_v<Value, const Array&>);

TEST(Literal, ReadsLikeItsYaml) {
    const std::string key = "app";
    const Value labels = {{key, "main"}};
    const Value value = {
        {"kind", "Service"},
        {"metadata", {{"labels", labels}}},
        {"spec",
         {
             {"ports",
              list({
                  {{"name", "client"}, {"port", 2379}},
                  {{"name", "metrics"}, {"port", 9095}},
              })},
             {"headless", true},
             {"clusterIP", nullptr},
         }},
    };
    EXPECT_EQ(dump(value),
              R"({"kind":"Service","metadata":{"labels":{"app":"main"}},"spec":{"ports":)"
              R"([{"name":"client","port":2379},{"name":"metrics","port":9095}],)"
              R"("headless":true,"clusterIP":null}})");
}

TEST(Literal, OneMemberIsAnObjectAndOneItemAList) {
    EXPECT_EQ(dump(Value{{"a", "b"}}), R"({"a":"b"})");
    EXPECT_EQ(dump(list({{{"a", "b"}}})), R"([{"a":"b"}])");
    EXPECT_EQ(dump(list({"a"})), R"(["a"])");
}

TEST(Literal, EmptyIsSaidByName) {
    EXPECT_EQ(dump(object()), "{}");
    EXPECT_EQ(dump(list()), "[]");
    EXPECT_EQ(dump(Value{}), "null");
    EXPECT_EQ(dump(Value{{"emptyDir", {}}}), R"({"emptyDir":{}})");
    Value value;
    value.set("selector", {});
    EXPECT_EQ(dump(value), R"({"selector":{}})");
}

TEST(Value, ItemsAreReachedByIndex) {
    Value value = {{"containers", list({{{"image", "a"}}})}};
    value["containers"][0]["image"] = "b";
    EXPECT_EQ(dump(value), R"({"containers":[{"image":"b"}]})");
    EXPECT_DEATH(value["containers"][1], "item 1 of 1");
    EXPECT_DEATH(value[0], "item of a object");
}

TEST(View, ItemsKeepTheirPath) {
    const Value value = {{"ports", list({{{"port", 1}}, {{"name", "x"}}})}, {"none", nullptr}};
    const auto ports = View(value)["ports"].items();
    ASSERT_EQ(ports.value().size(), 2u);
    EXPECT_EQ(ports.value()[1]["port"].as_int().error().message, "/ports/1/port: missing");
    EXPECT_TRUE(View(value)["none"].items().value().empty());
    EXPECT_EQ(View(value)["ports"][0].items().error().message,
              "/ports/0: expected array, found object");
}

TEST(View, NamesTheValueThatIsWrong) {
    const Value value = {{"spec", {{"containers", "none"}, {"empty", nullptr}}}};
    const View view(value);
    EXPECT_EQ(view["spec"]["containers"][0]["image"].as_string().error().message,
              "/spec/containers: expected array, found string");
    EXPECT_EQ(view["spec"]["containers"]["name"].as_int().error().message,
              "/spec/containers: expected object, found string");
    EXPECT_EQ(view["spec"]["empty"]["name"].as_int().error().message, "/spec/empty/name: missing");
    EXPECT_EQ(view["nothing"]["name"].as_int().error().message, "/nothing/name: missing");
    EXPECT_EQ(view["spec"]["containers"].as_int().error().message,
              "/spec/containers: expected integer, found string");
}

}  // namespace
}  // namespace capstan::json
