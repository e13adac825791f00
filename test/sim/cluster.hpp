// The cluster around the operator, as one actor: it makes and ends the pods of StatefulSets, and
// every pod has a steward that reports in its EtcdMember and renews its lease.
//
// The StatefulSet controller is the node's own plan. Pods and stewards take their time, chosen by
// the seed; with unrest() pods are killed and stewards stall. At rest the world does not depend on
// the seed: the lowest ordinal leads. Thread: the loop's.
#pragma once

#include "test/sim/mirror.hpp"
#include "test/sim/world.hpp"

#include <map>
#include <random>
#include <string>

namespace capstan::test {

class Cluster {
public:
    Cluster(World& world, std::uint64_t seed);  // borrowed

    void unrest(bool on) noexcept { unrest_ = on; }
    // No pod is coming or going and every steward has said all it has to say.
    bool at_rest() const noexcept { return at_rest_; }

private:
    struct Pod {
        MonotonicTime ready_at{kNever};
        MonotonicTime gone_at{kNever};
    };
    struct Steward {
        std::string pod_uid;  // of the pod it last ran in
        MonotonicTime next_step{0};
        MonotonicTime renewed{0};
        MonotonicTime stalled_until{0};
    };
    struct Facts {
        std::string etcd, member, pod_uid;
        bool leads{false};
    };

    void tick();
    void sync_set(const json::Value& set);
    void sync_pod(const json::Value& pod);
    void sync_steward(const json::Value& member);
    void disturb();
    bool leads(const std::string& etcd, int ordinal) const;
    // What the steward has to write next: a merge patch of the object; null: nothing.
    json::Value next_step(const json::Value& member, const Facts& facts);
    void renew(const std::string& member, Steward& steward, const Facts& facts);
    std::string offered_hash(const std::string& etcd, const std::string& member);
    std::uint64_t changes() const;
    MonotonicTime soon(int ms_max);
    void patch(const std::string& path, json::Value body);

    World& world_;
    std::mt19937_64 random_;
    Mirror sets_, pods_, members_, config_maps_;
    std::map<std::string, Pod> pod_states_;          // by uid
    std::map<std::string, Steward> steward_states_;  // by member name
    // "etcd version" of a ConfigMap -> what its steward.yaml gives, by member
    std::map<std::string, json::Value> offers_;
    std::uint64_t seen_{0};  // changes() at the last look at everything
    std::unique_ptr<net::Timer> timer_;
    bool unrest_{false};
    bool at_rest_{false};
    bool busy_{false};  // in this tick
};

}  // namespace capstan::test
