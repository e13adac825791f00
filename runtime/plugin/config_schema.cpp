#include "runtime/plugin/config_schema.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

namespace capstan::plugin {
namespace {

constexpr std::size_t kDepthMax = 16;     // of a schema
constexpr std::size_t kProblemsMax = 20;  // more are no help

using Problems = std::vector<std::string>;

constexpr std::array<std::string_view, 7> kTypes = {
    "array", "boolean", "integer", "null", "number", "object", "string"};
constexpr std::array<std::string_view, 4> kForPeople = {
    "default", "description", "examples", "title"};

template <class List>
bool contains(const List& list, std::string_view text) {
    return std::find(list.begin(), list.end(), text) != list.end();
}

std::string escaped(std::string_view key) {
    std::string out;
    for (const char c : key) {
        out += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
    }
    return out;
}

void add(Problems& problems, const std::string& at, const std::string& what) {
    if (problems.size() < kProblemsMax) {
        problems.push_back(at + ": " + what);
    }
}

bool is_type(const json::Value& value) {
    const std::string* text = value.if_string();
    return text != nullptr && contains(kTypes, *text);
}

class SchemaCheck {
public:
    explicit SchemaCheck(Problems& problems) : problems_(problems) {}

    void check(const json::Value& schema, const std::string& at, std::size_t depth) {
        const json::Object* members = schema.if_object();
        if (members == nullptr) {
            add(problems_, at, "expected a schema, which is an object");
            return;
        }
        if (depth > kDepthMax) {
            add(problems_, at, "schemas are nested deeper than " + std::to_string(kDepthMax));
            return;
        }
        for (const json::Member& member : *members) {
            check_keyword(member.key, member.value, at + "/" + escaped(member.key), depth);
        }
    }

private:
    void check_keyword(std::string_view key,
                       const json::Value& value,
                       const std::string& at,
                       std::size_t depth) {
        if (contains(kForPeople, key) || key.starts_with("x-")) {
            return;
        }
        if (key == "type") {
            const json::Array* types = value.if_array();
            const bool good = types == nullptr ? is_type(value)
                                               : std::all_of(types->begin(), types->end(), is_type);
            expect(good, at, "expected types of JSON");
        } else if (key == "properties") {
            expect(value.is_object(), at, "expected an object of schemas");
            for (const json::Member& member : json::View(value).object()) {
                check(member.value, at + "/" + escaped(member.key), depth + 1);
            }
        } else if (key == "items") {
            check(value, at, depth + 1);
        } else if (key == "additionalProperties") {
            if (value.if_bool() == nullptr) {
                check(value, at, depth + 1);
            }
        } else if (key == "required") {
            const json::Array* names = value.if_array();
            expect(names != nullptr && std::all_of(names->begin(),
                                                   names->end(),
                                                   [](const json::Value& name) {
                                                       return name.if_string() != nullptr;
                                                   }),
                   at,
                   "expected a list of names");
        } else if (key == "enum") {
            expect(value.if_array() != nullptr, at, "expected a list of values");
        } else if (key == "minimum" || key == "maximum") {
            expect(json::View(value).as_real().has_value(), at, "expected a number");
        } else {
            add(problems_, at, "unknown keyword");
        }
    }
    void expect(bool holds, const std::string& at, const char* what) {
        if (!holds) {
            add(problems_, at, what);
        }
    }

    Problems& problems_;
};

std::string_view type_of(const json::Value& value) {
    switch (value.kind()) {
        case json::Kind::null: return "null";
        case json::Kind::boolean: return "boolean";
        case json::Kind::integer: return "integer";
        case json::Kind::real: return "number";
        case json::Kind::string: return "string";
        case json::Kind::array: return "array";
        case json::Kind::object: return "object";
    }
    return "";
}

bool fits(std::string_view wanted, std::string_view type) {
    return wanted == type || (wanted == "number" && type == "integer");
}

// "string" or "integer or string".
std::string types_text(const json::Value& types) {
    if (const std::string* one = types.if_string()) {
        return *one;
    }
    std::string text;
    for (const json::Value& type : *types.if_array()) {
        text += (text.empty() ? "" : " or ") + *type.if_string();
    }
    return text;
}

bool has_type(const json::Value& types, std::string_view type) {
    if (const std::string* one = types.if_string()) {
        return fits(*one, type);
    }
    const json::Array& several = *types.if_array();
    return std::any_of(several.begin(), several.end(), [&](const json::Value& one) {
        return fits(*one.if_string(), type);
    });
}

class ConfigCheck {
public:
    explicit ConfigCheck(Problems& problems) : problems_(problems) {}

    void check(const json::Value& schema, const json::Value& value, const std::string& at) {
        const std::string_view type = type_of(value);
        if (const json::Value* types = schema.find("type"); types && !has_type(*types, type)) {
            add(problems_, at, "expected " + types_text(*types) + ", found " + std::string(type));
            return;
        }
        check_value(schema, value, at);
        if (value.is_object()) {
            check_members(schema, value, at);
        }
        if (const json::Value* items = schema.find("items"); items && value.if_array()) {
            std::size_t index = 0;
            for (const json::Value& item : *value.if_array()) {
                check(*items, item, at + "/" + std::to_string(index++));
            }
        }
    }

private:
    void check_value(const json::Value& schema, const json::Value& value, const std::string& at) {
        if (const json::Value* choices = schema.find("enum")) {
            const json::Array& allowed = *choices->if_array();
            if (std::find(allowed.begin(), allowed.end(), value) == allowed.end()) {
                add(problems_, at, json::dump(value) + " is none of " + json::dump(*choices));
            }
        }
        const auto number = json::View(value).as_real();
        if (!number) {
            return;
        }
        const json::Value* least = schema.find("minimum");
        if (least && number.value() < json::View(*least).as_real().value()) {
            add(problems_, at, json::dump(value) + " is below " + json::dump(*least));
        }
        const json::Value* most = schema.find("maximum");
        if (most && number.value() > json::View(*most).as_real().value()) {
            add(problems_, at, json::dump(value) + " is above " + json::dump(*most));
        }
    }
    void check_members(const json::Value& schema, const json::Value& value, const std::string& at) {
        const json::Value* properties = schema.find("properties");
        const json::Value* others = schema.find("additionalProperties");
        for (const json::Member& member : *value.if_object()) {
            const json::Value* known = properties ? properties->find(member.key) : nullptr;
            const std::string place = at + "/" + escaped(member.key);
            if (known != nullptr) {
                check(*known, member.value, place);
            } else if (others != nullptr && others->is_object()) {
                check(*others, member.value, place);
            } else if (others != nullptr && !json::View(*others).bool_or(true)) {
                add(problems_, place, "unknown; there " + names(properties));
            }
        }
        for (const json::Value& name : json::View(schema)["required"].array()) {
            if (value.find(*name.if_string()) == nullptr) {
                add(problems_, at, "\"" + *name.if_string() + "\" is missing");
            }
        }
    }
    static std::string names(const json::Value* properties) {
        std::string text;
        if (properties != nullptr) {
            for (const json::Member& member : *properties->if_object()) {
                text += (text.empty() ? "" : ", ") + member.key;
            }
        }
        return text.empty() ? "is no key" : "are " + text;
    }

    Problems& problems_;
};

}  // namespace

std::vector<std::string> schema_problems(const json::Value& schema) {
    Problems problems;
    SchemaCheck(problems).check(schema, "", 0);
    return problems;
}

std::vector<std::string> config_problems(const json::Value& schema, const json::Value& config) {
    Problems problems;
    ConfigCheck(problems).check(schema, config, "");
    return problems;
}

}  // namespace capstan::plugin
