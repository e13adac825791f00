#include "plugins/steward-bridge/member_start.hpp"

#include "plugins/steward-bridge/files.hpp"
#include "plugins/steward-bridge/member_restore.hpp"
#include "plugins/steward-bridge/render.hpp"

#include <utility>

namespace capstan::steward {
namespace {

using api::MemberState;
using api::MemberSubState;
using List = StartFacts::List;
using State = DataDirectory::State;
using std::chrono::milliseconds;

bool is_first(const Identity& me) {
    return me.pod.ends_with("-0");
}

// Whether a steward has ever told of its etcd there.
Result<bool> has_holder(Call& call, const ObjectKey& key) {
    const auto lease = call.client().get("coordination.k8s.io/v1/Lease", key);
    if (!lease && lease.error().code != Code::not_found) {
        return fail(with_context(lease.error(), "Lease " + key.name));
    }
    return lease && lease.value().text("/spec/holderIdentity").has_value();
}

}  // namespace

std::string learner_file(const std::string& run_dir) {
    return run_dir + "/learner";
}

void MemberStart::begin(const RunRequest& request) {
    request_ = request;
    inspected_ = false;
    looks_ = 0;
    last_problem_.clear();
}

milliseconds MemberStart::pause() const {
    // What is awaited is mostly another member that starts right now; then it is somebody's repair.
    constexpr unsigned kQuickLooks = 20, kSteadyLooks = 40;
    return looks_ < kQuickLooks    ? milliseconds(500)
           : looks_ < kSteadyLooks ? milliseconds(2'000)
                                   : milliseconds(5'000);
}

void MemberStart::wait_for(Call& call, const std::string& reason, const std::string& message) {
    status_.condition(kInitialised, reason, message, call.wall_now());
    if (message != last_problem_) {
        call.log(
            LogLevel::info, "initialisation waits", {{"reason", reason}, {"message", message}});
        last_problem_ = message;
    }
}

std::optional<MemberStart::Ended> MemberStart::give_up(Call& call,
                                                       const std::string& reason,
                                                       const std::string& message) {
    status_.condition(kInitialised, reason, message, call.wall_now());
    call.log(
        LogLevel::error, "the member cannot start", {{"reason", reason}, {"message", message}});
    return Ended{false, {}};
}

void MemberStart::leave_started(Call& call) {
    if (status_.state() == MemberState::started) {
        enter_validation(call, reason_to_validate());
    }
}

const char* MemberStart::reason_to_validate() const {
    return request_.full ? "DetectedPreviousUncleanExit" : "DetectedPreviousCleanExit";
}

void MemberStart::enter_validation(Call& call, const char* reason) {
    status_.enter(
        MemberState::initializing,
        request_.full ? MemberSubState::db_validation_full : MemberSubState::db_validation_sanity,
        reason,
        {},
        call.wall_now());
}

// Once per start, and again only when somebody has touched the directory meanwhile.
const DataDirectory& MemberStart::inspect(Call& call, const std::string& path) {
    const std::string now = fingerprint_of(path);
    const bool lasting = data_.state != State::in_use && data_.state != State::unreadable;
    if (inspected_ && now == fingerprint_ && lasting) {
        return data_;
    }
    data_ = inspect_data_directory(path, Depth::sanity);
    if (data_.state != State::missing) {
        enter_validation(call, reason_to_validate());
    }
    if (request_.full && data_.state == State::valid) {
        publish_(call);  // reading all of it takes a while
        data_ = inspect_data_directory(path, Depth::full);
    }
    inspected_ = true;
    fingerprint_ = now;
    return data_;
}

void MemberStart::find_self(Look& look) {
    look.list = look.cluster.find();
    if (!look.list) {
        return;
    }
    const ListedMember* own = find_own(*look.list, member_.identity().member, look.peer_urls);
    look.facts.list = standing_of(own);
    look.own_id = own == nullptr ? std::string() : own->id;
}

void MemberStart::judge(Look& look) {
    OwnerFacts owner;
    const auto notes = read_owner_notes(look.data_dir);
    if (!notes) {
        look.facts.data.state = State::unreadable;
        look.facts.data.reason = "it cannot be read whose the data is: " + notes.error().message;
        return;
    }
    owner.note = notes.value().note;
    owner.safe_guard = notes.value().safe_guard;
    owner.record_id = status_.get().id.value_or("");
    owner.record_cluster = status_.get().cluster_id.value_or("");
    owner.list_known = look.list.has_value();
    owner.own_id = look.own_id;
    if (look.list) {
        owner.cluster_id = look.list->cluster_id;
        for (const ListedMember& member : look.list->members) {
            if (member.id != look.own_id) {
                owner.other_ids.push_back(member.id);
            }
        }
    }
    look.facts.owner = judge_owner(look.facts.data, owner, member_.identity().member_key());
    const WallTime now = look.call.wall_now();
    if (look.facts.owner.owner == DataOwner::foreign) {
        status_.volume_mismatch(look.facts.owner.volume_id, request_.run, now);
    } else {
        status_.volume_matches(now);
    }
}

// The lease is the older witness: an EtcdMember may have been deleted and made again. Whoever has
// data to start with needs none of them.
Result<bool> MemberStart::has_record(const Look& look) const {
    if (status_.has_record() || usable(look.facts)) {
        return status_.has_record();
    }
    return has_holder(look.call, member_.identity().member_key());
}

// One look that reaches nobody is not enough to make a cluster beside one that may be running.
Result<std::string> MemberStart::other_that_ran(const Look& look) const {
    const Identity& me = member_.identity();
    for (const std::string& name : look.configuration.member_names) {
        if (name != me.member) {
            CAPSTAN_TRY(const bool ran, has_holder(look.call, {me.ns, name}));
            if (ran) {
                return name;
            }
        }
    }
    return std::string();
}

// False: something has to be waited for, which has been said.
bool MemberStart::gather(Look& look, bool learner_mark) {
    auto urls = own_peer_urls(look.configuration.etcd, look.map);
    if (!urls) {
        wait_for(look.call, "ConfigurationNotRendered", urls.error().message);
        return false;
    }
    look.peer_urls = std::move(urls).value();
    StartFacts& facts = look.facts;
    facts.replicas = look.configuration.replicas;
    facts.learner_mark = learner_mark;
    facts.first = is_first(member_.identity());
    facts.data = inspect(look.call, look.data_dir);
    find_self(look);
    judge(look);
    const auto record = has_record(look);
    if (!record) {
        wait_for(look.call,
                 "RecordUnreadable",
                 "it is not known whether this member ran before: " + record.error().message);
        return false;
    }
    facts.has_record = record.value();
    const bool listed = look.list && !look.own_id.empty();
    if (listed && !usable(facts) && facts.list != List::learner) {
        facts.quorum_without_me = look.cluster.quorum_without(*look.list, look.own_id);
    }
    if (needs_store(facts)) {
        // A restoration goes to the end of all there is, so nothing may follow it.
        if (!member_.snapshots_at_rest()) {
            wait_for(look.call,
                     "SnapshotsUnderWay",
                     "the last snapshots of the etcd that ran so far are still being stored");
            return false;
        }
        const StoreLook store =
            look_at_store(look.call,
                          store_of(look.configuration.backup, member_.plugin_config()),
                          look.map,
                          member_.identity());
        facts.store = store.store;
        facts.store_problem = store.problem;
    }
    if (needs_others(facts)) {
        auto other = other_that_ran(look);
        if (!other) {
            wait_for(look.call,
                     "RecordUnreadable",
                     "it is not known whether this cluster ran before: " + other.error().message);
            return false;
        }
        facts.other_ran = std::move(other).value();
    }
    return true;
}

std::optional<MemberStart::Ended> MemberStart::look(Call& call,
                                                    const Configuration& configuration,
                                                    const PodMap& map,
                                                    bool learner_mark) {
    ++looks_;
    if (!status_.state()) {
        const char* reason = learner_mark                  ? "ClusterScaledUp"
                             : configuration.replicas == 1 ? "NewSingleNodeClusterCreated"
                                                           : "NewClusterCreated";
        status_.enter(MemberState::new_, std::nullopt, reason, {}, call.wall_now());
    }
    if (const Result<void> fresh = tls_.refresh(call, configuration, map); !fresh) {
        wait_for(call, "CertificatesUnreadable", fresh.error().message);
        return std::nullopt;
    }
    Look look{call,
              configuration,
              map,
              RunningCluster(call, configuration, map, member_.client_tls()),
              {},
              {},
              {},
              {},
              map.path(configuration.data_dir)};
    if (const Result<void> writable = check_writable(look.data_dir);
        !writable && writable.error().code == Code::forbidden) {
        enter_validation(call, "DataVolumeReadOnly");
        wait_for(call,
                 "DataVolumeReadOnly",
                 writable.error().message + "; remedy: make the volume writable, or replace it");
        return std::nullopt;
    }
    if (!gather(look, learner_mark)) {
        return std::nullopt;
    }
    return act(look, decide_start(look.facts));
}

std::optional<MemberStart::Ended> MemberStart::act(Look& look, const StartDecision& decision) {
    switch (decision.what) {
        case StartDo::start: return prepare(look, "start", false);
        case StartDo::bootstrap: return prepare(look, "bootstrap", false);
        case StartDo::join: return prepare(look, "join", true);
        case StartDo::rejoin_learner: return rejoin(look, decision);
        case StartDo::become_learner:
            if (look.facts.data.state != State::missing &&
                status_.sub_state() != MemberSubState::pending_learner) {
                enter_new(look, "MemberRemoved", decision.message);
            }
            return add_as_learner(look);
        case StartDo::restore: return restore(look, decision);
        case StartDo::fail: return give_up(look.call, decision.reason, decision.message);
        case StartDo::wait: break;
    }
    if (decision.reason == "WaitingToJoinAsLearner") {
        status_.enter(MemberState::starting,
                      MemberSubState::pending_learner,
                      decision.reason,
                      {},
                      look.call.wall_now());
    }
    wait_for(look.call, decision.reason, decision.message);
    return std::nullopt;
}

std::optional<MemberStart::Ended> MemberStart::prepare(Look& look, const char* how, bool existing) {
    RenderOptions options;
    if (existing) {
        options.existing_cluster =
            initial_cluster_of(*look.list, look.own_id, member_.identity().member);
    }
    auto rendered = render_etcd_config(look.configuration.etcd, look.map, options);
    if (!rendered) {
        wait_for(look.call, "ConfigurationNotRendered", rendered.error().message);
        return std::nullopt;  // a peer without an address yet: look again
    }
    const auto noted = write_owner_notes(look.data_dir, member_.identity().member_key());
    if (!noted) {
        wait_for(look.call, "DataNotWritable", noted.error().message);
        return std::nullopt;
    }
    const std::string run_dir = look.map.path(member_.identity().run_dir);
    const bool learner = look.facts.learner_mark || look.facts.list == List::learner ||
                         std::string_view(how) == "learner";
    auto stored = learner ? write_file(learner_file(run_dir), "no vote yet\n") : Result<void>(ok());
    if (stored) {
        stored = write_file(run_dir + "/etcd.conf.yaml", rendered.value());
    }
    if (!stored) {
        wait_for(look.call, "ConfigurationNotStored", stored.error().message);
        return std::nullopt;
    }
    look.call.log(LogLevel::info,
                  "member is ready to start",
                  {{"how", how}, {"configHash", look.configuration.config_hash}});
    status_.condition(kInitialised, {}, {}, look.call.wall_now());
    return Ended{true, std::move(rendered).value()};
}

std::optional<MemberStart::Ended> MemberStart::look_without_api(Call& call,
                                                                const std::string& last_good,
                                                                const Error& why) {
    ++looks_;
    const auto config = json::parse(last_good);
    const std::string data_dir(config ? json::View(config.value())["data-dir"].string_or("")
                                      : std::string_view());
    const auto notes = read_owner_notes(data_dir);
    const ObjectKey me = member_.identity().member_key();
    const bool mine =
        notes && (notes.value().note.empty() || notes.value().note == me.ns + "/" + me.name);
    if (data_dir.empty() || !mine || inspect(call, data_dir).state != State::valid) {
        wait_for(call,
                 "ConfigurationUnreadable",
                 why.message + "; without it only whole data of this member is started");
        return std::nullopt;
    }
    call.log(LogLevel::warn,
             "the API cannot be read, starting from the last good configuration",
             {{"error", why.message}});
    return Ended{true, last_good};
}

}  // namespace capstan::steward
