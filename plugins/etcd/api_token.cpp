#include "plugins/etcd/api_token.hpp"

#include "api/codec.hpp"

#include <sys/random.h>

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

}  // namespace

Result<void> create_api_token(Call& call, json::Value secret, std::string_view owner_uid) {
    CAPSTAN_TRY(std::string token, random_token());
    secret.set("stringData", {{kApiTokenKey, std::move(token)}});
    auto created = call.client().create(kSecretGvk, secret);
    if (created || created.error().code != Code::exists) {
        return created;
    }
    const json::View metadata = json::View(secret)["metadata"];
    const ObjectKey key{std::string(metadata["namespace"].string_or("")),
                        std::string(metadata["name"].string_or(""))};
    CAPSTAN_TRY(const json::Value present, call.client().get_value(kSecretGvk, key));
    api::ObjectMeta owner;
    CAPSTAN_TRY(api::decode(json::View(present)["metadata"], owner));
    const std::string_view controller = owner.controller_uid();
    if (controller.empty() || controller == owner_uid) {
        return ok();
    }
    return fail(
        Code::conflict,
        "Secret " + key.to_string() + " belongs to another object; it is waited for to be gone");
}

}  // namespace capstan::etcd
