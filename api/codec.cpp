#include "api/codec.hpp"

#include <algorithm>
#include <charconv>
#include <limits>

namespace capstan::api {

namespace {

__extension__ using Wide = unsigned __int128;

constexpr std::size_t kQuantityBytesMax = 64;
constexpr int kDigitsMax = 19;  // 10^19 * 2^60 and 10^19 * 10^18 fit 128 bits
constexpr int kExponentMax = 18;

struct Factor {
    int binary{0};   // power of two
    int decimal{0};  // power of ten
};

// What a quantity's suffix multiplies with; nullopt when it is none.
std::optional<Factor> suffix_factor(std::string_view suffix) {
    struct Row {
        std::string_view suffix;
        Factor factor;
    };
    // clang-format off
    static constexpr Row kRows[] = {
        {"", {0, 0}},
        {"n", {0, -9}}, {"u", {0, -6}}, {"m", {0, -3}},
        {"k", {0, 3}}, {"M", {0, 6}}, {"G", {0, 9}}, {"T", {0, 12}}, {"P", {0, 15}}, {"E", {0, 18}},
        {"Ki", {10, 0}}, {"Mi", {20, 0}}, {"Gi", {30, 0}},
        {"Ti", {40, 0}}, {"Pi", {50, 0}}, {"Ei", {60, 0}},
    };
    // clang-format on
    for (const Row& row : kRows) {
        if (row.suffix == suffix) {
            return row.factor;
        }
    }
    if (suffix.size() >= 2 && (suffix[0] == 'e' || suffix[0] == 'E')) {
        const std::string_view digits = suffix.substr(suffix[1] == '+' ? 2 : 1);
        int exponent = 0;
        const char* last = digits.data() + digits.size();
        auto [end, code] = std::from_chars(digits.data(), last, exponent);
        if (code == std::errc{} && end == last && exponent >= -kExponentMax &&
            exponent <= kExponentMax) {
            return Factor{0, exponent};
        }
    }
    return std::nullopt;
}

Wide power_of_ten(int exponent) {
    Wide power = 1;
    for (int i = 0; i < exponent; ++i) {
        power *= 10;
    }
    return power;
}

}  // namespace

Result<std::int64_t> quantity(const IntOrString& value) {
    const std::string& text = value.text;
    auto bad = [&](const char* why) {
        return fail(Code::invalid, "\"" + text.substr(0, kQuantityBytesMax) + "\" " + why);
    };
    std::size_t at = !text.empty() && (text[0] == '+' || text[0] == '-') ? 1 : 0;
    Wide number = 0;
    int digits = 0;     // significant ones
    int decimals = -1;  // digits after the point; -1 before it
    bool any = false;
    for (; at < text.size() && at < kQuantityBytesMax; ++at) {
        if (text[at] == '.' && decimals < 0) {
            decimals = 0;
        } else if (text[at] >= '0' && text[at] <= '9') {
            any = true;
            number = number * 10 + static_cast<Wide>(text[at] - '0');
            digits += number != 0 ? 1 : 0;
            decimals += decimals >= 0 ? 1 : 0;
            if (digits > kDigitsMax || decimals > kExponentMax) {
                return bad("has too many digits");
            }
        } else {
            break;
        }
    }
    const auto factor = suffix_factor(std::string_view(text).substr(at));
    if (!any || !factor) {
        return bad("is not a quantity");
    }
    number <<= factor->binary;
    const int exponent = factor->decimal - std::max(decimals, 0);
    if (exponent >= 0) {
        number *= power_of_ten(exponent);
    } else {
        // At most 10^36. Away from zero, as Kubernetes rounds.
        const Wide divisor = power_of_ten(-exponent);
        number = number / divisor + (number % divisor != 0 ? 1 : 0);
    }
    if (number > static_cast<Wide>(std::numeric_limits<std::int64_t>::max())) {
        return bad("is too large");
    }
    const auto whole = static_cast<std::int64_t>(number);
    return text[0] == '-' ? -whole : whole;
}

bool ObjectMeta::has_finalizer(std::string_view finalizer) const noexcept {
    return std::find(finalizers.begin(), finalizers.end(), finalizer) != finalizers.end();
}

std::string_view ObjectMeta::controller_uid() const noexcept {
    for (const OwnerReference& owner : owner_references) {
        if (owner.controller) {
            return owner.uid;
        }
    }
    return {};
}

Result<void> decode(const json::View& view, std::string& out) {
    CAPSTAN_TRY(auto text, view.as_string());
    out = text;
    return ok();
}
Result<void> decode(const json::View& view, bool& out) {
    CAPSTAN_TRY(out, view.as_bool());
    return ok();
}
Result<void> decode(const json::View& view, double& out) {
    CAPSTAN_TRY(out, view.as_real());
    return ok();
}
Result<void> decode(const json::View& view, std::int64_t& out) {
    CAPSTAN_TRY(out, view.as_int());
    return ok();
}
Result<void> decode(const json::View& view, std::int32_t& out) {
    CAPSTAN_TRY(auto wide, view.as_int());
    if (wide < std::numeric_limits<std::int32_t>::min() ||
        wide > std::numeric_limits<std::int32_t>::max()) {
        return fail(view.error("outside 32 bits"));
    }
    out = static_cast<std::int32_t>(wide);
    return ok();
}
Result<void> decode(const json::View& view, json::Value& out) {
    out = view.value() != nullptr ? *view.value() : json::Value();
    return ok();
}
Result<void> decode(const json::View& view, IntOrString& out) {
    if (view.value() != nullptr && view.value()->if_int() != nullptr) {
        out = {std::to_string(*view.value()->if_int()), true};
        return ok();
    }
    out.integer = false;
    return decode(view, out.text);
}
Result<void> decode(const json::View& view, StringMap& out) {
    CAPSTAN_TRY(const json::Object* members, view.as_object());
    out.clear();
    for (const json::Member& member : *members) {
        CAPSTAN_TRY(auto text, view[member.key].as_string());
        out[member.key] = text;
    }
    return ok();
}
Result<void> decode(const json::View& view, OwnerReference& out) {
    CAPSTAN_TRY(decode(view["apiVersion"], out.api_version));
    CAPSTAN_TRY(decode(view["kind"], out.kind));
    CAPSTAN_TRY(decode(view["name"], out.name));
    CAPSTAN_TRY(decode(view["uid"], out.uid));
    out.controller = view["controller"].bool_or(false);
    out.block_owner_deletion = view["blockOwnerDeletion"].bool_or(false);
    return ok();
}
Result<void> decode(const json::View& view, ObjectMeta& out) {
    CAPSTAN_TRY(decode(view["name"], out.name));
    out.ns = view["namespace"].string_or("");
    out.uid = view["uid"].string_or("");
    out.resource_version = view["resourceVersion"].string_or("");
    out.generation = view["generation"].int_or(0);
    CAPSTAN_TRY(decode(view["creationTimestamp"], out.creation_timestamp));
    CAPSTAN_TRY(decode(view["deletionTimestamp"], out.deletion_timestamp));
    CAPSTAN_TRY(decode_optional(view["labels"], out.labels));
    CAPSTAN_TRY(decode_optional(view["annotations"], out.annotations));
    CAPSTAN_TRY(decode_optional(view["finalizers"], out.finalizers));
    CAPSTAN_TRY(decode_optional(view["ownerReferences"], out.owner_references));
    return ok();
}

Result<std::size_t> decode_enum(const json::View& view, std::span<const std::string_view> names) {
    CAPSTAN_TRY(auto text, view.as_string());
    auto found = std::find(names.begin(), names.end(), text);
    if (found != names.end()) {
        return static_cast<std::size_t>(found - names.begin());
    }
    std::string accepted;
    for (std::string_view name : names) {
        accepted += (accepted.empty() ? "" : ", ") + std::string(name);
    }
    return fail(view.error("\"" + std::string(text.substr(0, 64)) + "\" is none of " + accepted));
}

json::Value encode(const IntOrString& in) {
    std::int64_t number = 0;
    if (in.integer && std::from_chars(in.text.data(), in.text.data() + in.text.size(), number).ec ==
                          std::errc{}) {
        return number;
    }
    return in.text;
}
json::Value encode(const StringMap& in) {
    json::Value out = json::object();
    for (const auto& [key, value] : in) {
        out.set(key, value);
    }
    return out;
}
json::Value encode(const OwnerReference& in) {
    return {
        {"apiVersion", in.api_version},
        {"kind", in.kind},
        {"name", in.name},
        {"uid", in.uid},
        {"controller", in.controller},
        {"blockOwnerDeletion", in.block_owner_deletion},
    };
}
json::Value encode(const ObjectMeta& in) {
    json::Value out = {{"name", in.name}};
    if (!in.ns.empty()) {
        out.set("namespace", in.ns);
    }
    if (!in.uid.empty()) {
        out.set("uid", in.uid);
    }
    if (!in.resource_version.empty()) {
        out.set("resourceVersion", in.resource_version);
    }
    if (in.generation != 0) {
        out.set("generation", in.generation);
    }
    put_present(out, "creationTimestamp", in.creation_timestamp);
    put_present(out, "deletionTimestamp", in.deletion_timestamp);
    put_present(out, "labels", in.labels);
    put_present(out, "annotations", in.annotations);
    put_present(out, "finalizers", in.finalizers);
    put_present(out, "ownerReferences", in.owner_references);
    return out;
}

}  // namespace capstan::api
