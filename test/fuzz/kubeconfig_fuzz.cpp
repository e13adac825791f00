// A kubeconfig of unknown origin, YAML or JSON. Files it names are a fixed few; nothing is read.
#include "runtime/kube/kubeconfig.hpp"
#include "test/fuzz/fuzz.hpp"

#include <string>

namespace capstan::kube {
namespace {

Result<std::string> read_nothing(const std::string& path) {
    if (path.ends_with("ca.pem")) {
        return std::string("-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n");
    }
    if (path.ends_with("token")) {
        return std::string(" secret\n");
    }
    return fail(Code::invalid, path + ": not there");
}

}  // namespace
}  // namespace capstan::kube

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace capstan::kube;
    using capstan::fuzz::require;
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    for (const char* context : {"", "other"}) {
        const auto config = parse_kubeconfig(text, "/etc/x", context, read_nothing);
        if (!config) {
            require(!config.error().message.empty(), "a refusal says why");
            continue;
        }
        require(!config.value().host.empty(), "a server has a host");
        require(!config.value().ns.empty(), "there always is a namespace");
        const auto again = parse_kubeconfig(text, "/etc/x", context, read_nothing);
        require(again && again.value().host == config.value().host &&
                    again.value().token == config.value().token,
                "reading twice gives the same");
    }
    return 0;
}
