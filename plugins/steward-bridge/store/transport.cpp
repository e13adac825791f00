#include "plugins/steward-bridge/store/transport.hpp"

#include <algorithm>

namespace capstan::steward {

std::string_view header_of(const HeaderList& headers, std::string_view name) noexcept {
    const auto found = std::find_if(headers.begin(), headers.end(), [name](const auto& header) {
        return header.first == name;
    });
    return found == headers.end() ? std::string_view() : std::string_view(found->second);
}

}  // namespace capstan::steward
