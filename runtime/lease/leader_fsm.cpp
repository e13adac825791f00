#include "runtime/lease/leader_fsm.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace capstan::lease {
namespace {

using std::chrono::nanoseconds;

nanoseconds scaled(nanoseconds value, double factor) {
    return nanoseconds(static_cast<nanoseconds::rep>(static_cast<double>(value.count()) * factor));
}

// The Lease holds whole seconds; a rival must never wait for less than we count on.
std::int64_t whole_seconds(nanoseconds value) {
    return std::chrono::ceil<std::chrono::seconds>(value).count();
}

// With an empty holder the mark of a release, as client-go writes it too.
constexpr std::int64_t kReleasedSeconds = 1;
// An int32 in the API: one more and every write would be refused.
constexpr std::int64_t kTransitionsMax = std::numeric_limits<std::int32_t>::max();

const Error kTooLate{Code::timeout, "the lease ran out first", {}};

std::string seconds_text(nanoseconds value) {
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(value).count();
    const std::string tenths = std::to_string(ms % 1000 / 100);
    return std::to_string(ms / 1000) + (tenths == "0" ? "" : "." + tenths) + " s";
}

}  // namespace

LeaderFsm::LeaderFsm(LeaderOptions options, Random random)
    : options_(std::move(options)), random_(std::move(random)) {}

Step LeaderFsm::start(Moment at) {
    return attempt(at);
}

Step LeaderFsm::on_timer(Moment at) {
    if (role_ == Role::lost || role_ == Role::released) {
        return end();
    }
    if (release_until_ != kNever) {
        return release(at);
    }
    return attempt(at);
}

// After a new record was seen: until when somebody else may count on the lease. Of what happens to
// the Lease by hand (deleted, emptied, shortened) its holder learns at its next renewal: till then
// it keeps the time it was seen to have. A holder changes renewTime with each record it writes, and
// never its duration: a shorter one is an edit, or the end of one that made it longer, so the
// shorter of the one before and our own is respected.
void LeaderFsm::respect() {
    const json::View spec = json::View(lease_)["spec"];
    const std::int64_t given = spec["leaseDurationSeconds"].int_or(0);
    if (holder_.empty()) {
        const bool is_release = given == kReleasedSeconds;
        held_until_ = is_release ? MonotonicTime{0} : std::max(held_until_, seen_held_at_ + term_);
        term_ = is_release ? nanoseconds{0} : term_;
        return;
    }
    std::string renewal(spec["renewTime"].string_or(""));
    const bool written_by_holder = !renewal.empty() && renewal != renewal_;
    renewal_ = std::move(renewal);
    if (is_mine()) {
        return;
    }
    constexpr std::int64_t kSecondsMax = 1'000'000'000;  // no overflow below
    const nanoseconds wanted =
        given <= 0 ? options_.lease_duration : std::chrono::seconds(std::min(given, kSecondsMax));
    term_ = std::max(wanted, std::min(term_, options_.lease_duration));
    const MonotonicTime end = observed_at_ + term_;
    held_until_ = written_by_holder ? end : std::max(held_until_, observed_at_ + wanted);
}

MonotonicTime LeaderFsm::give_up_at() const noexcept {
    return std::min(renewed_at_ + options_.retry_period + options_.renew_deadline, fence_until_);
}

// One try to get or keep the lease.
Step LeaderFsm::attempt(Moment at) {
    if (role_ == Role::leading && at.now >= give_up_at()) {
        return lose("it was not renewed for " + seconds_text(at.now - renewed_at_) +
                    (trouble_ ? "; last: " + trouble_->message : ""));
    }
    if (role_ == Role::leading && is_mine()) {
        return ask(at, Doing::updating_fast, Step::Kind::update, record(at));
    }
    return ask(at, Doing::reading, Step::Kind::get);
}

Step LeaderFsm::ask(Moment at, Doing what, Step::Kind kind, json::Value lease) {
    doing_ = what;
    asked_at_ = at.now;
    Step step;
    step.kind = kind;
    step.until = at.now + std::max<nanoseconds>(kRequestTimeoutMin, options_.renew_deadline / 2);
    if (role_ == Role::leading) {
        step.until = std::min({step.until, give_up_at(), release_until_});
    }
    step.lease = std::move(lease);
    return step;
}

Step LeaderFsm::wait(MonotonicTime until) {
    doing_ = Doing::nothing;
    Step step;
    step.until = until;
    return step;
}

Step LeaderFsm::end() {
    doing_ = Doing::nothing;
    Step step;
    step.kind = Step::Kind::end;
    return step;
}

Step LeaderFsm::lose(std::string why) {
    role_ = Role::lost;
    loss_ = "leadership lost: lease " + where() + ": " + std::move(why);
    return end();
}

Step LeaderFsm::failed(Moment at, Error error) {
    trouble_ = std::move(error);
    if (role_ == Role::leading) {
        if (at.now >= give_up_at()) {
            return attempt(at);  // says that it is lost
        }
        return wait(std::min(at.now + options_.retry_period, give_up_at()));
    }
    if (trouble_->code == Code::conflict || trouble_->code == Code::exists) {
        return wait(at.now + look());  // somebody was faster: see who
    }
    return wait(at.now + scaled(options_.retry_period, 1.0 + kRetryJitter * random_()));
}

nanoseconds LeaderFsm::look() const {
    const nanoseconds longest = std::min<nanoseconds>(kStandbyLookMax, options_.retry_period);
    return scaled(longest, 0.8 + 0.2 * random_());
}

