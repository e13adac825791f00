#include "plugins/etcd/api_token.hpp"

#include "api/codec.hpp"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <string>

namespace capstan::etcd {
namespace {

constexpr std::string_view kSecretGvk = "v1/Secret";

// 256 bits as hexadecimal text.
Result<std::string> random_token() {
    std::array<unsigned char, 32> raw{};
    if (::getrandom(raw.data(), raw.size(), 0) != static_cast<ssize_t>(raw.size())) {
        return fail(Code::unavailable, "getrandom gave no bytes");
    }
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text;
    for (const unsigned char byte : raw) {
        text += kDigits[byte >> 4];
        text += kDigits[byte & 15];
    }
    return text;
}

// Whether the Secret of that name was one of an Etcd of the same name before this one, and is
// removed now; false: it may stay. That Etcd is gone, or its name would not be free; the garbage
// collector would come too, but takes minutes when it cannot reach each API.
Result<bool> remove_of_etcd_before(Call& call,
                                   const json::Value& secret,
                                   std::string_view owner_uid) {
    const json::View wanted(secret);
    const ObjectKey key{std::string(wanted["metadata"]["namespace"].string_or("")),
                        std::string(wanted["metadata"]["name"].string_or(""))};
    CAPSTAN_TRY(const Object object, call.client().get(kSecretGvk, key));
    CAPSTAN_TRY(const json::Value present, object.parse());
    api::ObjectMeta meta;
    CAPSTAN_TRY(api::decode(json::View(present)["metadata"], meta));
    const auto owner = std::find_if(meta.owner_references.begin(),
                                    meta.owner_references.end(),
                                    [](const api::OwnerReference& one) { return one.controller; });
    if (owner == meta.owner_references.end() || owner->uid == owner_uid) {
        return false;
    }
    const json::View ours = wanted["metadata"]["ownerReferences"][0];
    if (meta.deleting() || owner->kind != ours["kind"].string_or("") ||
        owner->name != ours["name"].string_or("")) {
        return fail(Code::unavailable,  // shows in the status, as a conflict would not
                    "Secret " + key.to_string() + " belongs to " + owner->kind + " " + owner->name +
                        ", not to this Etcd; it is waited for to be gone");
    }
    CAPSTAN_TRY(call.client().remove(object));
    return true;
}

}  // namespace

Result<void> create_api_token(Call& call, json::Value secret, std::string_view owner_uid) {
    CAPSTAN_TRY(std::string token, random_token());
    secret.set("stringData", {{kApiTokenKey, std::move(token)}});
    auto created = call.client().create(kSecretGvk, secret);
    if (created || created.error().code != Code::exists) {
        return created;
    }
    CAPSTAN_TRY(const bool removed, remove_of_etcd_before(call, secret, owner_uid));
    return removed ? call.client().create(kSecretGvk, secret) : ok();
}

}  // namespace capstan::etcd
