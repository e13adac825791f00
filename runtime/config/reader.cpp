#include "runtime/config/reader.hpp"

#include "capstan/clock.hpp"

#include <algorithm>

namespace capstan::config {

namespace {

std::string quoted(std::string_view text) {
    return "\"" + std::string(text.substr(0, 128)) + "\"";
}

std::string show(std::chrono::nanoseconds value) {
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(value).count();
    return ms % 1000 == 0 ? std::to_string(ms / 1000) + "s" : std::to_string(ms) + "ms";
}

// "string "80"", "integer 15", "array".
std::string with_value(const json::Value& found) {
    std::string text(json::to_string(found.kind()));
    if (const std::string* string = found.if_string()) {
        return text + " " + quoted(*string);
    }
    const bool scalar = !found.is_object() && !found.is_array() && !found.is_null();
    return scalar ? text + " " + json::dump(found) : text;
}

const json::Value kEmpty = json::object();  // "name:" alone means all defaults
const json::Value kAnyItem = json::list({json::object()});
const json::Value kAnyName = {{"NAME", nullptr}};

}  // namespace

Reader::Reader(const json::Value& value, std::string path, Problems& problems)
    : value_(value), path_(std::move(path)), problems_(problems) {
    if (!value.is_object()) {
        problems_.add(path_,
                      "expected an object, found " + std::string(json::to_string(value.kind())));
    }
}

std::string Reader::path_of(std::string_view key) const {
    return key.empty() ? path_ : path_ + "/" + json::escape_pointer_token(key);
}

bool Reader::has(std::string_view key) const noexcept {
    const json::Value* found = value_.find(key);
    return found != nullptr && !found->is_null();
}

const json::Value* Reader::take(std::string_view key, std::string_view type) {
    known_.emplace_back(key);
    if (problems_.shapes() != nullptr) {
        problems_.shapes()->push_back({path_of(key), std::string(type)});
    }
    const json::Value* found = value_.find(key);
    return found != nullptr && !found->is_null() ? found : nullptr;
}

void Reader::problem(std::string_view key, std::string_view what) {
    problems_.add(path_of(key), what);
}

void Reader::wrong_type(std::string_view key, std::string_view expected, const json::Value& found) {
    problem(key, "expected " + std::string(expected) + ", found " + with_value(found));
}

void Reader::text(std::string_view key, std::string& out) {
    const json::Value* found = take(key, "text");
    if (found == nullptr) {
        return;
    }
    if (const std::string* text = found->if_string()) {
        out = *text;
    } else {
        wrong_type(key, "text", *found);
    }
}

void Reader::choice(std::string_view key,
                    std::string& out,
                    std::initializer_list<std::string_view> allowed) {
    std::string list;
    for (const std::string_view word : allowed) {
        list += (list.empty() ? "" : ", ") + std::string(word);
    }
    const json::Value* found = take(key, "one of: " + list);
    if (found == nullptr) {
        return;
    }
    const std::string* text = found->if_string();
    if (text == nullptr) {
        return wrong_type(key, "text", *found);
    }
    if (std::find(allowed.begin(), allowed.end(), *text) != allowed.end()) {
        out = *text;
        return;
    }
    problem(key, quoted(*text) + " is none of " + list);
}

void Reader::boolean(std::string_view key, bool& out) {
    const json::Value* found = take(key, "true or false");
    if (found == nullptr) {
        return;
    }
    if (const bool* value = found->if_bool()) {
        out = *value;
    } else {
        wrong_type(key, "true or false", *found);
    }
}

void Reader::integer(std::string_view key,
                     std::int64_t min,
                     std::int64_t max,
                     const std::function<void(std::int64_t)>& take_value) {
    const std::string range = std::to_string(min) + " to " + std::to_string(max);
    const json::Value* found = take(key, "integer, " + range);
    if (found == nullptr) {
        return;
    }
    const std::int64_t* value = found->if_int();
    if (value == nullptr) {
        return wrong_type(key, "integer from " + range, *found);
    }
    if (*value < min || *value > max) {
        return problem(key,
                       std::to_string(*value) + " is not between " + std::to_string(min) + " and " +
                           std::to_string(max));
    }
    take_value(*value);
}

void Reader::duration(std::string_view key,
                      std::chrono::nanoseconds& out,
                      std::chrono::nanoseconds min,
                      std::chrono::nanoseconds max) {
    const std::string range = show(min) + " to " + show(max);
    const json::Value* found = take(key, "duration, " + range);
    if (found == nullptr) {
        return;
    }
    std::chrono::nanoseconds value{0};
    std::string given = "0";
    if (const std::string* text = found->if_string()) {
        const auto parsed = parse_duration(*text);
        if (!parsed || text->empty()) {
            return problem(
                key, quoted(*text) + " is no duration; write 15s, 1m30s or 250ms, from " + range);
        }
        value = *parsed;
        given = *text;
    } else if (const std::int64_t* number = found->if_int(); number == nullptr || *number != 0) {
        return wrong_type(key, "a duration with unit such as \"15s\", from " + range, *found);
    }
    if (value < min || value > max) {
        return problem(key, given + " is not between " + show(min) + " and " + show(max));
    }
    out = value;
}

void Reader::texts(std::string_view key, std::vector<std::string>& out) {
    const json::Value* found = take(key, "list of texts");
    if (found == nullptr) {
        return;
    }
    const json::Array* items = found->if_array();
    if (items == nullptr) {
        return wrong_type(key, "a list of texts", *found);
    }
    std::vector<std::string> result;
    for (std::size_t i = 0; i < items->size(); ++i) {
        if (const std::string* text = (*items)[i].if_string()) {
            result.push_back(*text);
        } else {
            problems_.add(path_of(key) + "/" + std::to_string(i),
                          "expected text, found " + with_value((*items)[i]));
        }
    }
    out = std::move(result);
}

void Reader::free(std::string_view key, json::Value& out) {
    const json::Value* found = take(key, "object");
    if (found == nullptr) {
        return;
    }
    if (!found->is_object()) {
        return wrong_type(key, "an object", *found);
    }
    out = *found;
}

void Reader::object(std::string_view key, const std::function<void(Reader&)>& read) {
    const json::Value* found = take(key, "object");
    if (found == nullptr && problems_.shapes() != nullptr) {
        found = &kEmpty;
    }
    if (found == nullptr) {
        return;
    }
    if (!found->is_object()) {
        return wrong_type(key, "an object", *found);
    }
    Reader nested(*found, path_of(key), problems_);
    read(nested);
    nested.finish();
}

void Reader::each(std::string_view key,
                  const std::function<void(const std::string&, Reader&)>& read) {
    const json::Value* found = take(key, "object by name");
    if (found == nullptr && problems_.shapes() != nullptr) {
        found = &kAnyName;
    }
    if (found == nullptr) {
        return;
    }
    const json::Object* members = found->if_object();
    if (members == nullptr) {
        return wrong_type(key, "an object", *found);
    }
    for (const auto& [name, value] : *members) {
        Reader nested(value.is_null() ? kEmpty : value,
                      path_of(key) + "/" + json::escape_pointer_token(name),
                      problems_);
        read(name, nested);
        nested.finish();
    }
}

void Reader::list(std::string_view key, const std::function<void(Reader&)>& read) {
    const json::Value* found = take(key, "list of objects");
    const bool recorded = found == nullptr && problems_.shapes() != nullptr;
    if (recorded) {
        found = &kAnyItem;
    }
    if (found == nullptr) {
        return;
    }
    const json::Array* items = found->if_array();
    if (items == nullptr) {
        return wrong_type(key, "a list", *found);
    }
    for (std::size_t i = 0; i < items->size(); ++i) {
        const std::string item = recorded ? "ITEM" : std::to_string(i);
        Reader nested((*items)[i], path_of(key) + "/" + item, problems_);
        read(nested);
        nested.finish();
    }
}

void Reader::switches(std::string_view key,
                      const std::function<void(const std::string&, bool)>& take_switch) {
    const json::Value* found = take(key, "true or false by name");
    if (found == nullptr) {
        return;
    }
    const json::Object* members = found->if_object();
    if (members == nullptr) {
        return wrong_type(key, "an object", *found);
    }
    for (const auto& [name, value] : *members) {
        if (const bool* on = value.if_bool()) {
            take_switch(name, *on);
        } else {
            problems_.add(path_of(key) + "/" + json::escape_pointer_token(name),
                          "expected true or false, found " + with_value(value));
        }
    }
}

void Reader::require(std::string_view key) {
    const json::Value* found = value_.find(key);
    const bool empty =
        found == nullptr || found->is_null() || (found->is_string() && found->if_string()->empty());
    if (empty && value_.is_object() && !problems_.partial()) {
        problem("", "missing \"" + std::string(key) + "\"");
    }
}

void Reader::finish() {
    const json::Object* members = value_.if_object();
    if (members == nullptr) {
        return;
    }
    const std::vector<std::string_view> known(known_.begin(), known_.end());
    for (const auto& [key, value] : *members) {
        if (std::find(known.begin(), known.end(), key) != known.end()) {
            continue;
        }
        const std::string_view close = nearest(key, known);
        std::string what = "unknown key " + quoted(key);
        if (!close.empty()) {
            what += ", did you mean " + quoted(close) + "?";
        }
        problems_.add(path_of(key), what);
    }
}

}  // namespace capstan::config
