#include "runtime/local/node/environment.hpp"

#include "runtime/local/node/objects.hpp"

namespace capstan::local {
namespace {

using Values = std::map<std::string, std::string>;

std::string localize(const EnvironmentContext& context, std::string_view text) {
    std::string out = context.paths.apply(text);
    for (const auto& alias : context.aliases) {
        out = replace_host(out, alias, context.pod_ip);
    }
    return out;
}

// One key of a ConfigMap or Secret; nullopt: absent and optional.
Result<std::optional<std::string>> key_of_source(const EnvironmentContext& context,
                                                 const GroupVersionKind& kind,
                                                 const json::View& reference) {
    const std::string name(reference["name"].string_or(""));
    const std::string key(reference["key"].string_or(""));
    const bool optional = reference["optional"].bool_or(false);
    auto object = context.lookup(kind, {key_of(context.pod).ns, name});
    if (!object.has_value()) {
        if (optional && object.error().code == Code::not_found) {
            return std::optional<std::string>();
        }
        return fail(with_context(std::move(object).error(), kind.kind + " " + name));
    }
    const auto value = json::View(object.value())["data"][key];
    if (!value.present()) {
        if (optional) {
            return std::optional<std::string>();
        }
        return fail(Code::not_found, kind.kind + " " + name + " has no key " + key);
    }
    if (kind == kSecretKind) {
        CAPSTAN_TRY(auto text, decode_base64(value.string_or("")));
        return std::optional(std::move(text));
    }
    return std::optional(std::string(value.string_or("")));
}

Result<void> add_all_keys(const EnvironmentContext& context,
                          const json::View& source,
                          Values& out) {
    for (const auto& [field, kind] :
         {std::pair{"configMapRef", &kConfigMapKind}, std::pair{"secretRef", &kSecretKind}}) {
        const auto reference = source[std::string_view(field)];
        if (!reference.present()) {
            continue;
        }
        const std::string name(reference["name"].string_or(""));
        auto object = context.lookup(*kind, {key_of(context.pod).ns, name});
        if (!object.has_value()) {
            if (reference["optional"].bool_or(false) && object.error().code == Code::not_found) {
                continue;
            }
            return fail(with_context(std::move(object).error(), kind->kind + " " + name));
        }
        for (const auto& [key, value] : json::View(object.value())["data"].object()) {
            std::string text = value.is_string() ? *value.if_string() : "";
            if (*kind == kSecretKind) {
                CAPSTAN_TRY(text, decode_base64(text));
            }
            out[std::string(source["prefix"].string_or("")) + key] = std::move(text);
        }
    }
    return ok();
}

Result<void> add_variable(const EnvironmentContext& context, const json::View& entry, Values& out) {
    const std::string name(entry["name"].string_or(""));
    const auto from = entry["valueFrom"];
    if (!from.present()) {
        out[name] = localize(context, expand_variables(entry["value"].string_or(""), out));
        return ok();
    }
    std::optional<std::string> value;
    if (from["fieldRef"].present()) {
        CAPSTAN_TRY(value, field_of_pod(context, from["fieldRef"]["fieldPath"].string_or("")));
    } else if (from["secretKeyRef"].present()) {
        CAPSTAN_TRY(value, key_of_source(context, kSecretKind, from["secretKeyRef"]));
    } else if (from["configMapKeyRef"].present()) {
        CAPSTAN_TRY(value, key_of_source(context, kConfigMapKind, from["configMapKeyRef"]));
    } else {
        return fail(
            Code::unsupported,
            "environment variable " + name + ": this kind of source runs only on Kubernetes");
    }
    if (value) {
        out[name] = std::move(*value);
    }
    return ok();
}

}  // namespace

std::vector<std::string> strings_of(const json::View& list) {
    std::vector<std::string> out;
    for (const auto& item : list.array()) {
        out.push_back(item.is_string() ? *item.if_string() : json::dump(item));
    }
    return out;
}

std::string expand_variables(std::string_view text,
                             const std::map<std::string, std::string>& values) {
    std::string out;
    for (std::size_t i = 0; i < text.size();) {
        const auto rest = text.substr(i);
        const auto close = rest.find(')');
        if (rest.starts_with("$$")) {
            out += '$';
            i += 2;
        } else if (rest.starts_with("$(") && close != std::string_view::npos) {
            const auto it = values.find(std::string(rest.substr(2, close - 2)));
            out += it == values.end() ? std::string(rest.substr(0, close + 1)) : it->second;
            i += close + 1;
        } else {
            out += rest[0];
            ++i;
        }
    }
    return out;
}

Result<std::string> field_of_pod(const EnvironmentContext& context, std::string_view path) {
    const json::View pod(context.pod);
    if (path == "status.podIP" || path == "status.podIPs") {
        return context.pod_ip;
    }
    if (path == "status.hostIP" || path == "status.hostIPs") {
        return std::string("127.0.0.1");
    }
    if (path == "spec.nodeName") {
        return context.node_name;
    }
    if (path == "spec.serviceAccountName") {
        return std::string(pod["spec"]["serviceAccountName"].string_or("default"));
    }
    for (const std::string_view field : {"name", "namespace", "uid"}) {
        if (path == "metadata." + std::string(field)) {
            return std::string(pod["metadata"][field].string_or(""));
        }
    }
    for (const std::string_view field : {"labels", "annotations"}) {
        const auto begin = "metadata." + std::string(field) + "['";
        if (path.starts_with(begin) && path.ends_with("']")) {
            const auto key = path.substr(begin.size(), path.size() - begin.size() - 2);
            return std::string(pod["metadata"][field][key].string_or(""));
        }
    }
    return fail(Code::unsupported,
                "field reference " + std::string(path) + " runs only on Kubernetes");
}

Result<ContainerText> build_container_text(const json::Value& container,
                                           const EnvironmentContext& context) {
    const json::View view(container);
    ContainerText out;
    for (const auto& source : view["envFrom"].array()) {
        CAPSTAN_TRY(add_all_keys(context, json::View(source), out.env));
    }
    for (const auto& entry : view["env"].array()) {
        CAPSTAN_TRY(add_variable(context, json::View(entry), out.env));
    }
    if (out.env.size() > kEnvironmentMax) {
        return fail(Code::too_large,
                    "more than " + std::to_string(kEnvironmentMax) + " environment variables");
    }
    for (const auto& word : strings_of(view["command"])) {
        out.command.push_back(localize(context, expand_variables(word, out.env)));
    }
    for (const auto& word : strings_of(view["args"])) {
        out.args.push_back(localize(context, expand_variables(word, out.env)));
    }
    return out;
}

Result<std::string> decode_base64(std::string_view text) {
    constexpr std::string_view kAlphabet =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string out;
    unsigned bits = 0;
    int count = 0;
    while (text.ends_with('=')) {
        text.remove_suffix(1);
    }
    for (const char c : text) {
        const auto value = kAlphabet.find(c);
        if (value == std::string_view::npos) {
            return fail(Code::invalid, "not base64");
        }
        bits = (bits << 6) | static_cast<unsigned>(value);
        count += 6;
        if (count >= 8) {
            count -= 8;
            out += static_cast<char>((bits >> count) & 0xFF);
        }
    }
    return out;
}

}  // namespace capstan::local
