#include "runtime/local/apiserver/apply_field_set.hpp"

namespace capstan::local {
namespace {

bool is_element(std::string_view key) {
    return (key.size() > 2 || key == "f:") && key[1] == ':' &&
           (key[0] == 'f' || key[0] == 'k' || key[0] == 'v' || key[0] == 'i');
}

void collect(const FieldSet& set, FieldPath& path, std::vector<FieldPath>& out) {
    if (set.member && !path.empty()) {
        out.push_back(path);
    }
    for (const auto& [element, child] : set.children) {
        path.push_back(element);
        collect(child, path, out);
        path.pop_back();
    }
}

void append_key(std::string& out, std::string_view json_text) {
    const auto parsed = json::parse(json_text);
    out += '[';
    if (parsed && parsed.value().is_object()) {
        bool first = true;
        for (const json::Member& member : *parsed.value().if_object()) {
            out += (first ? "" : ",") + member.key + "=" + json::dump(member.value);
            first = false;
        }
    } else {
        out += json_text;
    }
    out += ']';
}

}  // namespace

bool FieldSet::has(const FieldPath& path) const {
    const FieldSet* at = this;
    for (const std::string& element : path) {
        at = at->child(element);
        if (at == nullptr) {
            return false;
        }
    }
    return at->member;
}

const FieldSet* FieldSet::child(std::string_view element) const {
    const auto found = children.find(element);
    return found == children.end() ? nullptr : &found->second;
}

void FieldSet::insert(const FieldPath& path) {
    FieldSet* at = this;
    for (const std::string& element : path) {
        at = &at->children[element];
    }
    at->member = at != this;
}

bool FieldSet::erase_subtree(const FieldPath& path) {
    if (path.empty()) {
        return false;
    }
    FieldSet* at = this;
    std::vector<FieldSet*> trail;
    for (std::size_t i = 0; i + 1 < path.size(); ++i) {
        const auto found = at->children.find(path[i]);
        if (found == at->children.end()) {
            return false;
        }
        trail.push_back(at);
        at = &found->second;
    }
    if (at->children.erase(path.back()) == 0) {
        return false;
    }
    for (std::size_t i = trail.size(); i > 0 && at->empty(); --i) {
        trail[i - 1]->children.erase(path[i - 1]);
        at = trail[i - 1];
    }
    return true;
}

void FieldSet::add(const FieldSet& other) {
    member = member || other.member;
    for (const auto& [element, child] : other.children) {
        children[element].add(child);
    }
}

FieldSet FieldSet::intersection(const FieldSet& other) const {
    FieldSet out;
    out.member = member && other.member;
    for (const auto& [element, mine] : children) {
        if (const FieldSet* theirs = other.child(element)) {
            FieldSet common = mine.intersection(*theirs);
            if (!common.empty()) {
                out.children.emplace(element, std::move(common));
            }
        }
    }
    return out;
}

FieldSet FieldSet::difference(const FieldSet& other) const {
    FieldSet out;
    out.member = member && !other.member;
    for (const auto& [element, mine] : children) {
        const FieldSet* theirs = other.child(element);
        FieldSet left = theirs == nullptr ? mine : mine.difference(*theirs);
        if (!left.empty()) {
            out.children.emplace(element, std::move(left));
        }
    }
    return out;
}

FieldSet FieldSet::recursive_difference(const FieldSet& other) const {
    FieldSet out;
    out.member = member && !other.member;
    for (const auto& [element, mine] : children) {
        const FieldSet* theirs = other.child(element);
        if (theirs != nullptr && theirs->member) {
            continue;
        }
        FieldSet left = theirs == nullptr ? mine : mine.recursive_difference(*theirs);
        if (!left.empty()) {
            out.children.emplace(element, std::move(left));
        }
    }
    return out;
}

FieldSet FieldSet::with_parents() const {
    FieldSet out;
    out.member = member;
    for (const auto& [element, child] : children) {
        FieldSet full = child.with_parents();
        full.member = full.member || element.starts_with("f:");
        out.children.emplace_hint(out.children.end(), element, std::move(full));
    }
    return out;
}

std::vector<FieldPath> FieldSet::paths() const {
    std::vector<FieldPath> out;
    FieldPath path;
    collect(*this, path, out);
    return out;
}

json::Value to_fields_v1(const FieldSet& set) {
    json::Object members;
    members.reserve(set.children.size());
    for (const auto& [element, child] : set.children) {
        json::Value below = to_fields_v1(child);
        if (child.member && !child.children.empty()) {
            json::Object with_self;
            with_self.emplace_back(".", json::object());
            for (json::Member& member : *below.if_object()) {
                with_self.push_back(std::move(member));
            }
            below = json::Value(std::move(with_self));
        }
        members.emplace_back(element, std::move(below));
    }
    return json::Value(std::move(members));
}

FieldSet from_fields_v1(const json::Value& fields) {
    FieldSet set;
    const json::Object* members = fields.if_object();
    if (members == nullptr) {
        return set;
    }
    for (const json::Member& member : *members) {
        if (!is_element(member.key)) {
            continue;
        }
        FieldSet child = from_fields_v1(member.value);
        child.member = child.children.empty() || member.value.find(".") != nullptr;
        set.children.emplace(member.key, std::move(child));
    }
    return set;
}

std::string to_text(const FieldPath& path) {
    std::string out;
    for (const std::string& element : path) {
        const std::string_view body = std::string_view(element).substr(2);
        switch (element[0]) {
            case 'f':
                out += '.';
                out += body;
                break;
            case 'k': append_key(out, body); break;
            case 'v':
                out += "[=";
                out += body;
                out += ']';
                break;
            default:
                out += '[';
                out += body;
                out += ']';
        }
    }
    return out;
}

}  // namespace capstan::local
