#include "runtime/local/cel/shape.hpp"

#include <algorithm>
#include <array>

namespace capstan::local::cel {
namespace {

constexpr std::array<std::string_view, 18> kReserved{"as",
                                                     "break",
                                                     "const",
                                                     "continue",
                                                     "else",
                                                     "false",
                                                     "for",
                                                     "function",
                                                     "if",
                                                     "import",
                                                     "in",
                                                     "let",
                                                     "loop",
                                                     "namespace",
                                                     "null",
                                                     "package",
                                                     "return",
                                                     "true"};

// The text between two pairs of underscores; "" for what is not an escape.
std::string_view meaning(std::string_view escape) {
    struct Named {
        std::string_view escape;
        std::string_view text;
    };
    static constexpr std::array<Named, 4> kNamed{
        {{"underscores", "__"}, {"dot", "."}, {"dash", "-"}, {"slash", "/"}}};
    for (const Named& named : kNamed) {
        if (named.escape == escape) {
            return named.text;
        }
    }
    return {};
}

}  // namespace

std::string_view to_string(ShapeKind kind) noexcept {
    switch (kind) {
        case ShapeKind::dyn: return "dyn";
        case ShapeKind::boolean: return "bool";
        case ShapeKind::integer: return "int";
        case ShapeKind::real: return "double";
        case ShapeKind::string: return "string";
        case ShapeKind::timestamp: return "google.protobuf.Timestamp";
        case ShapeKind::duration: return "google.protobuf.Duration";
        case ShapeKind::null: return "null_type";
        case ShapeKind::list:
        case ShapeKind::set:
        case ShapeKind::map_list: return "list";
        case ShapeKind::map: return "map";
        case ShapeKind::object: return "object";
        case ShapeKind::other: return "value";
    }
    return "dyn";
}

const Shape* Shape::field(std::string_view name) const noexcept {
    for (const Field& entry : fields) {
        if (entry.name == name) {
            return entry.shape.get();
        }
    }
    return nullptr;
}

bool is_reserved(std::string_view word) noexcept {
    return std::find(kReserved.begin(), kReserved.end(), word) != kReserved.end();
}

std::string unescape_field(std::string_view name) {
    if (name.size() > 4 && name.starts_with("__") && name.ends_with("__") &&
        is_reserved(name.substr(2, name.size() - 4))) {
        return std::string(name.substr(2, name.size() - 4));
    }
    std::string out;
    std::size_t at = 0;
    while (at < name.size()) {
        if (name.substr(at, 2) == "__") {
            const std::size_t end = name.find("__", at + 2);
            const std::string_view text = end == std::string_view::npos
                                              ? std::string_view()
                                              : meaning(name.substr(at + 2, end - at - 2));
            if (!text.empty()) {
                out += text;
                at = end + 2;
                continue;
            }
        }
        out += name[at++];
    }
    return out;
}

}  // namespace capstan::local::cel
