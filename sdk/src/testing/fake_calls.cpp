// Driving a plugin: entry, lifecycle, reconciles, services, requests.
#include "fake_state.hpp"

namespace capstan::testing {

namespace {

constexpr std::chrono::seconds kDeadline{60};

capstan_call* to_abi(FakeCall& call) noexcept {
    return reinterpret_cast<capstan_call*>(&call);
}

FakeCall& open_call(FakeState& state, FakeCall& call) {
    call.state = &state;
    state.open_calls.insert(&call);
    return call;
}

template <class Table>
const Table* extension(const capstan_plugin& plugin, std::string_view id) noexcept {
    return plugin.get_ext != nullptr ? static_cast<const Table*>(plugin.get_ext(str(id))) : nullptr;
}

}  // namespace

PluginUnderTest::PluginUnderTest(FakeHost& host, PluginEntry entry, std::string_view config_json)
    : host_(host), table_(entry(host.host())) {
    if (table_ == nullptr) {
        create_rc_ = CAPSTAN_E_UNSUPP;
        return;
    }
    capstan_ctl* ctl = nullptr;
    create_rc_ = table_->create(host.host(), str(config_json), &ctl);
    if (create_rc_ != CAPSTAN_OK) {
        return;
    }
    create_rc_ = table_->start(ctl);
    if (create_rc_ != CAPSTAN_OK) {
        table_->destroy(ctl);
        return;
    }
    ctl_ = ctl;
    host_.state().plugin = table_;
    host_.state().instance = ctl;
}

PluginUnderTest::~PluginUnderTest() {
    if (ctl_ != nullptr) {
        if (host_.state().instance == ctl_) {
            host_.state().plugin = nullptr;
            host_.state().instance = nullptr;
        }
        table_->stop(ctl_, static_cast<std::uint64_t>(host_.now().count()));
        table_->destroy(ctl_);
    }
}

Reconciled PluginUnderTest::reconcile(std::string_view controller,
                                      std::string_view gvk,
                                      const ObjectKey& key,
                                      std::uint32_t attempt) {
    FakeCall call;
    open_call(host_.state(), call).deadline_ns =
        static_cast<std::uint64_t>((host_.now() + kDeadline).count());
    const auto parsed = GroupVersionKind::parse(gvk);
    const GroupVersionKind kind = parsed ? parsed.value() : GroupVersionKind{};
    const capstan_request request{{sizeof(capstan_request), CAPSTAN_ABI},
                                  str(controller),
                                  str(kind.group),
                                  str(kind.kind),
                                  str(key.ns),
                                  str(key.name),
                                  call.deadline_ns,
                                  attempt,
                                  0};
    const capstan_rc rc = table_->reconcile(ctl_, to_abi(call), &request);
    Reconciled result = call.done.value_or(Reconciled{});
    if (!call.done || rc == CAPSTAN_E_PANIC) {
        result.rc = rc;
        result.retry = rc == CAPSTAN_OK ? CAPSTAN_RETRY_NONE : CAPSTAN_RETRY_BACKOFF;
    }
    result.leaked_objects = host_.state().close_call(call);
    return result;
}

capstan_rc PluginUnderTest::run_service(std::string_view name) {
    const auto* service = extension<capstan_plugin_service>(*table_, "capstan.service/1");
    if (service == nullptr) {
        return CAPSTAN_E_UNSUPP;
    }
    FakeCall call;
    open_call(host_.state(), call);
    const capstan_rc rc = service->run(ctl_, to_abi(call), str(name));
    host_.state().close_call(call);
    return rc;
}

ServerAnswer PluginUnderTest::request(std::string_view route,
                                      const json::Value& request_json,
                                      std::string_view body) {
    const auto* server = extension<capstan_plugin_http_server>(*table_, "capstan.http-server/1");
    if (server == nullptr) {
        return {};
    }
    FakeCall call;
    open_call(host_.state(), call);
    FakeExchange exchange{
        &host_.state(), json::dump(request_json), std::string(body), 0, {}, false};
    server->handle(ctl_, to_abi(call), str(route), reinterpret_cast<capstan_exchange*>(&exchange));
    host_.state().close_call(call);
    return std::move(exchange.answer);
}

}  // namespace capstan::testing
