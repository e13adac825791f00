#include "plugins/steward-bridge/start_plan.hpp"

namespace capstan::steward {

StartDecision decide_start(const StartFacts& facts) {
    using List = StartFacts::List;
    using State = DataDirectory::State;
    const bool valid = facts.data.state == State::valid;
    const std::string data =
        facts.data.state == State::missing ? "the data directory is missing" : facts.data.reason;
    switch (facts.list) {
        case List::member:
            if (valid) {
                return {StartDo::start, {}, {}};
            }
            return {StartDo::rejoin_learner,
                    "DataInvalid",
                    data + "; the running cluster has the data"};
        case List::member_never_started:
            if (valid) {
                return {StartDo::start, {}, {}};
            }
            // Listed by the bootstrap, but it has never served: etcd itself takes that as "not
            // bootstrapped yet", and no vote of it can be lost. A record of its own says otherwise.
            if (facts.has_record) {
                return {StartDo::rejoin_learner,
                        "DataInvalid",
                        data + "; the running cluster has the data"};
            }
            return {StartDo::join, {}, {}};
        case List::not_member:
            return {StartDo::become_learner,
                    "NotAMember",
                    "the running cluster does not list this member"};
        case List::unreachable: break;
    }
    if (valid) {
        return {StartDo::start, {}, {}};
    }
    if (facts.has_record) {
        if (facts.replicas > 1) {
            return {
                StartDo::wait,
                "WaitingForCluster",
                data + " and no other member answers; waiting for the cluster, nothing is guessed"};
        }
        if (facts.store_configured) {
            return {StartDo::restore, "DataInvalid", data};
        }
        return {StartDo::fail,
                "DataLost",
                data +
                    ", the member ran before and no backup store is configured; remedy: bring the "
                    "volume back, or delete and create the Etcd to begin with an empty cluster"};
    }
    if (facts.data.state == State::invalid) {
        return {StartDo::fail,
                "DataInvalid",
                data +
                    ", and nothing is known of an earlier life of this member; remedy: look at the "
                    "volume, and empty it if it holds nothing of value"};
    }
    if (facts.store_configured) {
        return {StartDo::wait,
                "BackupsNotSupported",
                "a backup store is configured, and it cannot be read yet"};
    }
    return {StartDo::bootstrap, {}, {}};
}

}  // namespace capstan::steward
