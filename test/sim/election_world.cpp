#include "test/sim/election_world.hpp"

#include <array>

namespace capstan::test {
namespace {

constexpr std::size_t kSlots = 64;  // processes in one world
std::array<DemoRecord*, kSlots> slots{};

class SlotController final : public Controller {
public:
    explicit SlotController(std::size_t slot) : slot_(slot) {}
    Outcome reconcile(Call& call, const Request& request) override {
        return demo_reconcile(*slots[slot_], call, request);
    }

private:
    const std::size_t slot_;
};

class SlotService final : public Service {
public:
    explicit SlotService(std::size_t slot) : slot_(slot) {}
    Result<void> run(Call&) override {
        ++slots[slot_]->runs["service"];
        return ok();
    }

private:
    const std::size_t slot_;
};

Result<void> make_from_slot(Setup& setup) {
    const auto slot = static_cast<std::size_t>(json::View(setup.config())["slot"].int_or(0));
    setup.controller("main", std::make_unique<SlotController>(slot));
    setup.service("beat", std::make_unique<SlotService>(slot));
    return ok();
}

std::unique_ptr<local::ApiServer> make_server(const Clock& clock, std::uint64_t seed) {
    local::ApiServerOptions options;
    options.rbac = false;
    options.seed = seed;
    return local::ApiServer::create(clock, std::move(options)).value();
}

kube::ClientOptions client_options(kube::WriteGate* gate) {
    kube::ClientOptions options;
    options.host = "sim";
    options.gate = gate;
    return options;
}

cache::CacheOptions cache_options(ElectionWorld& world) {
    cache::CacheOptions options;
    options.random = [&world] { return static_cast<double>(world.random() >> 11) * 0x1p-53; };
    return options;
}

LocalTransportOptions one_millisecond() {
    LocalTransportOptions options;
    options.latency = std::chrono::milliseconds(1);
    return options;
}

}  // namespace

Candidate::Candidate(ElectionWorld& w, std::size_t s, std::string id)
    : world(w),
      slot(s),
      identity(std::move(id)),
      loop(w.loop),
      threads(w.baton, loop),
      wire(w.loop, w.on_arrival(*this), one_millisecond()),
      lease_wire(w.loop, w.on_arrival(*this), one_millisecond()),
      http(wire, loop),
      lease_http(lease_wire, loop),
      fence(loop, metrics),
      client(loop, http, client_options(&fence)),
      lease_client(loop, lease_http, client_options(nullptr)),
      cache(loop, client, cache_options(w)),
      elector({loop,
               lease_client,
               fence,
               obs::Log(loop, log.sink()),
               metrics,
               health,
               cache_options(w).random},
              [&] {
                  lease::LeaderOptions options = w.options;
                  options.identity = identity;
                  return options;
              }(),
              {[this] {
                   elected = true;
                   runtime->lead();
               },
               [this](const std::string& why) { lost = why; }}) {
    wire.set_faults([this](const net::HttpRequest& r) { return world.on_sent(*this, r, false); });
    lease_wire.set_faults(
        [this](const net::HttpRequest& r) { return world.on_sent(*this, r, true); });
}

Candidate::~Candidate() = default;

void Candidate::start() {
    control::RuntimeOptions options;
    options.standby = true;
    control::Parts parts{loop,
                         threads,
                         client,
                         cache,
                         obs::Log(loop, log.sink()),
                         metrics,
                         health,
                         {},
                         [this] { return world.random(); },
                         {},
                         &fence};
    runtime = std::make_unique<control::Runtime>(std::move(parts), std::move(options));
    slots[slot] = &record;
    control::Plugin plugin;
    const json::Value extra = {{"services", json::list({{{"name", "beat"}}})}};
    plugin.manifest = plugin::parse_manifest(manifest_json("demo.example.io", extra)).value();
    const capstan_host* host = runtime->host_for(plugin.manifest);
    plugin.table = detail::plugin_entry(host, &make_from_slot, "test", "1.0.0");
    plugin.service = static_cast<const capstan_plugin_service*>(
        plugin.table->get_ext(to_str("capstan.service/1")));
    plugin.config = {{"slot", slot}};
    const auto added = runtime->add(std::move(plugin));
    CAPSTAN_CHECK(added.has_value(), added.error().message);
    runtime->start();
    elector.start();
}

bool Candidate::shut_down(std::chrono::nanoseconds grace) {
    std::optional<control::StopReport> report;
    runtime->stop(grace, [&](control::StopReport done) { report = std::move(done); });
    world.run_until([&] { return report.has_value(); }, grace + std::chrono::minutes(10));
    stopped = true;
    if (!report || !report->clean()) {
        return false;
    }
    bool released = false;
    elector.release([&](const Result<void>&) { released = true; });
    world.run_until([&] { return released; }, std::chrono::minutes(1));
    return released;
}

void Candidate::cut(bool on) {
    wire.set_partitioned(on);
    lease_wire.set_partitioned(on);
}

ElectionWorld::ElectionWorld(std::uint64_t seed)
    : random(seed), baton(loop, seed), api(loop, make_server(loop, seed)) {
    options.ns = "ns";
    options.name = "capstan";
    api.ask("POST",
            "/api/v1/namespaces",
            R"({"apiVersion":"v1","kind":"Namespace","metadata":{"name":"ns"}})");
    api.on_write = [this](const SeenWrite& write) {
        if (!write.changed || write.target.find("/leases") == std::string::npos) {
            return;
        }
        const auto lease = json::parse(write.answer);
        const std::string now(json::View(lease.value())["spec"]["holderIdentity"].string_or(""));
        for (const auto& candidate : candidates) {
            if (candidate->identity == now) {
                // A rival waits for the whole duration from here on at least; the margin is ours.
                const auto margin = options.lease_duration / lease::kFenceMarginShare;
                candidate->may_send_until =
                    candidate->lease_sent_at + options.lease_duration - margin;
            }
        }
    };
}

ElectionWorld::~ElectionWorld() {
    for (const auto& candidate : candidates) {
        if (!candidate->stopped) {
            end(*candidate);
        }
    }
}

Candidate& ElectionWorld::start(const std::string& identity) {
    CAPSTAN_CHECK(candidates.size() < kSlots, "too many processes in one world");
    candidates.push_back(std::make_unique<Candidate>(*this, candidates.size(), identity));
    candidates.back()->start();
    return *candidates.back();
}

void ElectionWorld::end(Candidate& candidate) {
    candidate.cut(true);
    candidate.loop.go_on();
    std::optional<control::StopReport> report;
    candidate.runtime->stop(std::chrono::seconds(1),
                            [&](control::StopReport done) { report = std::move(done); });
    const bool over = run_until([&] { return report.has_value(); }, std::chrono::minutes(10));
    CAPSTAN_CHECK(over, baton.describe());
    candidate.stopped = true;
}

Candidate* ElectionWorld::leader() {
    for (const auto& candidate : candidates) {
        if (!candidate->stopped && candidate->leads()) {
            return candidate.get();
        }
    }
    return nullptr;
}

std::string ElectionWorld::holder() {
    const auto answer = api.ask("GET", kLeasePath);
    const auto lease = json::parse(answer.body);
    return lease && answer.status == 200
               ? std::string(json::View(lease.value())["spec"]["holderIdentity"].string_or(""))
               : "<none>";
}

int ElectionWorld::edit_lease(const std::string& spec) {
    return spec.empty() ? api.ask("DELETE", kLeasePath).status
                        : api.ask("PATCH",
                                  kLeasePath,
                                  R"({"spec":)" + spec + "}",
                                  "application/merge-patch+json")
                              .status;
}

int ElectionWorld::put(const std::string& name, const std::string& value) {
    return api.put_config_map(name, value);
}

std::string ElectionWorld::secret(const std::string& name) {
    const auto answer = api.ask("GET", "/api/v1/namespaces/ns/secrets/" + name);
    if (answer.status != 200) {
        return "<none>";
    }
    const auto secret = json::parse(answer.body);
    return std::string(
        json::View(secret.value())["metadata"]["annotations"]["demo.example.io/value"].string_or(
            ""));
}

Fault ElectionWorld::on_sent(Candidate& candidate, const net::HttpRequest& request, bool lease) {
    if (lease && request.method != "GET") {
        candidate.lease_sent_at = loop.now();
    }
    if (!lease && request.method != "GET") {
        ++candidate.sent;
        if (loop.now() >= candidate.may_send_until) {
            find(candidate, request.method + " " + request.target + " sent after its fence");
        }
        if (candidate.loop.stopped()) {
            find(candidate, "the test is wrong: a stopped process has sent");
        }
    }
    return faults ? faults(request, lease) : Fault{};
}

net::ServerHandler ElectionWorld::on_arrival(Candidate& candidate) {
    return [this, &candidate, serve = api.handler()](std::shared_ptr<net::ServerExchange> e) {
        if (e->method() != "GET" && e->target().find("/leases") == std::string::npos) {
            ++arrived;
            if (const std::string now = holder(); now != candidate.identity) {
                find(candidate, e->method() + " " + e->target() + " arrived while " + now + " led");
            }
        }
        serve(std::move(e));
    };
}

void ElectionWorld::find(const Candidate& candidate, const std::string& what) {
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(loop.now()).count();
    findings.push_back(std::to_string(ms) + " ms: " + candidate.identity + ": " + what);
}

}  // namespace capstan::test
