#include "plugins/etcd/apply.hpp"

#include "plugins/etcd/api_token.hpp"

#include <charconv>

namespace capstan::etcd {

namespace {

// Only exactly the object we look at is deleted, and only if it is ours.
Result<void> remove_child(Call& call, const World& world, const Step& step) {
    auto object = call.client().get(step.gvk.to_string(), step.key);
    if (!object) {
        return object.error().code == Code::not_found ? Result<void>(ok()) : fail(object.error());
    }
    CAPSTAN_TRY(auto value, object.value().parse());
    api::ObjectMeta meta;
    CAPSTAN_TRY(api::decode(json::View(value)["metadata"], meta));
    if (meta.controller_uid() != world.etcd.metadata.uid || meta.deleting()) {
        return ok();
    }
    auto removed = call.client().remove(object.value());
    return !removed && removed.error().code == Code::not_found ? Result<void>(ok()) : removed;
}

Result<void> carry_out_step(Call& call, const World& world, const Step& step) {
    switch (step.kind) {
        case Step::Kind::apply: return call.client().apply(step.gvk.to_string(), step.object);
        case Step::Kind::create: {
            auto created = call.client().create(step.gvk.to_string(), step.object);
            return !created && created.error().code == Code::exists ? Result<void>(ok()) : created;
        }
        case Step::Kind::create_token:
            return create_api_token(call, step.object, world.etcd.metadata.uid);
        case Step::Kind::remove: return remove_child(call, world, step);
        case Step::Kind::patch: {
            auto patched = call.client().patch_json(step.gvk.to_string(), step.key, step.object);
            return !patched && patched.error().code == Code::not_found ? Result<void>(ok())
                                                                       : patched;
        }
    }
    return fail(Code::internal, "unknown step");
}

std::string run_id_of(WallTime now) {
    char text[16];
    const auto count = static_cast<std::uint64_t>(now.time_since_epoch().count());
    auto [end, code] = std::to_chars(text, text + sizeof text, count, 16);
    return std::string(text, end);
}

Result<void> write_status(Call& call, const World& world, const Report& report) {
    const json::Value wanted = wanted_status(world.etcd, report, world.now, run_id_of(world.now));
    if (wanted == owned_status(world.etcd)) {
        return ok();
    }
    const json::Value intent = {
        {"apiVersion", api::kApiVersion},
        {"kind", api::kEtcdKind},
        {"metadata", {{"name", world.etcd.metadata.name}, {"namespace", world.etcd.metadata.ns}}},
        {"status", wanted},
    };
    const std::string gvk = std::string(api::kApiVersion) + "/" + std::string(api::kEtcdKind);
    return call.client().apply(gvk, intent, {.subresource = "status"});
}

// Stopping, a lost lease and a conflict say nothing about the Etcd: they are not
// recorded in its status.
bool worth_recording(Code code) {
    return code != Code::cancelled && code != Code::fenced && code != Code::conflict &&
           code != Code::timeout;
}

Outcome failed_step(
    Call& call, const World& world, const Plan& plan, const Step& step, const Error& error) {
    if (worth_recording(error.code)) {
        Report report;
        report.type = plan.report ? plan.report->type : "Reconcile";
        report.state = "Error";
        report.description = "The operation is tried again: " + error.message;
        const char* verb = step.kind == Step::Kind::remove ? "ERR_DELETE_" : "ERR_SYNC_";
        report.problems.push_back({verb + step.code, error.message});
        report.refused = plan.report ? plan.report->refused : std::nullopt;
        if (auto written = write_status(call, world, report); !written) {
            return Outcome::failed(written.error());
        }
    }
    return Outcome::failed(error);
}

}  // namespace

Outcome carry_out(Call& call, const World& world, const Plan& plan) {
    if (!plan.event_reason.empty()) {
        call.event(GroupVersionKind::from_api_version(api::kApiVersion, api::kEtcdKind),
                   {world.etcd.metadata.ns, world.etcd.metadata.name},
                   world.etcd.metadata.uid,
                   "Warning",
                   plan.event_reason,
                   plan.event_note);
    }
    for (const Step& step : plan.steps) {
        if (auto done = carry_out_step(call, world, step); !done) {
            return failed_step(call, world, plan, step, done.error());
        }
    }
    if (plan.report) {
        if (auto written = write_status(call, world, *plan.report); !written) {
            return Outcome::failed(written.error());
        }
    }
    for (const Step& step : plan.last) {
        if (auto done = carry_out_step(call, world, step); !done) {
            return Outcome::failed(done.error());
        }
    }
    return plan.again ? Outcome::after(*plan.again) : Outcome::done();
}

}  // namespace capstan::etcd
