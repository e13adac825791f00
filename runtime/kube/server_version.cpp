#include "runtime/kube/server_version.hpp"

#include "capstan/json.hpp"

#include <charconv>

namespace capstan::kube {

Result<ServerVersion> parse_server_version(std::string_view body) {
    CAPSTAN_TRY(const json::Value version, json::parse(body));
    const auto number = [&](std::string_view field) {
        const std::string_view text = json::View(version)[field].string_or("");
        int value = 0;
        const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
        return parsed.ec == std::errc() ? value : 0;
    };
    const ServerVersion found{number("major"), number("minor")};
    if (found.major == 0) {
        return fail(Code::invalid, "/version without major and minor");
    }
    return found;
}

}  // namespace capstan::kube
