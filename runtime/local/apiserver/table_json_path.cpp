// JSONPath as printer columns use it (k8s.io/client-go/util/jsonpath), first result only.
#include "runtime/local/apiserver/table.hpp"

#include <charconv>
#include <optional>

namespace capstan::local {

namespace {

enum class StepKind : std::uint8_t { member, index, all, filter };
enum class Compare : std::uint8_t {
    exists,
    equal,
    not_equal,
    less,
    less_equal,
    greater,
    greater_equal
};

struct Step {
    StepKind kind{StepKind::all};
    std::string name;        // member
    std::int64_t index{0};   // index; negative: from the end
    std::vector<Step> left;  // filter: path below "@"
    Compare compare{Compare::exists};
    json::Value right;  // filter: literal
};

using Steps = std::vector<Step>;
using Failure = decltype(fail(Code::invalid, std::string()));

class Parser {
public:
    explicit Parser(std::string_view text) : text_(text) {}

    Result<Steps> run() {
        if (text_.starts_with('{') && text_.ends_with('}')) {
            text_ = text_.substr(1, text_.size() - 2);
        }
        CAPSTAN_TRY(Steps steps, path(false));
        if (offset_ != text_.size()) {
            return error("unexpected text");
        }
        return steps;
    }

private:
    char peek() const { return offset_ < text_.size() ? text_[offset_] : '\0'; }
    bool take(std::string_view token) {
        if (text_.substr(offset_).starts_with(token)) {
            offset_ += token.size();
            return true;
        }
        return false;
    }
    void skip_blanks() {
        while (peek() == ' ') {
            ++offset_;
        }
    }
    Failure error(std::string_view what) const {
        return fail(Code::invalid,
                    "jsonPath offset " + std::to_string(offset_) + ": " + std::string(what));
    }

    Result<Steps> path(bool in_filter) {
        Steps steps;
        while (offset_ < text_.size()) {
            if (steps.size() >= kJsonPathStepsMax) {
                return error("more than " + std::to_string(kJsonPathStepsMax) + " steps");
            }
            if (take(".")) {
                if (peek() == '.') {
                    return error("recursive descent is not supported");
                }
                if (peek() == '[' || offset_ == text_.size()) {
                    continue;
                }
                steps.push_back(member());
            } else if (take("[")) {
                CAPSTAN_TRY(Step step, bracket(in_filter));
                steps.push_back(std::move(step));
            } else {
                break;
            }
        }
        return steps;
    }

    Step member() {
        Step step;
        step.kind = StepKind::member;
        while (offset_ < text_.size() &&
               std::string_view(".[ =!<>)").find(peek()) == std::string_view::npos) {
            if (peek() == '\\' && offset_ + 1 < text_.size()) {
                ++offset_;
            }
            step.name += text_[offset_++];
        }
        if (step.name == "*") {
            step.kind = StepKind::all;
        }
        return step;
    }

    Result<Step> bracket(bool in_filter) {
        Step step;
        if (take("*]")) {
            return step;
        }
        if (take("?(")) {
            return in_filter ? Result<Step>(error("a filter inside a filter is not supported"))
                             : filter();
        }
        if (peek() == '\'' || peek() == '"') {
            CAPSTAN_TRY(step.name, quoted());
            step.kind = StepKind::member;
        } else {
            const std::string_view rest = text_.substr(offset_);
            const auto [end, failed] =
                std::from_chars(rest.data(), rest.data() + rest.size(), step.index);
            if (failed != std::errc()) {
                return error("expected a name, an index, * or a filter");
            }
            offset_ += static_cast<std::size_t>(end - rest.data());
            step.kind = StepKind::index;
            if (take(":")) {  // a slice: its first item is all that a column shows
                while (peek() == '-' || (peek() >= '0' && peek() <= '9')) {
                    ++offset_;
                }
            }
        }
        if (!take("]")) {
            return error("missing ]");
        }
        return step;
    }

    Result<std::string> quoted() {
        const char quote = text_[offset_++];
        std::string out;
        while (offset_ < text_.size() && peek() != quote) {
            if (peek() == '\\' && offset_ + 1 < text_.size()) {
                ++offset_;
            }
            out += text_[offset_++];
        }
        if (offset_ == text_.size()) {
            return error("unterminated string");
        }
        ++offset_;
        return out;
    }

