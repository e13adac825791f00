#include "runtime/lease/leader_fsm.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace capstan::lease {
namespace {

using namespace std::chrono_literals;

// A Lease as another process would have written it; version: its resourceVersion.
json::Value lease_of(const std::string& holder,
                     int version,
                     std::int64_t seconds = 15,
                     std::int64_t transitions = 3) {
    json::Value spec = {{"holderIdentity", holder},
                        {"leaseDurationSeconds", seconds},
                        {"acquireTime", "2020-01-01T00:00:00.000000Z"},
                        {"renewTime", "2020-01-01T00:00:0" + std::to_string(version) + ".000000Z"},
                        {"leaseTransitions", transitions},
                        {"strategy", "OldestEmulationVersion"},
                        {"preferredHolder", "somebody"}};
    return {{"apiVersion", "coordination.k8s.io/v1"},
            {"kind", "Lease"},
            {"metadata",
             {{"name", "capstan"},
              {"namespace", "ns"},
              {"resourceVersion", std::to_string(version)},
              {"labels", {{"kept", "yes"}}}}},
            {"spec", std::move(spec)}};
}

// Feeds the machine and writes down what it wants: "get 5s", "wait 800ms", "update rv=7 me t=3".
struct Candidate {
    LeaderOptions options{.ns = "ns", .name = "capstan", .identity = "me"};
    double random{0};
    MonotonicTime now{1h};
    WallTime wall{std::chrono::seconds{1'800'000'000}};
    LeaderFsm fsm;
    Step last;

    explicit Candidate(LeaderOptions o = {.ns = "ns", .name = "capstan", .identity = "me"})
        : options(std::move(o)), fsm(options, [this] { return random; }) {}

    Moment at() const { return {now, wall}; }
    static std::string span(std::chrono::nanoseconds value) {
        const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(value).count();
        return ms % 1000 == 0 ? std::to_string(ms / 1000) + "s" : std::to_string(ms) + "ms";
    }
    std::string show(Step step) {
        last = std::move(step);
        const json::View lease(last.lease);
        const std::string who(lease["spec"]["holderIdentity"].string_or("?"));
        const std::string record =
            " rv=" + std::string(lease["metadata"]["resourceVersion"].string_or("none")) + " " +
            (who.empty() ? "nobody" : who) + " " +
            std::to_string(lease["spec"]["leaseDurationSeconds"].int_or(-1)) +
            "s t=" + std::to_string(lease["spec"]["leaseTransitions"].int_or(-1));
        const std::string left = last.until == kNever ? "" : " " + span(last.until - now);
        switch (last.kind) {
            case Step::Kind::wait: return "wait" + left;
            case Step::Kind::get: return "get" + left;
            case Step::Kind::create: return "create" + record + left;
            case Step::Kind::update: return "update" + record + left;
            case Step::Kind::end: return "end";
        }
        return "?";
    }
    std::string start() { return show(fsm.start(at())); }
    std::string tick() {  // at the end of the wait
        now = last.until;
        return show(fsm.on_timer(at()));
    }
    std::string tick_after(std::chrono::nanoseconds passed) {
        now += passed;
        return show(fsm.on_timer(at()));
    }
    std::string answer(json::Value lease, std::chrono::nanoseconds took = 0ms) {
        now += took;
        return show(fsm.on_answer(at(), std::move(lease)));
    }
    std::string refuse(Code code, std::chrono::nanoseconds took = 0ms) {
        now += took;
        return show(fsm.on_answer(at(), fail(code, "no")));
    }
    // The server takes what was sent, as version `version`.
    std::string accept(int version, std::chrono::nanoseconds took = 0ms) {
        json::Value stored = last.lease;
        stored["metadata"].set("resourceVersion", std::to_string(version));
        return answer(std::move(stored), took);
    }
    std::string release() { return show(fsm.release(at())); }
    // Leads from now on; the lease is at version 1.
    void lead() {
        start();
        refuse(Code::not_found);
        EXPECT_EQ(accept(1), "wait 2s");
        EXPECT_EQ(fsm.role(), Role::leading);
    }
    std::string spec(std::string_view field) const {
        const json::View value = json::View(last.lease)["spec"][field];
        return std::string(value.string_or("<none>"));
    }
};

TEST(LeaderFsm, MissingLeaseIsCreated) {
    Candidate c;
    EXPECT_EQ(c.start(), "get 5s");
    EXPECT_EQ(c.refuse(Code::not_found), "create rv=none me 15s t=0 5s");
    EXPECT_EQ(c.spec("acquireTime"), "2027-01-15T08:00:00.000000Z");
    EXPECT_EQ(c.spec("renewTime"), "2027-01-15T08:00:00.000000Z");
    EXPECT_EQ(c.accept(1), "wait 2s");
    EXPECT_EQ(c.fsm.role(), Role::leading);
}

// What a standby does with what it reads for the first time.
struct FirstRead {
    const char* name;
    json::Value lease;
    const char* wanted;
};
class FirstReads : public testing::TestWithParam<FirstRead> {};

TEST_P(FirstReads, DecideByHolderAndDuration) {
    Candidate c;
    c.start();
    EXPECT_EQ(c.answer(GetParam().lease), GetParam().wanted);
}

INSTANTIATE_TEST_SUITE_P(
    LeaderFsm,
    FirstReads,
    testing::Values(
        // The record's own times say it ended years ago: they do not count.
        FirstRead{"held_by_another", lease_of("other", 1), "wait 800ms"},
        FirstRead{"held_for_long", lease_of("other", 1, 3600), "wait 800ms"},
        FirstRead{"held_for_ever", lease_of("other", 1, INT64_MAX), "wait 800ms"},
        FirstRead{"without_duration", lease_of("other", 1, 0), "wait 800ms"},
        FirstRead{"given_back", lease_of("", 4, 1), "update rv=4 me 15s t=4 5s"},
        FirstRead{"mine", lease_of("me", 4), "update rv=4 me 15s t=3 5s"},
        FirstRead{"empty_object",
                  {{"metadata", {{"resourceVersion", "9"}}}},
                  "update rv=9 me 15s t=1 5s"},
        FirstRead{"spec_of_another_kind",
                  {{"metadata", {{"resourceVersion", "9"}}}, {"spec", 7}},
                  "update rv=9 me 15s t=1 5s"}),
    [](const auto& row) { return std::string(row.param.name); });

TEST(LeaderFsm, ExpiryCountsFromTheLastChangeSeenHere) {
    Candidate c;
    c.start();
    const MonotonicTime first = c.now;
    EXPECT_EQ(c.answer(lease_of("other", 1)), "wait 800ms");
    // It changes once more, 3.2 s later.
    for (int i = 0; i < 4; ++i) {
        EXPECT_EQ(c.tick(), "get 5s");
        EXPECT_EQ(c.answer(lease_of("other", i < 3 ? 1 : 2)), "wait 800ms");
    }
    EXPECT_EQ(c.now - first, 3200ms);
    const MonotonicTime changed = c.now;
    while (c.last.until < changed + 15s) {
        EXPECT_EQ(c.tick(), "get 5s");
        c.answer(lease_of("other", 2));
        ASSERT_EQ(c.last.kind, Step::Kind::wait);
    }
    EXPECT_EQ(c.last.until, changed + 15s) << "it looks at the very moment";
    EXPECT_EQ(c.tick(), "get 5s");
    EXPECT_EQ(c.answer(lease_of("other", 2)), "update rv=2 me 15s t=4 5s");
    EXPECT_EQ(c.accept(3, 10ms), "wait 2s");
    EXPECT_EQ(c.fsm.role(), Role::leading);
}

// Somebody other than the holder changes the Lease 4 s after the holder's last renewal was seen.
struct ForeignEdit {
    const char* name;
    std::optional<json::Value> lease;  // nullopt: deleted
    MonotonicTime taken_after;         // the renewal
    const char* taken_with;
};

json::Value edited(std::string_view field, json::Value value) {
    json::Value lease = lease_of("other", 2);
    lease["spec"].set(std::string(field), std::move(value));
    return lease;
}

class ForeignEdits : public testing::TestWithParam<ForeignEdit> {};

TEST_P(ForeignEdits, LeaveTheHolderTheTimeItWasSeenToHave) {
    const ForeignEdit& row = GetParam();
    Candidate c;
    c.start();
    c.answer(lease_of("other", 1));
    c.tick();
    const MonotonicTime renewed = c.now;
    c.answer(lease_of("other", 2));
    for (bool first = true; c.last.kind == Step::Kind::wait; first = false) {
        ASSERT_EQ(first ? c.tick_after(4s) : c.tick(), "get 5s");
        if (row.lease) {
            c.answer(*row.lease);
        } else {
            c.refuse(Code::not_found);
        }
        ASSERT_LT(c.now - renewed, 2h);
    }
    EXPECT_EQ(c.now - renewed, row.taken_after);
    EXPECT_EQ(c.show(c.last), row.taken_with);
}

INSTANTIATE_TEST_SUITE_P(
    LeaderFsm,
    ForeignEdits,
    testing::Values(
        ForeignEdit{"deleted", std::nullopt, 15s, "create rv=none me 15s t=0 5s"},
        ForeignEdit{"emptied", edited("holderIdentity", ""), 15s, "update rv=2 me 15s t=4 5s"},
        // What client-go and we write; that one second counts for nobody.
        ForeignEdit{"released", lease_of("", 3, 1), 4s, "update rv=3 me 15s t=4 5s"},
        ForeignEdit{
            "shortened", edited("leaseDurationSeconds", 1), 15s, "update rv=2 me 15s t=4 5s"},
        ForeignEdit{
            "lengthened", edited("leaseDurationSeconds", 60), 64s, "update rv=2 me 15s t=4 5s"},
        ForeignEdit{"given_to_another",
                    edited("holderIdentity", "stranger"),
                    19s,
                    "update rv=2 me 15s t=4 5s"},
        ForeignEdit{
            "without_times", edited("renewTime", nullptr), 19s, "update rv=2 me 15s t=4 5s"},
        // The holder has renewed it, and then somebody edited it, between two looks.
        ForeignEdit{
            "renewed_and_shortened", lease_of("other", 3, 1), 19s, "update rv=3 me 15s t=4 5s"}),
    [](const auto& row) { return std::string(row.param.name); });

TEST(LeaderFsm, ALongTimeSetByHandEndsWithTheNextRenewal) {
    Candidate c;
    c.start();
    c.answer(edited("leaseDurationSeconds", INT32_MAX));
    c.tick();
    const MonotonicTime renewed = c.now;
    c.answer(lease_of("other", 3));
    while (c.last.kind == Step::Kind::wait) {
        c.tick();
        c.answer(lease_of("other", 3));
        ASSERT_LT(c.now - renewed, 2h);
    }
    EXPECT_EQ(c.now - renewed, 15s);
}

// The last renewal of the holder may have come after the last look.
TEST(LeaderFsm, ADeletedLeaseCountsFromTheLastLookAtWhichItWasHeld) {
    Candidate c;
    c.start();
    c.answer(lease_of("other", 1));
    c.tick();
    c.answer(lease_of("other", 1));
    const MonotonicTime looked = c.now;
    while (c.last.kind == Step::Kind::wait) {
        c.tick();
        c.refuse(Code::not_found);
    }
    EXPECT_EQ(c.last.kind, Step::Kind::create);
    EXPECT_EQ(c.now - looked, 15s);
}

TEST(LeaderFsm, TransitionsStopAtTheLastNumberTheApiTakes) {
    for (const std::int64_t transitions : {std::int64_t{INT32_MAX}, std::int64_t{INT64_MAX}}) {
        Candidate c;
        c.start();
        EXPECT_EQ(c.answer(lease_of("", 4, 1, transitions)), "update rv=4 me 15s t=2147483647 5s");
    }
}

TEST(LeaderFsm, ChangedMetadataIsNoRenewalButItsVersionCounts) {
    Candidate c;
    c.start();
    c.answer(lease_of("other", 1));
    c.now += 15s;
    EXPECT_EQ(c.tick_after(0s), "get 5s");
    json::Value labelled = lease_of("other", 1);
    labelled["metadata"].set("resourceVersion", "44");
    EXPECT_EQ(c.answer(std::move(labelled)), "update rv=44 me 15s t=4 5s");
}

TEST(LeaderFsm, WallTimeThatJumpsChangesNothing) {
    for (const auto jump : {-1h, 0h, 1h}) {
        Candidate c;
        c.lead();
        c.wall += jump;
        EXPECT_EQ(c.tick(), "update rv=1 me 15s t=0 5s");
        EXPECT_EQ(c.accept(2), "wait 2s");
        EXPECT_EQ(c.fsm.fence_until() - c.now, 13500ms);
        Candidate standby;
        standby.start();
        standby.answer(lease_of("other", 1));
        standby.wall += jump;
        EXPECT_EQ(standby.tick(), "get 5s");
        EXPECT_EQ(standby.answer(lease_of("other", 1)), "wait 800ms");
    }
}

TEST(LeaderFsm, RenewalKeepsWhatIsNotItsOwn) {
    Candidate c;
    c.start();
    c.answer(lease_of("", 4, 1));
    c.wall += 7s;
    c.accept(5);
    const std::string acquired = "2027-01-15T08:00:00.000000Z";
    EXPECT_EQ(c.tick(), "update rv=5 me 15s t=4 5s");
    EXPECT_EQ(c.spec("acquireTime"), acquired);
    EXPECT_EQ(c.spec("renewTime"), "2027-01-15T08:00:07.000000Z");
    EXPECT_EQ(c.spec("strategy"), "OldestEmulationVersion");
    EXPECT_EQ(c.spec("preferredHolder"), "somebody");
    EXPECT_EQ(json::View(c.last.lease)["metadata"]["labels"]["kept"].string_or(""), "yes");
}

TEST(LeaderFsm, FailuresOfAStandbyAreRetriedWithJitter) {
    Candidate c;
    c.start();
    EXPECT_EQ(c.refuse(Code::unavailable), "wait 2s");
    EXPECT_EQ(c.fsm.trouble()->code, Code::unavailable);
    EXPECT_EQ(c.tick(), "get 5s");
    c.random = 0.5;
    EXPECT_EQ(c.refuse(Code::forbidden), "wait 3200ms");
    EXPECT_EQ(c.tick(), "get 5s");
    EXPECT_EQ(c.answer(lease_of("", 4, 1)), "update rv=4 me 15s t=4 5s");
    EXPECT_EQ(c.refuse(Code::conflict), "wait 900ms") << "somebody was faster: look again soon";
    EXPECT_EQ(c.tick(), "get 5s");
    EXPECT_EQ(c.refuse(Code::not_found), "create rv=none me 15s t=0 5s");
    EXPECT_EQ(c.refuse(Code::exists), "wait 900ms");
    EXPECT_EQ(c.fsm.role(), Role::standby);
}

TEST(LeaderFsm, ARenewalThatFailsReadsTheLeaseAgain) {
    for (const Code code : {Code::conflict, Code::timeout, Code::unavailable}) {
        Candidate c;
        c.lead();
        EXPECT_EQ(c.tick(), "update rv=1 me 15s t=0 5s");
        EXPECT_EQ(c.refuse(code), "get 5s");
        EXPECT_EQ(c.fsm.slow_paths(), 1u);
        EXPECT_EQ(c.answer(lease_of("me", 8)), "update rv=8 me 15s t=3 5s");
        EXPECT_EQ(c.accept(9), "wait 2s");
        EXPECT_EQ(c.fsm.role(), Role::leading);
        EXPECT_FALSE(c.fsm.trouble());
    }
}

TEST(LeaderFsm, TheFenceCountsFromTheSendingOfTheRenewal) {
    Candidate c;
    c.lead();
    c.tick();
    const MonotonicTime sent = c.now;
    c.accept(2, 1500ms);
    EXPECT_EQ(c.fsm.fence_until(), sent + 13500ms);
    // One that fails moves nothing.
    c.tick();
    c.refuse(Code::unavailable, 100ms);
    EXPECT_EQ(c.fsm.fence_until(), sent + 13500ms);
}

TEST(LeaderFsm, NotRenewedForTheDeadlineIsLost) {
    Candidate c;
    c.lead();
    const MonotonicTime renewed = c.now;
    EXPECT_EQ(c.tick(), "update rv=1 me 15s t=0 5s");
    EXPECT_EQ(c.refuse(Code::timeout, 5s), "get 5s");
    EXPECT_EQ(c.refuse(Code::timeout, 4s), "wait 1s");
    EXPECT_EQ(c.fsm.role(), Role::leading);
    EXPECT_EQ(c.tick(), "end");
    EXPECT_EQ(c.now - renewed, 12s);
    EXPECT_EQ(c.fsm.role(), Role::lost);
    EXPECT_EQ(c.fsm.loss(),
              "leadership lost: lease ns/capstan: it was not renewed for 12 s; last: no");
    EXPECT_EQ(c.tick_after(1h), "end");
}

TEST(LeaderFsm, NoRequestOfALeaderOutlivesItsTerm) {
    Candidate c;
    c.lead();
    EXPECT_EQ(c.tick_after(9s), "update rv=1 me 15s t=0 3s");
    EXPECT_EQ(c.refuse(Code::unavailable, 1s), "get 2s");
}

TEST(LeaderFsm, LostWhenAnotherHoldsIt) {
    Candidate c;
    c.lead();
    c.tick();
    c.refuse(Code::conflict);
    EXPECT_EQ(c.answer(lease_of("other", 9)), "end");
    EXPECT_EQ(c.fsm.role(), Role::lost);
    EXPECT_EQ(c.fsm.loss(), "leadership lost: lease ns/capstan: it was taken by other");
}

TEST(LeaderFsm, ALeaseThatVanishedOrWasEmptiedIsTakenAgain) {
    Candidate c;
    c.lead();
    c.tick();
    EXPECT_EQ(c.refuse(Code::not_found), "get 5s");
    EXPECT_EQ(c.refuse(Code::not_found), "create rv=none me 15s t=0 5s");
    EXPECT_EQ(c.accept(20), "wait 2s");
    c.tick();
    c.refuse(Code::conflict);
    EXPECT_EQ(c.answer(lease_of("", 21, 1)), "update rv=21 me 15s t=4 5s");
    EXPECT_EQ(c.accept(22), "wait 2s");
    EXPECT_EQ(c.fsm.role(), Role::leading);
}

TEST(LeaderFsm, AProcessThatSleptPastItsFenceHasLost) {
    for (const bool in_flight : {false, true}) {
        Candidate c;
        c.lead();
        if (in_flight) {
            c.tick();
            EXPECT_EQ(c.accept(2, 20s), "end") << "although the server took it";
        } else {
            EXPECT_EQ(c.tick_after(20s), "end");
        }
        EXPECT_EQ(c.fsm.role(), Role::lost);
    }
}

TEST(LeaderFsm, AnAcquisitionThatComesTooLateIsNone) {
    Candidate c;
    c.start();
    c.refuse(Code::not_found);
    EXPECT_EQ(c.accept(1, 14s), "get 5s");
    EXPECT_EQ(c.fsm.role(), Role::standby);
    json::Value mine = lease_of("me", 1);
    EXPECT_EQ(c.answer(mine), "update rv=1 me 15s t=3 5s");
    c.accept(2);
    EXPECT_EQ(c.fsm.role(), Role::leading);
}

TEST(LeaderFsm, TheFenceBoundsATermOfTightTimes) {
    LeaderOptions options{.ns = "ns", .name = "capstan", .identity = "me"};
    options.lease_duration = 3s;
    options.renew_deadline = 2900ms;
    options.retry_period = 500ms;
    Candidate c(options);
    c.start();
    c.refuse(Code::not_found);
    c.accept(1);
    EXPECT_EQ(c.fsm.fence_until() - c.now, 2700ms);
    EXPECT_EQ(c.tick_after(2700ms), "end");
    EXPECT_EQ(c.fsm.role(), Role::lost);
}

TEST(LeaderFsm, ReleaseGivesTheLeaseBack) {
    Candidate c;
    c.lead();
    EXPECT_EQ(c.release(), "get 5s");
    EXPECT_EQ(c.answer(lease_of("me", 8)), "update rv=8 nobody 1s t=3 5s");
    EXPECT_EQ(c.spec("preferredHolder"), "somebody");
    EXPECT_EQ(c.accept(9), "end");
    EXPECT_EQ(c.fsm.role(), Role::released);
    EXPECT_FALSE(c.fsm.trouble());
}

TEST(LeaderFsm, ReleaseIsRetriedWithinItsLimit) {
    Candidate c;
    c.lead();
    c.release();
    c.answer(lease_of("me", 8));
    EXPECT_EQ(c.refuse(Code::conflict), "get 5s");
    EXPECT_EQ(c.refuse(Code::unavailable), "wait 500ms");
    EXPECT_EQ(c.tick(), "get 5s");
    EXPECT_EQ(c.refuse(Code::timeout, 9400ms), "wait 100ms");
    EXPECT_EQ(c.tick(), "end");
    EXPECT_EQ(c.fsm.role(), Role::released);
    EXPECT_EQ(c.fsm.trouble()->code, Code::timeout);
}

TEST(LeaderFsm, ReleaseLeavesTheLeaseOfAnotherAlone) {
    Candidate c;
    c.lead();
    c.release();
    EXPECT_EQ(c.answer(lease_of("other", 8)), "end");
    EXPECT_EQ(c.fsm.role(), Role::released);
    Candidate gone;
    gone.lead();
    gone.release();
    EXPECT_EQ(gone.refuse(Code::not_found), "end");
    EXPECT_FALSE(gone.fsm.trouble());
}

TEST(LeaderFsm, AStandbyHasNothingToRelease) {
    Candidate c;
    c.start();
    c.answer(lease_of("other", 1));
    EXPECT_EQ(c.release(), "end");
    EXPECT_EQ(c.fsm.role(), Role::standby);
}

TEST(LeaderFsm, TheRecordNeverPromisesLessThanItCountsOn) {
    LeaderOptions options{.ns = "ns", .name = "capstan", .identity = "me"};
    options.lease_duration = 2500ms;
    options.renew_deadline = 2s;
    options.retry_period = 500ms;
    Candidate c(options);
    c.start();
    EXPECT_EQ(c.refuse(Code::not_found), "create rv=none me 3s t=0 1s");
}

}  // namespace
}  // namespace capstan::lease