Step LeaderFsm::on_answer(Moment at, Result<json::Value> lease) {
    const Doing was = std::exchange(doing_, Doing::nothing);
    if (role_ == Role::leading && at.now >= fence_until_) {
        // However the request went: for a while nobody here was allowed to write.
        return release_until_ == kNever ? attempt(at) : released(kTooLate);
    }
    switch (was) {
        case Doing::reading_to_release:
        case Doing::releasing: return release_answer(at, was, std::move(lease));
        case Doing::reading: {
            if (lease) {
                return read(at, std::move(lease).value());
            }
            if (lease.error().code != Code::not_found) {
                return failed(at, lease.error());
            }
            observe(at.now, {});
            if (stands_back(at.now)) {
                trouble_.reset();
                return wait(std::min(at.now + look(), held_until_));
            }
            return ask(at, Doing::creating, Step::Kind::create, record(at));
        }
        case Doing::updating_fast:
            if (!lease) {
                ++slow_paths_;
                trouble_ = lease.error();
                return ask(at, Doing::reading, Step::Kind::get);
            }
            return took(at, std::move(lease).value());
        case Doing::creating:
        case Doing::updating:
            return lease ? took(at, std::move(lease).value()) : failed(at, lease.error());
        case Doing::nothing: break;
    }
    return attempt(at);
}

void LeaderFsm::observe(MonotonicTime at, json::Value lease) {
    const json::Value* spec = lease.find("spec");
    std::string text = spec == nullptr ? "" : json::dump(*spec);
    const bool changed = !seen_ || text != spec_;
    seen_ = true;
    lease_ = std::move(lease);
    holder_ = json::View(lease_)["spec"]["holderIdentity"].string_or("");
    if (changed) {
        observed_at_ = at;
        spec_ = std::move(text);
        respect();
    }
    if (!holder_.empty() && !is_mine()) {
        seen_held_at_ = at;
    }
}

// What a GET says.
Step LeaderFsm::read(Moment at, json::Value lease) {
    observe(at.now, std::move(lease));
    if (role_ == Role::leading && !holder_.empty() && !is_mine()) {
        return lose("it was taken by " + holder_);
    }
    if (stands_back(at.now)) {
        trouble_.reset();
        return wait(std::min(at.now + look(), held_until_));
    }
    return ask(at, Doing::updating, Step::Kind::update, record(at));
}

// A write of our record succeeded.
Step LeaderFsm::took(Moment at, json::Value lease) {
    // The record changed at the server between the sending and now.
    observe(asked_at_, std::move(lease));
    trouble_.reset();
    const MonotonicTime until = asked_at_ + options_.lease_duration - margin();
    if (at.now >= until) {
        return attempt(at);  // too late to be of use; ask again
    }
    role_ = Role::leading;
    held_until_ = MonotonicTime{0};
    term_ = nanoseconds{0};
    renewed_at_ = asked_at_;
    fence_until_ = until;
    return wait(std::min(at.now + options_.retry_period, give_up_at()));
}

// The Lease as it shall be, on top of what was last read.
json::Value LeaderFsm::record(Moment at) const {
    json::Value lease = lease_;
    if (!lease.is_object()) {
        lease = {{"apiVersion", "coordination.k8s.io/v1"},
                 {"kind", "Lease"},
                 {"metadata", {{"name", options_.name}, {"namespace", options_.ns}}}};
    }
    if (const json::Value* spec = lease.find("spec"); spec == nullptr || !spec->is_object()) {
        lease.set("spec", json::object());
    }
    json::Value& spec = lease["spec"];
    const std::string now = to_rfc3339_micro(at.wall);
    const std::int64_t transitions = std::clamp<std::int64_t>(
        json::View(spec)["leaseTransitions"].int_or(0), 0, kTransitionsMax);
    const bool kept = is_mine() && json::View(spec)["acquireTime"].present();
    if (!kept) {
        spec.set("acquireTime", now);
    }
    const bool changes_hands = lease_.is_object() && !is_mine() && transitions < kTransitionsMax;
    spec.set("leaseTransitions", transitions + (changes_hands ? 1 : 0));
    spec.set("holderIdentity", options_.identity);
    spec.set("leaseDurationSeconds", whole_seconds(options_.lease_duration));
    spec.set("renewTime", now);
    return lease;
}

Step LeaderFsm::release(Moment at) {
    if (role_ != Role::leading) {
        return end();
    }
    if (release_until_ == kNever) {
        release_until_ = std::min(at.now + options_.renew_deadline, give_up_at());
    }
    if (at.now >= release_until_) {
        return released(trouble_ ? trouble_ : kTooLate);
    }
    return ask(at, Doing::reading_to_release, Step::Kind::get);
}

Step LeaderFsm::released(std::optional<Error> error) {
    role_ = Role::released;
    trouble_ = std::move(error);
    return end();
}

Step LeaderFsm::release_answer(Moment at, Doing was, Result<json::Value> lease) {
    if (!lease) {
        trouble_ = lease.error();
        const Code code = lease.error().code;
        if (code == Code::not_found) {
            return released(std::nullopt);  // there is nothing to give back
        }
        return code == Code::conflict
                   ? release(at)
                   : wait(std::min(at.now + options_.retry_period / 4, release_until_));
    }
    observe(at.now, std::move(lease).value());
    if (was == Doing::releasing || !is_mine()) {
        return released(std::nullopt);
    }
    json::Value given_back = lease_;
    json::Value& spec = given_back["spec"];
    const std::string now = to_rfc3339_micro(at.wall);
    spec.set("holderIdentity", "");
    spec.set("leaseDurationSeconds", kReleasedSeconds);
    spec.set("acquireTime", now);
    spec.set("renewTime", now);
    return ask(at, Doing::releasing, Step::Kind::update, std::move(given_back));
}

}  // namespace capstan::lease
