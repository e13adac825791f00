// Admission webhooks in C++: judge or change objects before the API server stores them.
//
//     // manifest: "requires": {"extensions": ["capstan.webhook/1", …]},
//     //   "webhooks": [{"name": "limits", "kind": "validating", "gvk": "v1/ConfigMap",
//     //     "rules": [{"groups": [""], "versions": ["v1"], "resources": ["configmaps"],
//     //                "operations": ["CREATE", "UPDATE"]}]}]
//     class Limits final : public capstan::ValidatingWebhook {
//     public:
//         capstan::Admission review(capstan::Call&,
//                                   const capstan::AdmissionRequest& request) override {
//             const auto data = capstan::json::View(request.object())["data"].object();
//             return data.size() <= 16 ? capstan::Admission::allow()
//                                      : capstan::Admission::deny("at most 16 keys");
//         }
//     };
//
//     capstan::Result<void> make_plugin(capstan::Setup& setup) {
//         capstan::add_webhook(setup, "limits", std::make_unique<Limits>());
//         return capstan::ok();
//     }
//
// Reviews run on host-owned threads, several at once, each with a deadline (call.deadline()). Reads
// go to the API server (call.client()); call.cache() is `unavailable` until the kind is synced. A
// review has no side effects unless the manifest says so. What is thrown fails the review with 500.
#pragma once

#include "capstan/plugin.hpp"
#include "capstan/webhook.h"

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace capstan {

// What the API server asks. Values; absent members are empty.
class AdmissionRequest {
public:
    // `json`: `request` of an AdmissionReview
    AdmissionRequest(std::string webhook, json::Value json);

    const std::string& webhook() const noexcept { return webhook_; }  // name in the manifest
    std::string_view operation() const noexcept;  // CREATE, UPDATE, DELETE, CONNECT
    GroupVersionKind gvk() const;                 // of the object as this webhook gets it
    ObjectKey key() const;                        // the name is empty with generateName
    std::string_view subresource() const noexcept;
    std::string_view user() const noexcept;
    bool dry_run() const noexcept;
    const json::Value& object() const noexcept;                 // null on DELETE
    const json::Value& old_object() const noexcept;             // null on CREATE
    const json::Value& json() const noexcept { return json_; }  // all of it

private:
    std::string webhook_;
    json::Value json_;
};

// The answer to one request.
class Admission {
public:
    static Admission allow() { return Admission(true, 0, {}); }
    // `message` is what the user reads. `code`: 400 to 599.
    static Admission deny(std::string message, int code = 403) {
        return Admission(false, code, std::move(message));
    }

    // Shown to the user, also when allowed. Cut at 256 bytes each and 4 KiB in all.
    Admission&& warn(std::string text) && {
        warnings_.push_back(text);
        return std::move(*this);
    }
    // For the audit log; `key` without a domain.
    Admission&& audit(std::string_view key, std::string_view value) && {
        audit_.set(key, value);
        return std::move(*this);
    }

    bool allowed() const noexcept { return allowed_; }
    int code() const noexcept { return code_; }
    const std::string& message() const noexcept { return message_; }
    const json::Value& warnings() const noexcept { return warnings_; }
    const json::Value& audit() const noexcept { return audit_; }

private:
    Admission(bool allowed, int code, std::string message)
        : allowed_(allowed), code_(code), message_(std::move(message)) {}
    bool allowed_;
    int code_;
    std::string message_;
    json::Value warnings_{json::list()}, audit_{json::object()};
};

class ValidatingWebhook {
public:
    virtual ~ValidatingWebhook() = default;
    virtual Admission review(Call& call, const AdmissionRequest& request) = 0;  // [worker]
};

class MutatingWebhook {
public:
    virtual ~MutatingWebhook() = default;
    // Changes `object`, a copy of request.object(); the host sends the difference. Must give the
    // same when asked again about its own result. Not asked to change anything on DELETE. [worker]
    virtual Admission review(Call& call, const AdmissionRequest& request, json::Value& object) = 0;
};

// In make_plugin. `name` must be one of the manifest's, and of this kind.
void add_webhook(Setup& setup, std::string name, std::unique_ptr<ValidatingWebhook> webhook);
void add_webhook(Setup& setup, std::string name, std::unique_ptr<MutatingWebhook> webhook);

}  // namespace capstan
