#include "runtime/plugin/variables.hpp"

#include <gtest/gtest.h>

namespace capstan::plugin {
namespace {

std::optional<std::string> lookup(const std::string& name) {
    if (name == "POD_NAME") {
        return "main-0";
    }
    return name == "EMPTY" ? std::optional<std::string>("") : std::nullopt;
}

TEST(Variables, AreReplacedWhereTheyStand) {
    EXPECT_EQ(expand_variables("a-$(POD_NAME)-$(POD_NAME)", lookup).value(), "a-main-0-main-0");
    EXPECT_EQ(expand_variables("plain", lookup).value(), "plain");
    EXPECT_EQ(expand_variables("", lookup).value(), "");
}

TEST(Variables, UnsetOrEmptyIsAnError) {
    for (const char* text : {"a-$(NONE)", "a-$(EMPTY)"}) {
        const auto result = expand_variables(text, lookup);
        ASSERT_FALSE(result) << text;
        EXPECT_EQ(result.error().code, Code::invalid);
    }
    EXPECT_EQ(expand_variables("$(NONE)", nullptr).error().message,
              "environment variable NONE is not set");
}

TEST(Variables, MustBeWhole) {
    for (const char* good : {"", "a", "$(A)", "x$(A_1)y$(B)"}) {
        EXPECT_TRUE(has_only_whole_variables(good)) << good;
    }
    for (const char* bad : {"$", "$A", "$()", "$(A", "$(A-B)", "a$$(A)", "$(A)$"}) {
        EXPECT_FALSE(has_only_whole_variables(bad)) << bad;
    }
}

}  // namespace
}  // namespace capstan::plugin
