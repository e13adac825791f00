#include "plugins/steward-bridge/maintenance/turn.hpp"

#include "capstan/plugin.hpp"

namespace capstan::steward {
namespace {

constexpr std::string_view kLeaseGvk = "coordination.k8s.io/v1/Lease";
constexpr std::chrono::seconds kAskAgain{15};

// The annotation becomes `value` (null: goes), unless the Lease changes meanwhile.
Result<void> set_holder(Call& call,
                        const ObjectKey& key,
                        const json::Value& lease,
                        json::Value value) {
    json::Value annotations = json::object();
    annotations.set(kTurnAnnotation, std::move(value));
    const json::Value patch = {
        {"metadata",
         {{"resourceVersion", json::View(lease)["metadata"]["resourceVersion"].string_or("")},
          {"annotations", std::move(annotations)}}},
    };
    return call.client().patch_merge(kLeaseGvk, key, patch);
}

std::optional<TurnHolder> holder_of(const json::Value& lease) {
    return TurnHolder::parse(
        json::View(lease)["metadata"]["annotations"][kTurnAnnotation].string_or(""));
}

}  // namespace

std::string TurnHolder::text() const {
    return member + " " + to_rfc3339(until);
}

std::optional<TurnHolder> TurnHolder::parse(std::string_view text) {
    const std::size_t space = text.find(' ');
    if (space == 0 || space == std::string_view::npos) {
        return std::nullopt;
    }
    const auto until = parse_rfc3339(text.substr(space + 1));
    if (!until) {
        return std::nullopt;
    }
    return TurnHolder{std::string(text.substr(0, space)), *until};
}

Result<void> take_turn(Call& call,
                       const ObjectKey& key,
                       const std::string& member,
                       std::chrono::nanoseconds at_most) {
    for (int i = 1;; ++i) {
        CAPSTAN_TRY(const json::Value lease, call.client().get_value(kLeaseGvk, key));
        const auto holder = holder_of(lease);
        if (holder && holder->member != member && holder->until > call.wall_now()) {
            Error taken{Code::conflict,
                        "member \"" + holder->member + "\" is defragmented now, until " +
                            to_rfc3339(holder->until) + " at the latest",
                        kAskAgain};
            return fail(std::move(taken));
        }
        TurnHolder mine{member, call.wall_now() + at_most};
        auto taken = set_holder(call, key, lease, mine.text());
        if (taken || taken.error().code != Code::conflict || i >= kTurnTriesMax) {
            return taken;
        }
    }
}

Result<void> give_turn_back(Call& call, const ObjectKey& key, const std::string& member) {
    for (int i = 1;; ++i) {
        CAPSTAN_TRY(const json::Value lease, call.client().get_value(kLeaseGvk, key));
        const auto holder = holder_of(lease);
        if (!holder || holder->member != member) {
            return ok();
        }
        auto given = set_holder(call, key, lease, json::Value());
        if (given || given.error().code != Code::conflict || i >= kTurnTriesMax) {
            return given;
        }
    }
}

}  // namespace capstan::steward
