#include "runtime/control/unit.hpp"

#include "runtime/control/host_tables.hpp"
#include "runtime/plugin/variables.hpp"

#include <algorithm>

namespace capstan::control {

Unit::Unit(std::shared_ptr<Core> core, const plugin::Manifest& manifest)
    : core_(std::move(core)),
      host_(make_host(*this)),
      short_name_(manifest.id.substr(0, manifest.id.find('.'))),
      log_(core_->parts.log.with({{"plugin", manifest.id}})),
      signal_(core_->parts.threads.make_signal()) {
    plugin_.manifest = manifest;
}

Unit::~Unit() = default;

namespace {

Result<std::string> expand_field_manager(const Core& core, const std::string& text) {
    CAPSTAN_TRY(auto name, plugin::expand_variables(text, core.parts.environment));
    if (name.size() > kFieldManagerBytesMax) {
        return fail(
            Code::invalid,
            "\"" + name + "\" is longer than " + std::to_string(kFieldManagerBytesMax) + " bytes");
    }
    return name;
}

}  // namespace

Result<void> Unit::attach(Plugin plugin) {
    plugin_ = std::move(plugin);
    config_json_ = plugin_.config.is_object() ? json::dump(plugin_.config) : "{}";
    const plugin::Manifest& m = plugin_.manifest;
    core_->metrics.prepare(m.id);
    auto manager = expand_field_manager(*core_, m.field_manager);
    if (!manager) {
        return fail(with_context(std::move(manager).error(), m.id + ": fieldManager"));
    }
    field_manager_ = std::move(manager).value();
    if (const auto version = plugin::Version::parse(m.version)) {
        for (const std::string& note : m.gates.off_notes(version.value(), plugin_.gates)) {
            ready_note_ += (ready_note_.empty() ? "" : "; ") + note;
        }
    }
    for (const plugin::ControllerSpec& spec : m.controllers) {
        const auto given = plugin_.max_concurrent.find(spec.name);
        const std::uint32_t workers =
            given == plugin_.max_concurrent.end() ? spec.max_concurrent : given->second;
        controllers_.push_back(std::make_unique<Controller>(
            *this, spec, std::clamp(workers, 1u, plugin::kWorkersMax)));
        CAPSTAN_TRY(controllers_.back()->prepare());
    }
    if (!m.services.empty() && plugin_.service == nullptr) {
        return fail(Code::invalid,
                    m.id + ": the manifest names services, the plugin has no capstan.service/1");
    }
    if (!m.routes.empty() && plugin_.http_server == nullptr) {
        return fail(Code::invalid,
                    m.id + ": the manifest names routes, the plugin has no capstan.http-server/1");
    }
    if (!m.webhooks.empty() && plugin_.webhook == nullptr) {
        return fail(Code::invalid,
                    m.id + ": the manifest names webhooks, the plugin has no capstan.webhook/1");
    }
    for (const plugin::ServiceSpec& service : m.services) {
        services_.push_back(std::make_unique<ServiceRunner>(*this, service.name));
    }
    if (!m.routes.empty()) {
        routes_ = std::make_unique<RoutePool>(*this);
    }
    if (!m.webhooks.empty()) {
        admission_ = std::make_unique<AdmissionPool>(*this);
    }
    return ok();
}

void Unit::start() {
    core_->parts.health.add("plugin/" + plugin_.manifest.id, obs::Probe::readyz, "is starting");
    for (auto& controller : controllers_) {
        const Result<void> watching = controller->start_watches(stores_);
        if (!watching) {
            fail_for_good(watching.error().message);
            return;
        }
    }
    // Whole objects before parts of them, so that reads prefer them.
    std::stable_sort(stores_.begin(), stores_.end(), [](const ReadStore& a, const ReadStore& b) {
        return a.projected < b.projected;
    });
    start_supervisor(kWorkerBackoffFirst);
}

// When the system has no thread left it is tried again after `pause`, then after twice as long.
void Unit::start_supervisor(std::chrono::nanoseconds pause) {
    const auto show = [this](const std::string& why) {
        const std::lock_guard lock(mutex_);
        failure_ = why;
    };
    show("");  // the thread may set it as soon as it runs
    auto thread = core_->parts.threads.start(short_name_ + "/supervisor",
                                             [self = shared_from_this()] { self->supervise(); });
    if (thread) {
        thread_ = std::move(thread).value();
        return;
    }
    const std::string& error = thread.error().message;
    log_.error("plugin cannot be started yet; it is tried again", {{"error", error}});
    show("tried again: " + error);
    update_health();
    const auto next = std::min<std::chrono::nanoseconds>(pause * 2, kWorkerBackoffMax);
    thread_retry_ =
        core_->parts.loop.at(core_->now() + pause, [this, next] { start_supervisor(next); });
}

void Unit::stop(MonotonicTime deadline, std::function<void(std::vector<std::string>)> stopped) {
    thread_retry_.reset();
    if (thread_ == nullptr) {
        core_->parts.loop.post([stopped = std::move(stopped)] { stopped({}); });
        return;
    }
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
        stop_deadline_ = deadline;
        stopped_ = std::move(stopped);
    }
    signal_->notify();
}

