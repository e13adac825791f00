#include "runtime/local/node/volumes.hpp"

#include "runtime/local/node/files.hpp"
#include "runtime/local/node/objects.hpp"

#include <unistd.h>
#include <cerrno>
#include <set>

namespace capstan::local {
namespace {

std::string read_link(const std::string& path) {
    char target[256];
    const auto n = ::readlink(path.c_str(), target, sizeof target);
    return n > 0 ? std::string(target, static_cast<std::size_t>(n)) : std::string();
}

Result<void> check_path(const std::string& path) {
    const std::string framed = "/" + path + "/";
    if (path.empty() || path[0] == '/' || path.starts_with("..") ||
        framed.find("/../") != std::string::npos) {
        return fail(Code::invalid, "volume path \"" + path + "\" leaves the volume");
    }
    return ok();
}

Result<void> set_link(const std::string& link, const std::string& target) {
    if (read_link(link) == target) {
        return ok();
    }
    const std::string beside = link + "_tmp";
    ::unlink(beside.c_str());
    if (::symlink(target.c_str(), beside.c_str()) != 0 ||
        ::rename(beside.c_str(), link.c_str()) != 0) {
        return fail(file_error("link", link, errno));
    }
    return ok();
}

mode_t mode_of(const json::View& item, const json::View& source, const json::View& volume) {
    const auto fallback = volume["defaultMode"].int_or(source["defaultMode"].int_or(0644));
    return static_cast<mode_t>((item["mode"].int_or(fallback) & 0777) | 0400);
}

// Keys of a ConfigMap or Secret into `out`, by `items` when given.
Result<void> add_object(const VolumeContext& context,
                        const GroupVersionKind& kind,
                        std::string_view name,
                        const json::View& source,
                        const json::View& volume,
                        Payload& out) {
    auto object =
        context.environment.lookup(kind, {key_of(context.environment.pod).ns, std::string(name)});
    if (!object.has_value()) {
        if (source["optional"].bool_or(false) && object.error().code == Code::not_found) {
            return ok();
        }
        return fail(with_context(std::move(object).error(), kind.kind + " " + std::string(name)));
    }
    std::map<std::string, std::string> data;
    const json::View view(object.value());
    for (const auto& [key, value] : view["data"].object()) {
        std::string text = value.is_string() ? *value.if_string() : "";
        if (kind == kSecretKind) {
            CAPSTAN_TRY(text, decode_base64(text));
        }
        data[key] = std::move(text);
    }
    for (const auto& [key, value] : view["binaryData"].object()) {
        CAPSTAN_TRY(data[key], decode_base64(value.is_string() ? *value.if_string() : ""));
    }
    const json::Value none;
    if (!source["items"].present()) {
        for (auto& [key, text] : data) {
            out[key] = {std::move(text), mode_of(json::View(none), source, volume)};
        }
        return ok();
    }
    for (const auto& item : source["items"].array()) {
        const json::View item_view(item);
        const auto it = data.find(std::string(item_view["key"].string_or("")));
        if (it != data.end()) {
            out[std::string(item_view["path"].string_or(""))] = {
                it->second, mode_of(item_view, source, volume)};
        } else if (!source["optional"].bool_or(false)) {
            return fail(Code::not_found,
                        kind.kind + " " + std::string(name) + " has no key " +
                            std::string(item_view["key"].string_or("")));
        }
    }
    return ok();
}

Result<void> add_fields(const VolumeContext& context,
                        const json::View& source,
                        const json::View& volume,
                        Payload& out) {
    for (const auto& item : source["items"].array()) {
        const json::View view(item);
        const auto path = view["fieldRef"]["fieldPath"].string_or("");
        std::string text;
        if (path == "metadata.labels" || path == "metadata.annotations") {
            const auto pairs = json::View(context.environment.pod)["metadata"][path.substr(9)];
            for (const auto& [key, value] : pairs.object()) {
                text += key + "=" + json::dump(value) + "\n";
            }
        } else {
            CAPSTAN_TRY(text, field_of_pod(context.environment, path));
        }
        out[std::string(view["path"].string_or(""))] = {std::move(text),
                                                        mode_of(view, source, volume)};
    }
    return ok();
}

Result<void> add_projected(const VolumeContext& context,
                           const json::View& projected,
                           Payload& out) {
    for (const auto& entry : projected["sources"].array()) {
        const json::View source(entry);
        if (source["configMap"].present()) {
            const auto part = source["configMap"];
            CAPSTAN_TRY(add_object(
                context, kConfigMapKind, part["name"].string_or(""), part, projected, out));
        } else if (source["secret"].present()) {
            const auto part = source["secret"];
            CAPSTAN_TRY(
                add_object(context, kSecretKind, part["name"].string_or(""), part, projected, out));
        } else if (source["downwardAPI"].present()) {
            CAPSTAN_TRY(add_fields(context, source["downwardAPI"], projected, out));
        } else if (source["serviceAccountToken"].present()) {
            if (!context.token) {
                return fail(Code::unsupported,
                            "service account tokens are not issued on this node");
            }
            CAPSTAN_TRY(auto token, context.token());
            out[std::string(source["serviceAccountToken"]["path"].string_or("token"))] = {
                std::move(token), 0600};
        } else {
            return fail(Code::unsupported, "this kind of projected volume runs only on Kubernetes");
        }
    }
    return ok();
}

Result<std::string> prepare_claim(const VolumeContext& context, const json::View& source) {
    const std::string name(source["claimName"].string_or(""));
    auto claim = context.environment.lookup(kClaimKind, {key_of(context.environment.pod).ns, name});
    if (!claim.has_value()) {
        return fail(with_context(std::move(claim).error(), "PersistentVolumeClaim " + name));
    }
    auto dir = claim_dir(context.claims_dir, claim.value());
    CAPSTAN_TRY(make_dirs(dir));
    return dir;
}

Result<std::string> prepare_volume(const VolumeContext& context, const json::View& volume) {
    const std::string name(volume["name"].string_or(""));
    std::string dir = context.pod_dir + "/volumes.d/" + name;
    if (volume["persistentVolumeClaim"].present()) {
        return prepare_claim(context, volume["persistentVolumeClaim"]);
    }
    if (volume["hostPath"].present()) {
        const std::string path(volume["hostPath"]["path"].string_or(""));
        CAPSTAN_TRY(check_path(path.substr(std::min(path.size(), path.find_first_not_of('/')))));
        dir = context.host_dir + "/" + path.substr(path.find_first_not_of('/'));
        CAPSTAN_TRY(make_dirs(dir));
        return dir;
    }
    Payload payload;
    if (volume["configMap"].present()) {
        const auto source = volume["configMap"];
        CAPSTAN_TRY(add_object(
            context, kConfigMapKind, source["name"].string_or(""), source, source, payload));
    } else if (volume["secret"].present()) {
        const auto source = volume["secret"];
        CAPSTAN_TRY(add_object(
            context, kSecretKind, source["secretName"].string_or(""), source, source, payload));
    } else if (volume["projected"].present()) {
        CAPSTAN_TRY(add_projected(context, volume["projected"], payload));
    } else if (volume["downwardAPI"].present()) {
        CAPSTAN_TRY(add_fields(context, volume["downwardAPI"], volume["downwardAPI"], payload));
    } else if (volume["emptyDir"].present() || volume.object().size() <= 1) {
        CAPSTAN_TRY(make_dirs(dir));
        return dir;
    } else {
        return fail(Code::unsupported,
                    "volume " + name + " is of a kind that runs only on Kubernetes");
    }
    CAPSTAN_TRY(write_payload(dir, payload));
    return dir;
}

}  // namespace

Result<bool> write_payload(const std::string& dir, const Payload& payload) {
    if (payload.size() > kPayloadFilesMax) {
        return fail(Code::too_large,
                    "more than " + std::to_string(kPayloadFilesMax) + " files in " + dir);
    }
    std::string all;
    for (const auto& [path, file] : payload) {
        CAPSTAN_TRY(check_path(path));
        all += path + '\0' + std::to_string(file.mode) + '\0' + std::to_string(file.bytes.size()) +
               '\0' + file.bytes;
    }
    const std::string fresh = "..capstan-" + short_digest(all);
    const std::string old = read_link(dir + "/..data");
    if (old == fresh) {
        return false;
    }
    CAPSTAN_TRY(remove_tree(dir + "/" + fresh));  // of a node that died half-way
    CAPSTAN_TRY(make_dirs(dir + "/" + fresh));
    std::set<std::string> tops;
    for (const auto& [path, file] : payload) {
        const std::string full = dir + "/" + fresh + "/" + path;
        CAPSTAN_TRY(make_dirs(full.substr(0, full.rfind('/'))));
        CAPSTAN_TRY(write_file(full, file.bytes, file.mode));
        tops.insert(path.substr(0, path.find('/')));
    }
    CAPSTAN_TRY(set_link(dir + "/..data", fresh));
    for (const auto& top : tops) {
        CAPSTAN_TRY(set_link(dir + "/" + top, "..data/" + top));
    }
    for (const auto& name : list_dir(dir)) {
        const bool ours = name == "..data" || name == fresh || tops.contains(name);
        if (!ours && (name.starts_with("..capstan-") ||
                      read_link(dir + "/" + name).starts_with("..data/"))) {
            CAPSTAN_TRY(remove_tree(dir + "/" + name));
        }
    }
    return true;
}

std::string claim_dir(const std::string& claims_dir, const json::Value& claim) {
    const auto key = key_of(claim);
    // '_' is in none of the three
    return claims_dir + "/" + key.ns + "_" + key.name + "_" + uid_of(claim);
}

Result<std::map<std::string, std::string>> prepare_volumes(const VolumeContext& context) {
    std::map<std::string, std::string> dirs;
    const auto volumes = json::View(context.environment.pod)["spec"]["volumes"];
    for (const auto& volume : volumes.array()) {
        const json::View view(volume);
        CAPSTAN_TRY(auto dir, prepare_volume(context, view));
        dirs[std::string(view["name"].string_or(""))] = std::move(dir);
    }
    return dirs;
}

}  // namespace capstan::local
