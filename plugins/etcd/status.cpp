#include "plugins/etcd/status.hpp"

#include "plugins/etcd/cluster.hpp"

#include <algorithm>

namespace capstan::etcd {

namespace {

const api::Condition* support_condition(const api::EtcdStatus& status) {
    for (const api::Condition& condition : status.conditions) {
        if (condition.type == kConditionSpecSupported) {
            return &condition;
        }
    }
    return nullptr;
}

std::string cut(std::string text) {
    if (text.size() > kDescriptionBytesMax) {
        std::size_t end = kDescriptionBytesMax;
        while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0u) == 0x80u) {
            --end;  // not inside a UTF-8 sequence
        }
        text.resize(end);
    }
    return text;
}

json::Value pick(const api::EtcdStatus& status) {
    json::Value out = json::object();
    api::put_present(out, "observedGeneration", status.observed_generation);
    api::put_present(out, "lastOperation", status.last_operation);
    api::put_present(out, "lastErrors", status.last_errors);
    api::put_present(out, "etcd", status.etcd);
    api::put_present(out, "selector", status.selector);
    if (const api::Condition* condition = support_condition(status)) {
        out.set("conditions", json::list({api::encode(*condition)}));
    }
    return out;
}

api::LastOperation last_operation(const std::optional<api::LastOperation>& old,
                                  const Report& report,
                                  const std::string& now,
                                  const std::string& run_id) {
    const std::string description = cut(report.description);
    if (old && old->type == report.type && old->state == report.state &&
        old->description == description) {
        return *old;
    }
    api::LastOperation made;
    made.type = report.type;
    made.state = report.state;
    made.description = description;
    made.run_id = run_id;
    made.last_update_time = now;
    return made;
}

std::vector<api::LastError> last_errors(const std::vector<api::LastError>& old,
                                        const Report& report,
                                        const std::string& now) {
    std::vector<api::LastError> made;
    for (const Report::Problem& problem : report.problems) {
        const std::string description = cut(problem.description);
        auto same = std::find_if(old.begin(), old.end(), [&](const api::LastError& error) {
            return error.code == problem.code && error.description == description;
        });
        made.push_back({problem.code, description, same != old.end() ? same->observed_at : now});
    }
    return made;
}

api::Condition condition(const api::Condition* old,
                         const Refusal& refused,
                         const std::string& now) {
    api::Condition made;
    made.type = kConditionSpecSupported;
    made.status = "False";
    made.reason = refused.reason;
    made.message = cut(refused.message);
    const bool same_status = old != nullptr && old->status == made.status;
    made.last_transition_time = same_status ? old->last_transition_time : now;
    const bool same = same_status && old->reason == made.reason && old->message == made.message;
    made.last_update_time = same ? old->last_update_time : now;
    return made;
}

}  // namespace

json::Value owned_status(const api::Etcd& etcd) {
    return pick(etcd.status.value_or(api::EtcdStatus{}));
}

json::Value wanted_status(const api::Etcd& etcd,
                          const Report& report,
                          WallTime wall_now,
                          const std::string& run_id) {
    const std::string now = to_rfc3339(wall_now);
    const api::EtcdStatus old = etcd.status.value_or(api::EtcdStatus{});
    api::EtcdStatus made;
    made.observed_generation =
        report.observed_generation ? report.observed_generation : old.observed_generation;
    made.last_operation = last_operation(old.last_operation, report, now, run_id);
    made.last_errors = last_errors(old.last_errors, report, now);
    made.etcd = old.etcd;
    made.selector = old.selector;
    if (report.references.value_or(false)) {
        api::ObjectReference reference;
        reference.api_version = "apps/v1";
        reference.kind = "StatefulSet";
        reference.name = etcd.metadata.name;
        made.etcd = reference;
        made.selector = "app.kubernetes.io/managed-by=" + std::string(kManagedBy) +
                        ",app.kubernetes.io/part-of=" + etcd.metadata.name;
    }
    if (report.refused) {
        made.conditions.push_back(condition(support_condition(old), *report.refused, now));
    }
    return pick(made);
}

}  // namespace capstan::etcd
