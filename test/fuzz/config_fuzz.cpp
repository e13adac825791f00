// YAML texts and the operator's configuration: what is accepted survives being printed and read.
#include "runtime/config/operator_config.hpp"
#include "runtime/config/yaml.hpp"
#include "test/fuzz/fuzz.hpp"

#include <string>

namespace capstan::config {
namespace {

using fuzz::require;

void check_yaml(std::string_view text) {
    LoadOptions options;
    options.bytes_max = 64 * 1024;
    options.nodes_max = 10'000;
    const auto documents = load_all(text, "f", options);
    if (!documents) {
        require(!documents.error().message.empty(), "a refusal says why");
        return;
    }
    for (const Document& document : documents.value()) {
        const std::string printed = to_yaml(document.value);
        const auto again = load(printed, "g");
        if (document.value.is_null()) {
            continue;
        }
        require(again.has_value(), "what was printed can be read");
        require(again.value().value == document.value, "YAML read, printed and read is equal");
        for (const auto& [path, line] : document.lines) {
            require(line > 0, "lines count from 1");
            require(document.value.pointer(path) != nullptr, "a line belongs to a value");
        }
    }
}

void check_config(std::string_view text) {
    const auto document = load(text, "f");
    if (!document) {
        return;
    }
    const auto config = decode_operator_config(document.value());
    if (!config) {
        require(!config.error().message.empty(), "a refusal says why");
        return;
    }
    const json::Value whole = to_json(config.value());
    const auto again = decode_operator_config(from_json(whole, "g"));
    require(again.has_value(), "a printed configuration is accepted");
    require(to_json(again.value()) == whole, "and means the same");
    const auto printed = load(print(config.value()), "h");
    require(printed && printed.value().value == whole, "also as YAML");
}

}  // namespace
}  // namespace capstan::config

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    capstan::config::check_yaml(text);
    capstan::config::check_config(text);
    return 0;
}
