#include "runtime/plugin/variables.hpp"

#include <algorithm>
#include <cctype>

namespace capstan::plugin {

bool has_only_whole_variables(std::string_view text) {
    const auto part_of_name = [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
    };
    for (auto at = text.find('$'); at != text.npos; at = text.find('$')) {
        const auto close = text.find(')', at);
        if (close == text.npos || close < at + 3 || text[at + 1] != '(') {
            return false;
        }
        const auto name = text.substr(at + 2, close - at - 2);
        if (!std::all_of(name.begin(), name.end(), part_of_name)) {
            return false;
        }
        text.remove_prefix(close + 1);
    }
    return true;
}

Result<std::string> expand_variables(std::string_view text, const VariableLookup& lookup) {
    std::string out;
    for (auto at = text.find("$("); at != text.npos; at = text.find("$(")) {
        const auto close = text.find(')', at);
        const std::string name(text.substr(at + 2, close - at - 2));
        const auto value = lookup ? lookup(name) : std::nullopt;
        if (!value || value->empty()) {
            return fail(Code::invalid, "environment variable " + name + " is not set");
        }
        out.append(text.substr(0, at)).append(*value);
        text.remove_prefix(close + 1);
    }
    return out.append(text);
}

}  // namespace capstan::plugin
