#include "runtime/kube/compact_copy.hpp"

#include "capstan/json.hpp"
#include "runtime/kube/compact_text.hpp"
#include "runtime/kube/json_scan.hpp"

#include <algorithm>
#include <unordered_set>
#include <utility>
#include <vector>

namespace capstan::kube {
namespace {

constexpr std::string_view kLastApplied = "kubectl.kubernetes.io/last-applied-configuration";
// Objects up to this size are searched for duplicates by comparing; larger ones by hashing.
constexpr std::size_t kLinearKeysMax = 16;

class Copy : private CompactText {
public:
    Copy(std::string_view text,
         const Projection& projection,
         const GroupVersionKind* gvk,
         std::string& out)
        : CompactText(text, out),
          begin_(text.data()),
          projection_(projection),
          gvk_(gvk),
          partial_(gvk != nullptr && metadata_only(projection)) {}

    bool root();
    std::size_t length() const noexcept { return static_cast<std::size_t>(at_ - begin_); }

private:
    enum class Place { root, metadata, annotations, part };

    bool filtered(Place place);
    bool filtered_value(Place place, std::string_view key);
    bool annotations(std::size_t mark, bool& kept);
    bool dropped(Place place, std::string_view key);
    bool is_partial_header(std::string_view key);
    bool kept_whole(std::string_view member) const;
    bool complete_kind(bool any_member);

    bool value();  // validated and copied
    bool object();
    bool array();
    bool member_key(std::string_view& key);
    bool no_duplicates(std::size_t first);

    // After a member or element: true when another one follows, or `last` is set at the end.
    bool next(char close, bool& last) noexcept {
        space();
        last = at_ < end_ && *at_ == close;
        return at_ < end_ && (*at_++ == ',' || last);
    }

