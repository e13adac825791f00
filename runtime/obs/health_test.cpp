#include "runtime/obs/health.hpp"

#include <gtest/gtest.h>

namespace capstan::obs {
namespace {

TEST(Health, SaysWhatIsNotReadyAndWhy) {
    Health health;
    health.add("cache", Probe::readyz, "waiting for the first list of pods");
    health.add("loop", Probe::healthz, "starting");
    health.ready("loop");
    const Health::Answer answer = health.render(Probe::readyz, "", "");
    EXPECT_EQ(answer.status, 500);
    EXPECT_EQ(
        answer.body,
        "[-]cache failed: waiting for the first list of pods\n[+]loop ok\nreadyz check failed\n");
    EXPECT_EQ(health.render(Probe::healthz, "", "").body, "ok");
    EXPECT_EQ(health.reasons(),
              std::vector<std::string>{"cache: waiting for the first list of pods"});
    EXPECT_FALSE(health.is_ready());
}

TEST(Health, IsReadyWhenEveryCheckIs) {
    Health health;
    health.add("cache", Probe::readyz, "starting");
    health.ready("cache");
    EXPECT_EQ(health.render(Probe::readyz, "", "").body, "ok");
    EXPECT_EQ(health.render(Probe::readyz, "", "verbose").body,
              "[+]cache ok\nreadyz check passed\n");
    health.ready("cache", "of yesterday");
    EXPECT_EQ(health.render(Probe::readyz, "", "").body, "ok");
    EXPECT_EQ(health.render(Probe::readyz, "", "verbose").body,
              "[+]cache ok (of yesterday)\nreadyz check passed\n");
    health.not_ready("cache", "lost");
    EXPECT_EQ(health.render(Probe::readyz, "", "").status, 500);
    health.remove("cache");
    EXPECT_TRUE(health.is_ready());
}

TEST(Health, ExcludesOnRequestAndWarnsOfUnknownNames) {
    Health health;
    health.add("a", Probe::readyz, "down");
    const Health::Answer answer = health.render(Probe::readyz, "", "verbose=1&exclude=a&exclude=b");
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(
        answer.body,
        "[+]a excluded: ok\nwarn: excluded check \"b\" does not exist\nreadyz check passed\n");
}

TEST(Health, AnswersForOneCheck) {
    Health health;
    health.add("a", Probe::readyz, "down");
    health.add("b", Probe::healthz, "down");
    EXPECT_EQ(health.render(Probe::readyz, "a", "").body,
              "[-]a failed: down\nreadyz check failed\n");
    EXPECT_EQ(health.render(Probe::healthz, "a", "").status, 404);
    EXPECT_EQ(health.render(Probe::readyz, "zz", "").status, 404);
    health.add("plugin/etcd.capstan.dev", Probe::readyz, "is starting");
    EXPECT_EQ(health.render(Probe::readyz, "plugin/widget", "").body,
              "no check named \"plugin/widget\": that plugin is not loaded; loaded: "
              "etcd.capstan.dev\n");
}

TEST(Health, WithoutChecksAnswersPing) {
    const Health health;
    EXPECT_EQ(health.render(Probe::healthz, "", "verbose").body,
              "[+]ping ok\nhealthz check passed\n");
    EXPECT_EQ(health.render(Probe::healthz, "ping", "").status, 200);
}

}  // namespace
}  // namespace capstan::obs
