// A tree of some pieces of an object: what a predicate or a map rule looks at.
#include "runtime/kube/object.hpp"
#include "runtime/kube/raw_json.hpp"

#include <algorithm>

namespace capstan::kube {
namespace {

json::Value value_of(std::string_view raw) {
    auto value = json::parse(raw, {.bytes_max = raw.size()});
    CAPSTAN_CHECK(value.has_value(), "a part of a stored object does not parse");
    return std::move(value).value();
}

// A key that is written with escapes may be any of them: it counts as wanted.
bool escaped(std::string_view raw_key) {
    return raw_key.find('\\') != std::string_view::npos;
}

json::Value members_of(std::string_view raw, const std::vector<std::string>& wanted) {
    json::Value tree = json::object();
    raw::each(raw, [&](std::string_view key, std::string_view value) {
        if (escaped(key)) {
            tree = value_of(raw);
            return false;
        }
        if (std::find(wanted.begin(), wanted.end(), key) != wanted.end()) {
            tree.set(std::string(key), value_of(value));
        }
        return true;
    });
    return tree;
}

}  // namespace

Parts Parts::of(const std::vector<std::string>& pointers) {
    Parts parts;
    for (const std::string& pointer : pointers) {
        const std::size_t second = pointer.find('/', 1);
        const auto key = pointer.empty()
                             ? std::nullopt
                             : raw::unescape_token(pointer.substr(
                                   1, second == std::string::npos ? second : second - 1));
        if (!key) {
            parts.all_ = true;
            return parts;
        }
        auto member = std::find_if(parts.members_.begin(),
                                   parts.members_.end(),
                                   [&](const Member& known) { return known.key == *key; });
        const bool known = member != parts.members_.end();
        if (!known) {
            member = parts.members_.insert(member, Member{*key, {}});
        }
        const std::size_t third = pointer.find('/', second + 1);
        const auto inner =
            second == std::string::npos
                ? std::nullopt
                : raw::unescape_token(pointer.substr(
                      second + 1, third == std::string::npos ? third : third - second - 1));
        if (!inner) {
            member->inner.clear();
        } else if (!known || !member->inner.empty()) {
            member->inner.push_back(*inner);
        }
    }
    return parts;
}

json::Value Object::parse(const Parts& parts) const {
    if (parts.all_) {
        return parse();
    }
    json::Value tree = json::object();
    bool whole = false;
    raw::each(bytes(), [&](std::string_view key, std::string_view value) {
        whole = escaped(key);
        if (whole) {
            return false;
        }
        const auto member = std::find_if(parts.members_.begin(),
                                         parts.members_.end(),
                                         [&](const Parts::Member& one) { return one.key == key; });
        if (member != parts.members_.end()) {
            tree.set(std::string(key),
                     member->inner.empty() || !value.starts_with('{')
                         ? value_of(value)
                         : members_of(value, member->inner));
        }
        return true;
    });
    return whole ? parse() : tree;
}

}  // namespace capstan::kube
