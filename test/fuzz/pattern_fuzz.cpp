// A regular expression of a CRD and a text of a client: bounded work, and an answer that does not
// depend on how the expression is wrapped. Input: expression, a zero byte, text.
#include "runtime/local/pattern/pattern.hpp"
#include "test/fuzz/fuzz.hpp"

#include <algorithm>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using capstan::fuzz::require;
    using capstan::local::Pattern;
    const std::string_view input(reinterpret_cast<const char*>(data), size);
    const std::size_t cut = std::min(input.find('\0'), size);
    const std::string expression(input.substr(0, cut));
    const std::string text(input.substr(std::min(cut + 1, size)));
    const auto pattern = Pattern::compile(expression);
    if (!pattern) {
        require(!pattern.error().message.empty(), "a refusal says why");
        return 0;
    }
    const bool matches = pattern.value().match(text);
    if (const auto group = Pattern::compile("(?:" + expression + ")")) {
        require(group.value().match(text) == matches, "a group changes nothing");
    }
    if (const auto either = Pattern::compile("(?:" + expression + ")|(?:" + expression + ")")) {
        require(either.value().match(text) == matches, "nor does an alternative of itself");
    }
    return 0;
}
