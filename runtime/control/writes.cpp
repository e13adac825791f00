#include "runtime/control/writes.hpp"

#include "runtime/control/digest.hpp"

namespace capstan::control {
namespace {

constexpr char kSeparator = '\n';  // cannot be part of a name

std::string digest_of(const json::Value& value) {
    return sha256(json::dump_sorted(value));
}

}  // namespace

json::Value project(const json::Value& object, const json::Value& intent) {
    if (const json::Object* members = intent.if_object();
        members != nullptr && object.is_object()) {
        json::Value out = json::object();
        for (const json::Member& member : *members) {
            const json::Value* found = object.find(member.key);
            out.set(member.key, found == nullptr ? json::Value() : project(*found, member.value));
        }
        return out;
    }
    const json::Array* wanted = intent.if_array();
    const json::Array* present = object.if_array();
    if (wanted != nullptr && present != nullptr && wanted->size() == present->size()) {
        json::Value out = json::list();
        for (std::size_t i = 0; i < wanted->size(); ++i) {
            out.push_back(project((*present)[i], (*wanted)[i]));
        }
        return out;
    }
    return object;
}

std::string IntentBook::Id::text() const {
    return gvk.to_string() + kSeparator + key.ns + kSeparator + key.name + kSeparator +
           subresource + kSeparator + manager;
}

bool IntentBook::would_change_nothing(const Id& id,
                                      const json::Value& intent,
                                      const kube::ObjectPtr& cached) const {
    if (cached == nullptr) {
        return false;
    }
    std::string fields;
    {
        const std::lock_guard lock(mutex_);
        const auto found = entries_.find(id.text());
        if (found == entries_.end() || found->second.uid != cached->uid() ||
            found->second.intent != digest_of(intent)) {
            return false;
        }
        if (found->second.resource_version == cached->resource_version()) {
            return true;
        }
        fields = found->second.fields;
    }
    return !cached->projected() && fields == digest_of(project(cached->parse(), intent));
}

void IntentBook::remember(const Id& id, const json::Value& intent, const kube::ObjectPtr& answer) {
    Entry entry{digest_of(intent),
                digest_of(project(answer->parse(), intent)),
                std::string(answer->uid()),
                std::string(answer->resource_version()),
                {}};
    const std::string text = id.text();
    const std::lock_guard lock(mutex_);
    if (const auto found = entries_.find(text); found != entries_.end()) {
        ages_.erase(found->second.age);
        entries_.erase(found);
    } else if (entries_.size() >= kIntentsMax) {
        entries_.erase(ages_.front());
        ages_.pop_front();
    }
    entry.age = ages_.insert(ages_.end(), text);
    entries_.emplace(text, std::move(entry));
}

void IntentBook::forget(const Id& id) {
    const std::lock_guard lock(mutex_);
    if (const auto found = entries_.find(id.text()); found != entries_.end()) {
        ages_.erase(found->second.age);
        entries_.erase(found);
    }
}

std::size_t IntentBook::size() const {
    const std::lock_guard lock(mutex_);
    return entries_.size();
}

}  // namespace capstan::control
