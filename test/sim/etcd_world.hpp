// The real plugins etcd and custodian in a simulated cluster: the world in which keys must not get
// lost.
//
//     EtcdWorld etcds({.seed = 7});
//     etcds.put("main", {.replicas = 3});
//     ASSERT_TRUE(etcds.rest());
//     EXPECT_EQ(etcds.problems(), "");
//
// Its lies: members are words in a status, pods have no processes, nobody evaluates the CRD's CEL
// rules (so a test must not shrink a cluster but to 0).
#pragma once

#include "test/sim/cluster.hpp"
#include "test/sim/world.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace capstan::test {

// What a person asks of an Etcd.
struct Shape {
    int replicas{1};
    int quota_gib{8};
    int cpu_milli{0};  // 0: says nothing; a change rolls the pods
    bool tls{false};   // without a client pair, which the plugin refuses
    std::string prefix;
};

// What the operator's writes did.
struct WriteAudit {
    std::uint64_t sent{0};
    std::uint64_t effective{0};
    std::map<std::string, int> created;  // by path: answers 201
    std::vector<std::string> errors;     // lastOperation.description of each Etcd status "Error"
    // where the etcd plugin's part of a status came back after it had been another
    std::vector<std::string> came_back;
    void person_acted() { trail_.clear(); }

private:
    friend class EtcdWorld;
    void note(const SeenWrite& write);
    void note_status(const std::string& target, const std::string& answer);
    std::map<std::string, std::vector<std::string>> trail_;  // by path, since a person acted
};

class EtcdWorld {
public:
    explicit EtcdWorld(WorldOptions options);
    ~EtcdWorld();

    // A person's requests.
    void put(const std::string& name, const Shape& shape);  // create or change
    void remove(const std::string& name);
    void annotate(const std::string& name, const std::string& key, const char* value_or_null);
    bool exists(const std::string& name);
    std::vector<std::string> child_paths();  // of every object that an Etcd controls

    // Everybody has done what there is to do: nothing but lease renewals for longer than a broken
    // watch or a failing key stays away.
    bool rest(std::chrono::nanoseconds quiet = std::chrono::minutes(3),
              std::chrono::nanoseconds limit = std::chrono::hours(3));
    // What is not as the specs say, one line each; "" is what rest must give.
    std::string problems();
    // Every object without times, versions and uids, by "Kind name".
    std::map<std::string, std::string> state();
    // A new process, then resyncs: the number of writes that changed something and, after the first
    // pass of the new process, of all writes. Must be {0, 0}.
    std::pair<std::uint64_t, std::uint64_t> writes_at_rest();

    // The process dies when it has sent so many writes: the last one is carried out and its answer
    // is lost. A new process starts at once. Asked while rest() runs.
    std::optional<std::uint64_t> crash_at_write;

    World world;
    WriteAudit audit;
    std::optional<Cluster> cluster;  // made when the CRDs are there

private:
    bool crash_is_due() const { return crash_at_write && world.writes() >= *crash_at_write; }
    std::string etcd_problems(const json::Value& etcd,
                              const std::map<std::string, std::string>& state);
};

// Lines of `a` and `b` that differ; "" for equal states.
std::string difference(const std::map<std::string, std::string>& a,
                       const std::map<std::string, std::string>& b);

}  // namespace capstan::test
