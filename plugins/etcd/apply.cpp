#include "plugins/etcd/apply.hpp"

#include "plugins/etcd/api_token.hpp"

#include <algorithm>
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

std::string etcd_gvk() {
    return std::string(api::kApiVersion) + "/" + std::string(api::kEtcdKind);
}

Result<api::ObjectMeta> meta_of(const Object& object) {
    CAPSTAN_TRY(const json::Value value, object.parse());
    api::ObjectMeta meta;
    CAPSTAN_TRY(api::decode(json::View(value)["metadata"], meta));
    return meta;
}

Result<void> remove_before(Call& call, const World& world, const Step& step) {
    const api::ObjectMeta& ours = world.etcd.metadata;
    // Asked for, not from the cache: the one that is gone could be ours.
    CAPSTAN_TRY(const Object etcd, call.client().get(etcd_gvk(), {ours.ns, ours.name}));
    CAPSTAN_TRY(const api::ObjectMeta present, meta_of(etcd));
    if (present.uid != ours.uid) {
        return fail(Code::conflict, "Etcd " + ours.name + " is another one by now");
    }
    const auto object = call.client().get(step.gvk.to_string(), step.key);
    if (!object) {
        return object.error().code == Code::not_found ? Result<void>(ok()) : fail(object.error());
    }
    CAPSTAN_TRY(const api::ObjectMeta meta, meta_of(object.value()));
    if (!of_etcd_before(meta, ours) || meta.deleting()) {
        return ok();
    }
    auto removed = call.client().remove(object.value());
    return !removed && removed.error().code == Code::not_found ? Result<void>(ok()) : removed;
}

// A child may have one controller only. What an Etcd of the same name left under another field
// manager (a restored copy, for instance) becomes ours; false: no controller stands in the way.
// Errors: unavailable, of something else: nothing tells us when that is gone.
Result<bool> take_over(Call& call, const World& world, const Step& step) {
    const auto object = call.client().get(step.gvk.to_string(), step.key);
    if (!object) {
        return object.error().code == Code::not_found ? Result<bool>(false) : fail(object.error());
    }
    CAPSTAN_TRY(const api::ObjectMeta meta, meta_of(object.value()));
    const auto owner = std::find_if(meta.owner_references.begin(),
                                    meta.owner_references.end(),
                                    [](const api::OwnerReference& one) { return one.controller; });
    if (owner == meta.owner_references.end() || owner->uid == world.etcd.metadata.uid) {
        return false;
    }
    if (!of_etcd_before(meta, world.etcd.metadata)) {
        return fail(Code::unavailable,
                    step.gvk.kind + " " + step.key.to_string() + " belongs to " + owner->kind +
                        " " + owner->name +
                        ", not to this Etcd; remove it, or name one of them "
                        "otherwise");
    }
    const json::Value operations = json::list({
        {{"op", "test"}, {"path", "/metadata/resourceVersion"}, {"value", meta.resource_version}},
        {{"op", "replace"},
         {"path", "/metadata/ownerReferences"},
         {"value", *step.object.find("metadata")->find("ownerReferences")}},
    });
    CAPSTAN_TRY(call.client().patch_json(step.gvk.to_string(), step.key, operations));
    return true;
}

Result<void> apply_child(Call& call, const World& world, const Step& step) {
    auto applied = call.client().apply(step.gvk.to_string(), step.object);
    if (applied || applied.error().code != Code::invalid) {
        return applied;
    }
    CAPSTAN_TRY(const bool taken, take_over(call, world, step));
    return taken ? call.client().apply(step.gvk.to_string(), step.object) : applied;
}

Result<void> carry_out_step(Call& call, const World& world, const Step& step) {
    switch (step.kind) {
        case Step::Kind::apply: return apply_child(call, world, step);
        case Step::Kind::create: {
            auto created = call.client().create(step.gvk.to_string(), step.object);
            return !created && created.error().code == Code::exists ? Result<void>(ok()) : created;
        }
        case Step::Kind::create_token:
            return create_api_token(call, step.object, world.etcd.metadata.uid);
        case Step::Kind::remove: return remove_child(call, world, step);
        case Step::Kind::remove_before: return remove_before(call, world, step);
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
    return call.client().apply(etcd_gvk(), intent, {.subresource = "status"});
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