    Result<Step> filter() {
        Step step;
        step.kind = StepKind::filter;
        skip_blanks();
        if (!take("@")) {
            return error("a filter must start with @");
        }
        CAPSTAN_TRY(step.left, path(true));
        skip_blanks();
        static constexpr std::pair<std::string_view, Compare> kOperators[] = {
            {"==", Compare::equal},
            {"!=", Compare::not_equal},
            {"<=", Compare::less_equal},
            {">=", Compare::greater_equal},
            {"<", Compare::less},
            {">", Compare::greater}};
        for (const auto& [token, compare] : kOperators) {
            if (take(token)) {
                step.compare = compare;
                skip_blanks();
                CAPSTAN_TRY(step.right, literal());
                skip_blanks();
                break;
            }
        }
        if (!take(")]")) {
            return error("missing )]");
        }
        return step;
    }

    Result<json::Value> literal() {
        if (peek() == '\'' || peek() == '"') {
            CAPSTAN_TRY(std::string text, quoted());
            return json::Value(std::move(text));
        }
        const std::size_t end = std::min(text_.find_first_of(" )", offset_), text_.size());
        auto value = json::parse(text_.substr(offset_, end - offset_));
        if (!value) {
            return error("expected a literal");
        }
        offset_ = end;
        return value;
    }

    std::string_view text_;
    std::size_t offset_{0};
};

const json::Value* first(const json::Value& value, const Steps& steps, std::size_t from);

std::optional<int> order(const json::Value& a, const json::Value& b) {
    if (a.is_string() && b.is_string()) {
        return a.if_string()->compare(*b.if_string());
    }
    const auto left = json::View(a).as_real();
    const auto right = json::View(b).as_real();
    if (!left || !right) {
        return std::nullopt;
    }
    return left.value() < right.value() ? -1 : left.value() > right.value() ? 1 : 0;
}

bool passes(const Step& step, const json::Value& item) {
    const json::Value* left = first(item, step.left, 0);
    if (left == nullptr || step.compare == Compare::exists) {
        return left != nullptr;
    }
    if (step.compare == Compare::equal || step.compare == Compare::not_equal) {
        return (*left == step.right) == (step.compare == Compare::equal);
    }
    const std::optional<int> found = order(*left, step.right);
    if (!found) {
        return false;
    }
    switch (step.compare) {
        case Compare::less: return *found < 0;
        case Compare::less_equal: return *found <= 0;
        case Compare::greater: return *found > 0;
        default: return *found >= 0;
    }
}

const json::Value* first_of_all(const json::Value& value,
                                const Step& step,
                                const Steps& steps,
                                std::size_t from) {
    const auto look = [&](const json::Value& item) -> const json::Value* {
        return step.kind == StepKind::filter && !passes(step, item) ? nullptr
                                                                    : first(item, steps, from + 1);
    };
    if (const json::Array* array = value.if_array()) {
        for (const json::Value& item : *array) {
            if (const json::Value* found = look(item)) {
                return found;
            }
        }
    } else if (const json::Object* object = value.if_object()) {
        for (const json::Member& member : *object) {
            if (const json::Value* found = look(member.value)) {
                return found;
            }
        }
    }
    return nullptr;
}

const json::Value* first(const json::Value& value, const Steps& steps, std::size_t from) {
    if (from == steps.size()) {
        return &value;
    }
    const Step& step = steps[from];
    if (step.kind == StepKind::member) {
        const json::Value* member = value.find(step.name);
        return member == nullptr ? nullptr : first(*member, steps, from + 1);
    }
    if (step.kind == StepKind::index) {
        const json::Array* array = value.if_array();
        const std::int64_t size = array == nullptr ? 0 : static_cast<std::int64_t>(array->size());
        const std::int64_t index = step.index < 0 ? size + step.index : step.index;
        return index < 0 || index >= size
                   ? nullptr
                   : first((*array)[static_cast<std::size_t>(index)], steps, from + 1);
    }
    return first_of_all(value, step, steps, from);
}

}  // namespace

Result<const json::Value*> json_path_first(const json::Value& root, std::string_view path) {
    CAPSTAN_TRY(Steps steps, Parser(path).run());
    return first(root, steps, 0);
}

}  // namespace capstan::local
