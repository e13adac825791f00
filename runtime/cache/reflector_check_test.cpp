// After a broken stream: is the server still what it was?
#include "runtime/cache/reflector_fixture.hpp"

#include <gtest/gtest.h>

#include <string>

namespace capstan::cache {
namespace {

constexpr const char* kTooLarge = "too large resource version: 504 Timeout";

TEST(ReflectorFsm, AsksAfterABreakWhetherTheServerIsTheOneItWas) {
    Reflector r;
    r.go_live();
    EXPECT_EQ(r.ended(), "watch rv=10 t=300");
    EXPECT_EQ(r.opened(), "keep") << "that was no break";
    r.failed(Code::forbidden);
    r.due();
    EXPECT_EQ(r.opened(), "keep | info watch works again") << "nor that";
    r.failed(Code::unavailable);
    r.due();
    EXPECT_EQ(r.opened(), "keep check=10 | info watch works again");
    EXPECT_EQ(r.check_failed(Code::unavailable), "keep");
    r.now += 2s;
    EXPECT_EQ(r.ended(), "watch rv=10 t=300");
    EXPECT_EQ(r.opened(), "keep check=10") << "not answered yet";
    EXPECT_EQ(r.checked(true), "keep");
    r.event(EventKind::added, "11");
    EXPECT_EQ(r.pass(600s),
              "watch rv=10 t=300 | info watch went silent or outlived its time, opening it again");
    EXPECT_EQ(r.opened(), "keep check=11");
    EXPECT_EQ(r.check_failed(Code::forbidden), "keep");
    r.now += 2s;
    r.ended();
    EXPECT_EQ(r.opened(), "keep") << "may not list: not asked again";
}

TEST(ReflectorFsm, ListsConsistentlyWhenTheServerIsBehind) {
    Reflector r;
    r.go_live();
    r.failed(Code::unavailable);
    r.due();
    r.opened();
    EXPECT_EQ(r.check_failed(Code::timeout, kTooLarge),
              std::string("watch rv= initial t=300 new:older | warn the API server does not have "
                          "what it showed before, listing again (timeout: ") +
                  kTooLarge + ")");
    EXPECT_EQ(r.event(EventKind::initial_end, "9").substr(0, 11), "ignore wait");
    EXPECT_EQ(r.due(), "watch rv= initial t=300 new:older");
    EXPECT_EQ(r.event(EventKind::initial_end, "12").substr(0, 11), "commit keep")
        << "a replica that lagged";
    EXPECT_EQ(r.failed(Code::timeout, kTooLarge).substr(0, 5), "wait ");
    EXPECT_EQ(r.due(), "watch rv= initial t=300 new:older");
    r.event(EventKind::initial_end, "12");
    r.ended();
    EXPECT_EQ(r.opened(), "keep");
}

TEST(ReflectorFsm, TakesOtherDataAsTheyAre) {
    Reflector r;
    r.go_live();
    r.failed(Code::unavailable);
    r.due();
    r.opened();
    EXPECT_EQ(
        r.checked(false),
        "watch rv= initial t=300 new:older | warn the API server does not have what it showed "
        "before, listing again");
    EXPECT_EQ(r.checked(false), "keep") << "one that comes late";
    EXPECT_EQ(r.event(EventKind::initial_end, "30"),
              "commit! keep | error the API server's data was set back, taking it as it is now");
    r.event(EventKind::added, "31");
    r.ended();
    EXPECT_EQ(r.opened(), "keep");
}

}  // namespace
}  // namespace capstan::cache
