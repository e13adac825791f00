#include "plugins/steward-bridge/start_plan.hpp"

namespace capstan::steward {
namespace {

using List = StartFacts::List;
using State = DataDirectory::State;
using Store = StartFacts::Store;

constexpr const char* kHeldByAnother = "StoreHeldByAnotherEtcd";

std::string describe(const StartFacts& facts) {
    if (facts.data.state == State::missing) {
        return "the data directory is missing";
    }
    if (facts.data.state == State::valid) {
        return "the data is of an earlier life of this member, " + facts.data.member_id +
               ", which the cluster has removed";
    }
    return facts.data.reason;
}

// Comes back as a learner, if the cluster can do without this member meanwhile.
StartDecision rejoin(const StartFacts& facts) {
    // The entry of a learner counts for no quorum.
    if (facts.list != List::learner && !facts.quorum_without_me) {
        return {StartDo::wait,
                "NoQuorumWithoutMember",
                describe(facts) +
                    "; too few other members answer to remove this one from the cluster and to add "
                    "it again, waiting for them"};
    }
    return {StartDo::rejoin_learner,
            "DataInvalid",
            describe(facts) + "; the running cluster has the data"};
}

StartDecision decide_reachable(const StartFacts& facts) {
    if (facts.list == List::not_member) {
        return {
            StartDo::become_learner, "NotAMember", "the running cluster does not list this member"};
    }
    if (usable(facts)) {
        return {StartDo::start, {}, {}};
    }
    // Listed by the bootstrap, but it has never served: etcd itself takes that as "not bootstrapped
    // yet", and no vote of it can be lost. A record or data of its own says otherwise.
    if (facts.list == List::member_never_started && !facts.has_record &&
        facts.data.state == State::missing) {
        return {StartDo::join, {}, {}};
    }
    return rejoin(facts);
}

// One member, alone with data that is lost or damaged.
StartDecision decide_alone(const StartFacts& facts) {
    const std::string what = describe(facts);
    switch (facts.store) {
        case Store::has_backups: return {StartDo::restore, "DataInvalid", what};
        case Store::unreachable:
            return {StartDo::wait,
                    "StoreUnreachable",
                    what + ", and the backup store cannot be read: " + facts.store_problem};
        case Store::foreign:
            return {StartDo::wait, kHeldByAnother, what + ", and " + facts.store_problem};
        case Store::empty:
            return {StartDo::fail,
                    "NoBackups",
                    what +
                        ", and the backup store holds no snapshot; remedy: bring the volume back, "
                        "or delete and create the Etcd to begin with an empty cluster"};
        case Store::none: break;
    }
    if (!facts.has_record) {
        return {StartDo::fail,
                "DataInvalid",
                what +
                    ", and nothing is known of an earlier life of this member; remedy: look at the "
                    "volume, and empty it if it holds nothing of value"};
    }
    return {StartDo::fail,
            "DataLost",
            what +
                ", the member ran before and no backup store is configured; remedy: bring the "
                "volume back, or delete and create the Etcd to begin with an empty cluster"};
}

// Nothing is here and nothing was: a new cluster, or one that lives on in its backups.
StartDecision decide_first_start(const StartFacts& facts) {
    switch (facts.store) {
        case Store::none:
        case Store::empty: return {StartDo::bootstrap, {}, {}};
        case Store::unreachable:
            return {StartDo::wait,
                    "StoreUnreachable",
                    "the backup store cannot be read, so it is not known whether this cluster has "
                    "to be restored: " +
                        facts.store_problem};
        case Store::foreign:
            return {
                StartDo::wait,
                kHeldByAnother,
                "this member would begin with the data of another Etcd: " + facts.store_problem};
        case Store::has_backups: break;
    }
    if (facts.first && facts.replicas > 1 && !facts.other_ran.empty()) {
        return {StartDo::wait,
                "WaitingForCluster",
                "member " + facts.other_ran +
                    " has run before, so its cluster may live although no member answers; it is "
                    "not restored beside it; remedy: bring that member back, or delete and create "
                    "the Etcd to restore it from its backups"};
    }
    if (facts.first) {
        return {StartDo::restore, "BackupsFound", "the backup store holds this cluster's data"};
    }
    return {StartDo::wait,
            "WaitingForRestoration",
            "the first member restores the cluster from its backups; this one joins it then"};
}

StartDecision decide_unreachable(const StartFacts& facts) {
    if (usable(facts)) {
        return {StartDo::start, {}, {}};
    }
    if (facts.learner_mark) {
        return {
            StartDo::wait,
            "WaitingToJoinAsLearner",
            "this member joins a running cluster, and no other member answers; waiting for them"};
    }
    if (facts.replicas > 1 && facts.has_record) {
        return {StartDo::wait,
                "WaitingForCluster",
                describe(facts) +
                    " and no other member answers; waiting for the cluster, nothing is guessed"};
    }
    if (facts.data.state == State::missing && !facts.has_record) {
        return decide_first_start(facts);
    }
    if (facts.replicas == 1) {
        return decide_alone(facts);
    }
    return {StartDo::fail,
            "DataInvalid",
            describe(facts) +
                ", and nothing is known of an earlier life of this member; remedy: look at the "
                "volume, and empty it if it holds nothing of value"};
}

}  // namespace

bool usable(const StartFacts& facts) {
    return facts.data.state == State::valid && facts.owner.owner != DataOwner::earlier_life;
}

bool needs_store(const StartFacts& facts) {
    return facts.list == List::unreachable && !usable(facts) && !facts.learner_mark &&
           !(facts.has_record && facts.replicas > 1) && facts.data.state != State::in_use &&
           facts.data.state != State::unreadable && facts.owner.owner != DataOwner::foreign;
}

bool needs_others(const StartFacts& facts) {
    return decide_start(facts).what == StartDo::restore && facts.replicas > 1;
}

StartDecision decide_start(const StartFacts& facts) {
    if (facts.data.state == State::in_use) {
        return {StartDo::wait, "DataInUse", facts.data.reason};
    }
    if (facts.owner.owner == DataOwner::foreign) {
        return {StartDo::wait,
                "VolumeMismatch",
                facts.owner.message +
                    "; it is left untouched; remedy: give this member its own volume back, or an "
                    "empty one"};
    }
    if (facts.data.state == State::unreadable) {
        return {StartDo::wait,
                "DataUnreadable",
                facts.data.reason +
                    "; it is not known what is there, so nothing is replaced; remedy: let this "
                    "process read all of the volume, or replace a disk that fails"};
    }
    return facts.list == List::unreachable ? decide_unreachable(facts) : decide_reachable(facts);
}

}  // namespace capstan::steward
