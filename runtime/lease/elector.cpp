#include "runtime/lease/elector.hpp"

#include "runtime/kube/status.hpp"

#include <utility>

namespace capstan::lease {
namespace {

constexpr std::string_view kGroupPath = "/apis/coordination.k8s.io/v1/namespaces/";
constexpr std::string_view kManager = "?fieldManager=capstan";

}  // namespace

Elector::Elector(ElectorParts parts, LeaderOptions options, ElectorHandler handler)
    : parts_(std::move(parts)),
      handler_(std::move(handler)),
      fsm_(std::move(options), parts_.random),
      master_(parts_.metrics
                  .gauge("leader_election_master_status",
                         "1: this process leads; 0: it stands by.",
                         {"name"})
                  .with({fsm_.options().name})),
      slow_path_(parts_.metrics
                     .counter("leader_election_slowpath_total",
                              "Renewals that had to read the lease again.",
                              {"name"})
                     .with({fsm_.options().name})) {
    parts_.health.add(kHealthCheck, obs::Probe::readyz, "the lease has not been read yet");
}

Elector::~Elector() = default;

void Elector::start() {
    perform(fsm_.start(moment()));
}

void Elector::release(std::function<void(Result<void>)> done) {
    parts_.fence.drop();
    released_ = std::move(done);
    perform(fsm_.release(moment()));
}

void Elector::perform(Step step) {
    timer_.reset();
    call_.reset();
    report();
    switch (step.kind) {
        case Step::Kind::wait:
            timer_ = parts_.loop.at(step.until, [this] { perform(fsm_.on_timer(moment())); });
            return;
        case Step::Kind::end:
            if (released_) {
                const auto done = std::exchange(released_, nullptr);
                done(fsm_.role() == Role::released && fsm_.trouble()
                         ? Result<void>(fail(*fsm_.trouble()))
                         : Result<void>(ok()));
            }
            return;
        case Step::Kind::get:
        case Step::Kind::create:
        case Step::Kind::update: send(std::move(step)); return;
    }
}

void Elector::send(Step step) {
    const LeaderOptions& options = fsm_.options();
    std::string target = std::string(kGroupPath) + options.ns + "/leases";
    std::string method, verb;
    if (step.kind == Step::Kind::create) {
        method = "POST", verb = "create";
        target += kManager;
    } else {
        const bool update = step.kind == Step::Kind::update;
        method = update ? "PUT" : "GET", verb = update ? "update" : "get";
        target += "/" + options.name + std::string(update ? kManager : "");
    }
    const std::string what =
        verb + " leases.coordination.k8s.io " + options.ns + "/" + options.name;
    call_ = parts_.client.raw(
        std::move(method),
        std::move(target),
        step.lease.is_null() ? "" : json::dump(step.lease),
        step.until,
        [this, what](Result<net::HttpResponse> answer) { answered(what, std::move(answer)); });
}

void Elector::answered(const std::string& what, Result<net::HttpResponse> answer) {
    Result<json::Value> lease = fail(Code::unavailable, what + ": the answer is no object");
    if (!answer) {
        lease = fail(with_context(answer.error(), what));
    } else if (auto parsed = json::parse(answer.value().body);
               parsed && parsed.value().is_object()) {
        lease = std::move(parsed);
    }
    if (!lease) {
        refused_ = what;
    }
    perform(fsm_.on_answer(moment(), std::move(lease)));
}

void Elector::report() {
    slow_path_.add(fsm_.slow_paths() - slow_path_.value());
    const Role role = fsm_.role();
    if (role == Role::leading && released_ == nullptr) {
        parts_.fence.extend(fsm_.fence_until());
    }
    report_trouble();
    if (role == Role::standby) {
        report_standby();
    }
    if (role == std::exchange(told_, role)) {
        return;
    }
    const std::string lease = fsm_.options().ns + "/" + fsm_.options().name;
    master_.set(role == Role::leading ? 1 : 0);
    switch (role) {
        case Role::standby: return;
        case Role::leading:
            parts_.health.ready(kHealthCheck, "leader");
            parts_.log.info("became leader",
                            {{"lease", lease}, {"holder", fsm_.options().identity}});
            handler_.elected();
            return;
        case Role::lost:
            parts_.fence.drop();
            parts_.health.not_ready(kHealthCheck, "leadership lost");
            parts_.log.error("leadership lost", {{"lease", lease}, {"reason", fsm_.loss()}});
            handler_.lost(fsm_.loss());
            return;
        case Role::released:
            parts_.health.not_ready(kHealthCheck, "the lease was given back");
            if (!fsm_.trouble()) {
                parts_.log.info("lease released", {{"lease", lease}});
            }
            return;
    }
}

void Elector::report_standby() {
    if (!fsm_.seen() || fsm_.trouble() || fsm_.holder() == fsm_.options().identity) {
        return;
    }
    if (std::exchange(told_standby_, true) && told_holder_ == fsm_.holder()) {
        return;
    }
    told_holder_ = fsm_.holder();
    parts_.health.ready(
        kHealthCheck,
        told_holder_.empty() ? "standby; nobody leads" : "standby; the leader is " + told_holder_);
    if (!told_holder_.empty()) {
        parts_.log.info(
            "standing by: another process holds the lease",
            {{"lease", fsm_.options().ns + "/" + fsm_.options().name}, {"holder", told_holder_}});
    }
}

void Elector::report_trouble() {
    if (!fsm_.trouble() || refused_.empty()) {
        return;
    }
    const std::string what = std::exchange(refused_, "");
    const Error& error = *fsm_.trouble();
    const bool raced = error.code == Code::conflict || error.code == Code::exists;
    parts_.log.write(raced ? obs::Level::debug : obs::Level::warn,
                     fsm_.role() == Role::leading ? "lease not renewed yet; it is tried again"
                                                  : "lease request failed; it is tried again",
                     {{"error", error.message}});
    const bool cannot_lead = error.code == Code::forbidden || error.code == Code::not_found ||
                             error.code == Code::invalid;
    if (fsm_.role() == Role::standby && (cannot_lead || !fsm_.seen())) {
        told_standby_ = false;
        parts_.health.not_ready(kHealthCheck, kube::refusal_text(error, what));
    }
}

}  // namespace capstan::lease
