// What one pass over an Etcd does: decided from the world alone, before anything is sent.
//
// Pure. The steps run in order; the first that fails ends the pass. Thread: any.
#pragma once

#include "plugins/etcd/cluster.hpp"
#include "plugins/etcd/observe.hpp"
#include "plugins/etcd/status.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace capstan::etcd {

// while something is awaited; its change wakes us earlier
inline constexpr std::chrono::seconds kLookAgain{10};

struct Step {
    enum class Kind : std::uint8_t {
        apply,          // server-side apply of `object`
        create,         // POST of `object`; one that is there already is fine
        remove,         // delete `key`, if it is controlled by our Etcd
        patch,          // JSON patch `object` of the Etcd itself
        create_token,   // create_api_token() of `object`
        remove_before,  // delete `key`, if it is controlled by an Etcd of our name before it
    };
    Kind kind{Kind::apply};
    std::string code;  // suffix of the error code: "STATEFULSET"
    GroupVersionKind gvk;
    ObjectKey key;
    json::Value object;
};

struct Plan {
    std::vector<Step> steps;
    std::vector<Step> last;        // after the status was written: finalizer and annotations
    std::optional<Report> report;  // nullopt: the status is left alone
    std::optional<std::chrono::seconds> again;
    std::string event_reason;  // a Warning about the Etcd; empty: none
    std::string event_note;
};

// Errors: those of the digest; a bad spec is no error but a report.
Result<Plan> make_plan(const World& world, const Settings& settings);

}  // namespace capstan::etcd
