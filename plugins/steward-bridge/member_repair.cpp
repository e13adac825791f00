// The steps of a start that replace data: coming back as a learner, and from backups.
#include "plugins/steward-bridge/data/data_aside.hpp"
#include "plugins/steward-bridge/member_restore.hpp"
#include "plugins/steward-bridge/member_start.hpp"

#include <filesystem>
#include <system_error>
#include <utility>

namespace capstan::steward {
namespace {

using api::MemberState;
using api::MemberSubState;
using State = DataDirectory::State;

}  // namespace

const char* MemberStart::why_unusable(const StartFacts& facts) const {
    return facts.data.state == State::missing ? "DataMissing"
           : facts.data.damaged               ? "DBCorruptionDetected"
                                              : "DBValidationFailed";
}

void MemberStart::enter_new(Look& look, const char* reason, const std::string& message) {
    status_.enter(MemberState::new_, std::nullopt, reason, message, look.call.wall_now());
}

// What cannot be used makes room, without being lost.
Result<void> MemberStart::set_aside(Look& look) {
    inspected_ = false;
    if (look.facts.data.state == State::missing) {
        std::error_code error;
        std::filesystem::remove_all(look.data_dir + "/member", error);  // empty directories
        if (error) {
            return fail(Code::unavailable,
                        "cannot remove " + look.data_dir + "/member: " + error.message());
        }
        return ok();
    }
    CAPSTAN_TRY(const std::string moved, move_aside(look.data_dir, look.call.wall_now()));
    look.call.log(LogLevel::warn,
                  "data that cannot be used is kept aside",
                  {{"path", moved}, {"reason", look.facts.data.reason}});
    return ok();
}

// The data stays where it is until the cluster has answered.
std::optional<MemberStart::Ended> MemberStart::rejoin(Look& look, const StartDecision& decision) {
    enter_new(look, why_unusable(look.facts), decision.message);
    status_.restoration_begins(
        api::RestorationType::from_leader, why_unusable(look.facts), look.call.wall_now());
    const auto removed = look.cluster.remove(look.own_id);
    if (!removed && removed.error().code != Code::not_found) {
        wait_for(look.call, "RemovalRefused", removed.error().message);
        return std::nullopt;
    }
    look.call.log(LogLevel::info, "own entry removed from the cluster", {{"member", look.own_id}});
    enter_new(look, "MemberRemoved", {});
    return add_as_learner(look);
}

std::optional<MemberStart::Ended> MemberStart::add_as_learner(Look& look) {
    status_.enter(MemberState::starting,
                  MemberSubState::pending_learner,
                  "WaitingToJoinAsLearner",
                  {},
                  look.call.wall_now());
    auto list = look.cluster.add_learner(look.peer_urls);
    if (!list) {
        const bool another = list.error().code == Code::overloaded;
        wait_for(look.call,
                 another ? "AnotherLearner" : "NotAddedYet",
                 another ? "another member joins the cluster right now, and only one does at a time"
                         : list.error().message);
        return std::nullopt;
    }
    look.list = std::move(list).value();
    const ListedMember* own = find_own(*look.list, member_.identity().member, look.peer_urls);
    look.own_id = own == nullptr ? std::string() : own->id;
    look.call.log(LogLevel::info, "added to the cluster as learner", {{"member", look.own_id}});
    if (const Result<void> moved = set_aside(look); !moved) {
        wait_for(look.call, "DataNotMovable", moved.error().message);
        return std::nullopt;
    }
    return prepare(look, "learner", true);
}

std::optional<MemberStart::Ended> MemberStart::restore(Look& look, const StartDecision& decision) {
    const char* reason =
        decision.reason == "BackupsFound" ? "BackupsFound" : why_unusable(look.facts);
    status_.enter(MemberState::initializing,
                  MemberSubState::restoration,
                  reason,
                  decision.message,
                  look.call.wall_now());
    status_.restoration_begins(api::RestorationType::from_snapshot, reason, look.call.wall_now());
    status_.condition(kInitialised, "Restoring", decision.message, look.call.wall_now());
    publish_(look.call);
    bool movable = true;
    const auto make_way = [&](const std::string& made) -> Result<void> {
        // The note first: after a crash the new data is known to be this member's.
        CAPSTAN_TRY(write_owner_notes(made, member_.identity().member_key()));
        const Result<void> moved = set_aside(look);
        movable = moved.has_value();
        return moved;
    };
    const auto restored =
        restore_member(look.call,
                       look.configuration,
                       store_of(look.configuration.backup, member_.plugin_config()),
                       look.map,
                       look.data_dir,
                       look.peer_urls,
                       make_way);
    const WallTime now = look.call.wall_now();
    if (!restored) {
        if (restored.error().code == Code::cancelled) {
            return std::nullopt;
        }
        status_.restoration_ends(false, restored.error().message, now);
        status_.enter(
            MemberState::new_, std::nullopt, "RestorationFailed", restored.error().message, now);
        const bool full = restored.error().code == Code::overloaded;
        return give_up(look.call,
                       !movable ? "DataNotMovable"
                       : full   ? "NoSpace"
                                : "RestorationFailed",
                       restored.error().message);
    }
    for (const std::string& warning : restored.value().warnings) {
        look.call.log(LogLevel::warn, "restored with a warning", {{"message", warning}});
    }
    look.call.log(LogLevel::info,
                  "restored from backups",
                  {{"full", restored.value().full},
                   {"deltas", restored.value().deltas.size()},
                   {"revision", restored.value().revision}});
    status_.restoration_ends(
        true, "up to revision " + std::to_string(restored.value().revision), now);
    inspected_ = false;
    return prepare(look, "restored", false);
}

}  // namespace capstan::steward