void Unit::lead() {
    for (auto& controller : controllers_) {
        controller->reopen();
    }
    signal_->notify();  // the supervisor starts the services
}

void Unit::drop_watches() {
    for (auto& controller : controllers_) {
        controller->drop_watches();
    }
}

void Unit::abandon() {
    if (thread_ != nullptr) {
        thread_->abandon();
    }
    for (auto& controller : controllers_) {
        controller->abandon_workers();
    }
    for (auto& service : services_) {
        service->abandon();
    }
    if (routes_ != nullptr) {
        routes_->abandon();
    }
    if (admission_ != nullptr) {
        admission_->abandon();
    }
}

void Unit::join() {
    thread_.reset();
    for (auto& controller : controllers_) {
        controller->join();
    }
    for (auto& service : services_) {
        service->join();
    }
    if (routes_ != nullptr) {
        routes_->join();
    }
    if (admission_ != nullptr) {
        admission_->join();
    }
}

Controller* Unit::controller(std::string_view name) const noexcept {
    for (const auto& controller : controllers_) {
        if (controller->spec().name == name) {
            return controller.get();
        }
    }
    return nullptr;
}

PluginPhase Unit::phase() const {
    const std::lock_guard lock(mutex_);
    return phase_;
}

Unit::Live Unit::live() const {
    const std::lock_guard lock(mutex_);
    return phase_ == PluginPhase::running ? live_ : Live{};
}

void Unit::set_phase(PluginPhase phase) {
    {
        const std::lock_guard lock(mutex_);
        phase_ = phase;
    }
    for (auto& controller : controllers_) {
        controller->reopen();
    }
    wake_all();
    update_health();
}

void Unit::fail_for_good(const std::string& why) {
    log_.error("plugin failed", {{"error", why}});
    note_error("failed: " + why);
    {
        const std::lock_guard lock(mutex_);
        failure_ = why;
        recreate_at_ = kNever;
    }
    set_phase(PluginPhase::failed);
}

void Unit::wake_all() {
    for (auto& service : services_) {
        service->wake();
    }
    signal_->notify();
}

void Unit::controllers_changed() {
    update_health();
}

void Unit::update_health() {
    const std::lock_guard publishing(health_mutex_);
    const std::string check = "plugin/" + plugin_.manifest.id;
    PluginPhase phase{};
    std::string failure;
    {
        const std::lock_guard lock(mutex_);
        phase = phase_;
        failure = failure_;
    }
    obs::Health& health = core_->parts.health;
    if (phase != PluginPhase::running) {
        health.remove(workers_check());
    }
    switch (phase) {
        case PluginPhase::starting:
            health.not_ready(check, "is starting" + (failure.empty() ? "" : "; " + failure));
            return;
        case PluginPhase::failed: health.not_ready(check, "failed: " + failure); return;
        case PluginPhase::restarting:
            health.not_ready(check, "is being restarted after a panic");
            return;
        case PluginPhase::stopping:
        case PluginPhase::stopped: health.not_ready(check, "is stopping"); return;
        case PluginPhase::running: break;
    }
    std::string waiting;
    for (const auto& controller : controllers_) {
        if (const std::string reason = controller->waiting_for(); !reason.empty()) {
            waiting += (waiting.empty() ? "" : "; ") + controller->label() + " waits for " + reason;
        }
    }
    show_workers(check, std::move(waiting));
}