    const char* const begin_;
    const Projection& projection_;
    const GroupVersionKind* const gvk_;
    const bool partial_;
    std::size_t depth_{0};
    bool has_kind_{false};
    bool has_api_version_{false};
    bool has_metadata_{false};
    std::vector<std::string_view> keys_;  // of all objects that are open
    std::string_view part_of_;            // the member of the root that is kept in part
};

bool Copy::root() {
    out_.reserve(out_.size() + std::min<std::size_t>(static_cast<std::size_t>(end_ - at_), 16384));
    return filtered(Place::root) && has_metadata_;
}

// "/spec/replicas" -> "spec", "replicas"; the second is empty for "/spec".
std::pair<std::string_view, std::string_view> tokens_of(std::string_view pointer) {
    const std::size_t second = pointer.find('/', 1);
    return second == std::string_view::npos
               ? std::pair(pointer.substr(1), std::string_view())
               : std::pair(pointer.substr(1, second - 1), pointer.substr(second + 1));
}

bool Copy::kept_whole(std::string_view member) const {
    return std::any_of(projection_.keep.begin(), projection_.keep.end(), [&](const auto& pointer) {
        return tokens_of(pointer) == std::pair(member, std::string_view());
    });
}

// What the text says it is, where that is not what it stands for.
bool Copy::is_partial_header(std::string_view key) {
    space();
    const std::string_view rest(at_, static_cast<std::size_t>(end_ - at_));
    const auto says = [&](std::string_view word) {
        return rest.size() > word.size() + 1 && rest.front() == '"' &&
               rest.substr(1).starts_with(word) && rest[word.size() + 1] == '"';
    };
    return (key == "kind" && says(kPartialKind)) ||
           (key == "apiVersion" && says(kPartialApiVersion));
}

bool Copy::dropped(Place place, std::string_view key) {
    if (place == Place::root && partial_ && is_partial_header(key)) {
        return true;
    }
    if (place == Place::root && !projection_.keep.empty() && key != "apiVersion" && key != "kind" &&
        key != "metadata") {
        return std::none_of(projection_.keep.begin(),
                            projection_.keep.end(),
                            [&](const auto& pointer) { return tokens_of(pointer).first == key; });
    }
    if (place == Place::part) {
        return std::find_if(
                   projection_.keep.begin(), projection_.keep.end(), [&](const auto& pointer) {
                       return tokens_of(pointer) == std::pair(part_of_, key);
                   }) == projection_.keep.end();
    }
    return (place == Place::metadata && key == "managedFields" &&
            projection_.drop_managed_fields) ||
           (place == Place::annotations && key == kLastApplied);
}

// An object some of whose members may be dropped.
bool Copy::filtered(Place place) {
    if (!take('{')) {
        return false;
    }
    ++depth_;
    const std::size_t first_key = keys_.size();
    out_ += '{';
    bool any = false;
    space();
    bool last = at_ < end_ && *at_ == '}';
    at_ += last ? 1 : 0;
    while (!last) {
        std::string_view key;
        if (!member_key(key)) {
            return false;
        }
        if (dropped(place, key)) {
            if (!skip()) {
                return false;
            }
        } else {
            const std::size_t mark = out_.size();
            out_ += any ? ",\"" : "\"";
            out_.append(key).append("\":");
            bool kept = true;
            const bool good =
                place == Place::metadata && key == "annotations" && projection_.drop_last_applied
                    ? annotations(mark, kept)
                    : filtered_value(place, key);
            if (!good) {
                return false;
            }
            any = any || kept;
        }
        if (!next('}', last)) {
            return false;
        }
    }
    --depth_;
    return no_duplicates(first_key) && (place != Place::root || complete_kind(any)) &&
           (out_ += '}', true);
}

bool Copy::filtered_value(Place place, std::string_view key) {
    if (place == Place::root) {
        has_kind_ = has_kind_ || key == "kind";
        has_api_version_ = has_api_version_ || key == "apiVersion";
        if (key == "metadata") {
            has_metadata_ = true;
            return filtered(Place::metadata);
        }
        space();
        if (!projection_.keep.empty() && at_ < end_ && *at_ == '{' && !kept_whole(key)) {
            part_of_ = key;
            return filtered(Place::part);
        }
    }
    return value();
}

// Annotations from which the last one has been dropped leave no empty object behind.
bool Copy::annotations(std::size_t mark, bool& kept) {
    space();
    if (at_ == end_ || *at_ != '{') {
        return value();
    }
    const char* const from = at_;
    const std::size_t start = out_.size();
    if (!filtered(Place::annotations)) {
        return false;
    }
    const bool empty = out_.size() - start == 2;
    const bool was_empty = std::string_view(from, static_cast<std::size_t>(at_ - from)).find('"') ==
                           std::string_view::npos;
    if (empty && !was_empty) {
        out_.resize(mark);
        kept = false;
    }
    return true;
}

// Items of built-in lists do not say what they are.
bool Copy::complete_kind(bool any_member) {
    if (has_kind_ || gvk_ == nullptr) {
        return true;
    }
    if (has_api_version_) {
        return false;
    }
    out_ += any_member ? ",\"apiVersion\":\"" : "\"apiVersion\":\"";
    out_ += gvk_->api_version() + "\",\"kind\":\"" + gvk_->kind + "\"";
    return true;
}

bool Copy::member_key(std::string_view& key) {
    if (!take('"')) {
        return false;
    }
    const char* const from = at_;
    at_ = scan::plain_end(at_, end_);
    if (at_ == end_ || *at_ != '"') {
        return false;  // escapes and characters above ASCII in keys are unusual
    }
    key = {from, static_cast<std::size_t>(at_ - from)};
    ++at_;
    keys_.push_back(key);
    return take(':');
}

bool Copy::no_duplicates(std::size_t first) {
    const std::size_t count = keys_.size() - first;
    bool good = true;
    if (count <= kLinearKeysMax) {
        for (std::size_t i = first + 1; i < keys_.size() && good; ++i) {
            for (std::size_t j = first; j < i; ++j) {
                good = good && keys_[i] != keys_[j];
            }
        }
    } else {
        std::unordered_set<std::string_view> seen;
        seen.reserve(count);
        for (std::size_t i = first; i < keys_.size() && good; ++i) {
            good = seen.insert(keys_[i]).second;
        }
    }
    keys_.resize(first);
    return good;
}

bool Copy::value() {
    space();
    if (at_ == end_) {
        return false;
    }
    switch (*at_) {
        case '"': return string();
        case '{': return object();
        case '[': return array();
        case 't': return word("true");
        case 'f': return word("false");
        case 'n': return word("null");
        default: return integer();
    }
}

bool Copy::object() {
    ++at_;
    if (++depth_ > json::kDepthMax) {
        return false;
    }
    const std::size_t first_key = keys_.size();
    out_ += '{';
    space();
    bool last = at_ < end_ && *at_ == '}';
    at_ += last ? 1 : 0;
    bool any = false;
    while (!last) {
        std::string_view key;
        if (!member_key(key)) {
            return false;
        }
        out_ += any ? ",\"" : "\"";
        any = true;
        out_.append(key).append("\":");
        if (!value() || !next('}', last)) {
            return false;
        }
    }
    out_ += '}';
    --depth_;
    return no_duplicates(first_key);
}

bool Copy::array() {
    ++at_;
    if (++depth_ > json::kDepthMax) {
        return false;
    }
    out_ += '[';
    space();
    bool last = at_ < end_ && *at_ == ']';
    at_ += last ? 1 : 0;
    bool any = false;
    while (!last) {
        if (any) {
            out_ += ',';
        }
        any = true;
        if (!value() || !next(']', last)) {
            return false;
        }
    }
    out_ += ']';
    --depth_;
    return true;
}

}  // namespace

bool metadata_only(const Projection& projection) noexcept {
    return projection.keep.size() == 1 && projection.keep.front() == "/metadata";
}

std::optional<std::size_t> compact_copy(std::string_view text,
                                        const Projection& projection,
                                        const GroupVersionKind* gvk,
                                        std::string& out) {
    const bool deep =
        std::any_of(projection.keep.begin(), projection.keep.end(), [](const std::string& pointer) {
            return !pointer.starts_with('/') || pointer.find('~') != std::string::npos ||
                   std::count(pointer.begin(), pointer.end(), '/') > 2 || pointer.ends_with('/');
        });
    if (deep) {
        return std::nullopt;
    }
    Copy copy(text, projection, gvk, out);
    return copy.root() ? std::optional(copy.length()) : std::nullopt;
}

}  // namespace capstan::kube
