#include "plugins/steward-bridge/api/network_bytes.hpp"

#include <algorithm>
#include <charconv>
#include <vector>

namespace capstan::steward {
namespace {

constexpr std::size_t kReceivedColumn = 0, kTransmittedColumn = 8;

std::vector<std::uint64_t> numbers_of(std::string_view text) {
    std::vector<std::uint64_t> out;
    while (true) {
        text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
        std::uint64_t value = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (error != std::errc{}) {
            return out;
        }
        out.push_back(value);
        text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    }
}

std::string counter(std::string_view name, std::string_view help, std::uint64_t value) {
    const std::string n(name);
    return "# HELP " + n + " " + std::string(help) + "\n# TYPE " + n + " counter\n" + n + " " +
           std::to_string(value) + "\n";
}

}  // namespace

NetworkBytes parse_network_bytes(std::string_view text) {
    NetworkBytes total;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        const std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        const std::size_t colon = line.find(':');
        if (colon == std::string_view::npos) {
            continue;  // a heading
        }
        const auto columns = numbers_of(line.substr(colon + 1));
        if (columns.size() > kTransmittedColumn) {
            total.received += columns[kReceivedColumn];
            total.transmitted += columns[kTransmittedColumn];
        }
    }
    return total;
}

std::string network_exposition(const NetworkBytes& bytes) {
    return counter("etcdbr_network_received_bytes", "Bytes received.", bytes.received) +
           counter("etcdbr_network_transmitted_bytes", "Bytes sent.", bytes.transmitted);
}

}  // namespace capstan::steward