// Of a plugin that runs. A controller without workers is not ready; when nothing but a new process
// helps, the process is not live either.
void Unit::show_workers(const std::string& check, std::string waiting) {
    std::string note = ready_note_;
    std::string dead;
    for (const auto& controller : controllers_) {
        const Controller::Shortage shortage = controller->shortage();
        if (shortage.reason.empty()) {
            continue;
        }
        std::string& text = shortage.dead ? waiting : note;
        text += (text.empty() ? "" : "; ") + shortage.reason;
        if (shortage.too_long) {
            dead += (dead.empty() ? "" : "; ") + shortage.reason;
        }
    }
    obs::Health& health = core_->parts.health;
    if (waiting.empty()) {
        health.ready(check, note);
    } else {
        health.not_ready(check, waiting);
    }
    if (!dead.empty()) {
        health.add(workers_check(), obs::Probe::healthz, dead);
    } else {
        health.remove(workers_check());
    }
}

void Unit::poison(std::uint64_t generation, const std::string& where, const std::string& last) {
    {
        const std::lock_guard lock(mutex_);
        if (live_.generation != generation || phase_ != PluginPhase::running) {
            return;  // of an older instance, or already known
        }
        phase_ = PluginPhase::restarting;
        last_panic_ = last;
        const MonotonicTime now = core_->now();
        panics_.push_back(now);
        while (panics_.front() + kPanicsWindow < now) {
            panics_.pop_front();
        }
        recreate_at_ = now + kRecreateFirst * (1 << (panics_.size() - 1));
    }
    log_.error("plugin panicked; its instance is replaced", {{"where", where}});
    note_error("panicked in " + where);
    for (auto& controller : controllers_) {
        controller->reopen();
    }
    cancel_calls(generation, CallState::Stage::cancelled);
    wake_all();
    update_health();
}

void Unit::cancel_calls(std::uint64_t generation, CallState::Stage stage) {
    std::vector<std::shared_ptr<CallState>> calls;
    {
        const std::lock_guard lock(mutex_);
        for (const auto& call : calls_) {
            if (generation == 0 || call->instance == generation) {
                calls.push_back(call);
            }
        }
    }
    for (const auto& call : calls) {
        call->move_to(stage);
    }
}

bool Unit::begin(const std::shared_ptr<CallState>& call) {
    const bool has_handle = call->begin();
    bool sooner = false;
    bool accepted = false;
    {
        const std::lock_guard lock(mutex_);
        if (has_handle && !stopping_ && phase_ == PluginPhase::running &&
            call->instance == live_.generation) {
            calls_.push_back(call);
            sooner = call->deadline < supervisor_until_;
            accepted = true;
        }
    }
    if (!accepted && has_handle) {
        call->end();
    }
    if (sooner) {
        signal_->notify();
    }
    return accepted;
}

void Unit::end(const std::shared_ptr<CallState>& call) {
    {
        const std::lock_guard lock(mutex_);
        calls_.erase(std::remove(calls_.begin(), calls_.end(), call), calls_.end());
    }
    if (const std::size_t leaked = call->end(); leaked > 0) {
        core_->metrics.leaked_objects.with({plugin_.manifest.id}).add(leaked);
        call->log.warn("plugin did not release objects", {{"count", leaked}});
    }
}

void Unit::thread_ended() {
    signal_->notify();
}

void Unit::workers_changed() {
    signal_->notify();
}

}  // namespace capstan::control
