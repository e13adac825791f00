#include "capstan/json.hpp"

#include <algorithm>
#include <charconv>

namespace capstan::json {
namespace {

const Array kEmptyArray{};
const Object kEmptyObject{};

bool equal_objects(const Object& a, const Object& b) noexcept {
    if (a.size() != b.size()) {
        return false;
    }
    for (std::size_t i = 0; i < a.size(); ++i) {
        const Value* other = nullptr;
        if (b[i].key == a[i].key) {  // the common case: same order
            other = &b[i].value;
        } else {
            const auto found = std::find_if(
                b.begin(), b.end(), [&](const Member& m) { return m.key == a[i].key; });
            if (found == b.end()) {
                return false;
            }
            other = &found->value;
        }
        if (!(a[i].value == *other)) {
            return false;
        }
    }
    return true;
}

// Writes one unescaped reference token to `token`; false when an escape is malformed.
bool unescape_token(std::string_view raw, std::string& token) {
    token.clear();
    for (std::size_t i = 0; i < raw.size(); ++i) {
        if (raw[i] != '~') {
            token += raw[i];
            continue;
        }
        if (i + 1 >= raw.size() || (raw[i + 1] != '0' && raw[i + 1] != '1')) {
            return false;
        }
        token += raw[++i] == '0' ? '~' : '/';
    }
    return true;
}

std::optional<std::size_t> parse_index(std::string_view token) {
    std::size_t index = 0;
    const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), index);
    const bool leading_zero = token.size() > 1 && token[0] == '0';
    if (error != std::errc{} || end != token.data() + token.size() || leading_zero) {
        return std::nullopt;
    }
    return index;
}

}  // namespace

std::string_view to_string(Kind kind) noexcept {
    switch (kind) {
        case Kind::null: return "null";
        case Kind::boolean: return "boolean";
        case Kind::integer: return "integer";
        case Kind::real: return "number";
        case Kind::string: return "string";
        case Kind::array: return "array";
        case Kind::object: return "object";
    }
    return "null";
}

Value::Value(Copied value) : data_(std::string(value.text)) {}
Value::Value(std::initializer_list<Member> members) : data_(Object(members)) {}
Value::Value(const Value& other) = default;
Value::Value(Value&& other) noexcept = default;
Value& Value::operator=(const Value& other) = default;
Value& Value::operator=(Value&& other) noexcept = default;
Value::~Value() = default;

Member::Member(Name member_key, Value&& member_value)
    : key(member_key.text), value(std::move(member_value)) {}
Member::Member(Name member_key, std::initializer_list<Member> members)
    : key(member_key.text), value(Object(members)) {}
Member::Member(const Member& other) = default;
Member::Member(Member&& other) noexcept = default;
Member& Member::operator=(const Member& other) = default;
Member& Member::operator=(Member&& other) noexcept = default;
Member::~Member() = default;

Value object() {
    return Value(Object{});
}

Value list() {
    return Value(Array{});
}

Value list(std::initializer_list<Value> items) {
    return Value(Array(items));
}

Kind Value::kind() const noexcept {
    return static_cast<Kind>(data_.index());
}

const Value* Value::find(std::string_view key) const noexcept {
    if (const Object* members = if_object()) {
        for (const Member& member : *members) {
            if (member.key == key) {
                return &member.value;
            }
        }
    }
    return nullptr;
}

Value* Value::find(std::string_view key) noexcept {
    return const_cast<Value*>(static_cast<const Value*>(this)->find(key));
}

const Value* Value::pointer(std::string_view rfc6901) const noexcept {
    const Value* at = this;
    std::string token;
    while (!rfc6901.empty()) {
        if (rfc6901.front() != '/') {
            return nullptr;
        }
        rfc6901.remove_prefix(1);
        const std::size_t end = std::min(rfc6901.find('/'), rfc6901.size());
        if (!unescape_token(rfc6901.substr(0, end), token)) {
            return nullptr;
        }
        rfc6901.remove_prefix(end);
        if (const Array* items = at->if_array()) {
            const auto index = parse_index(token);
            if (!index || *index >= items->size()) {
                return nullptr;
            }
            at = &(*items)[*index];
        } else if (at = at->find(token); at == nullptr) {
            return nullptr;
        }
    }
    return at;
}

Value* Value::pointer(std::string_view rfc6901) noexcept {
    return const_cast<Value*>(static_cast<const Value*>(this)->pointer(rfc6901));
}

Value& Value::operator[](std::string_view key) {
    if (is_null()) {
        data_ = Object{};
    }
    Object* members = if_object();
    CAPSTAN_CHECK(members != nullptr,
                  "member \"" + std::string(key) + "\" of a " + std::string(to_string(kind())));
    if (Value* found = find(key)) {
        return *found;
    }
    return members->emplace_back(key, Value()).value;
}

Value& Value::operator[](std::size_t index) {
    return const_cast<Value&>(std::as_const(*this)[index]);
}

const Value& Value::operator[](std::size_t index) const {
    const Array* items = if_array();
    CAPSTAN_CHECK(items != nullptr, "item of a " + std::string(to_string(kind())));
    CAPSTAN_CHECK(index < items->size(),
                  "item " + std::to_string(index) + " of " + std::to_string(items->size()));
    return (*items)[index];
}

Value& Value::set(std::string_view key, std::initializer_list<Member> members) {
    return set(key, Value(Object(members)));
}

Value& Value::set(std::string_view key, Value value) {
    (*this)[key] = std::move(value);
    return *this;
}

void Value::push_back(Value value) {
    if (is_null()) {
        data_ = Array{};
    }
    Array* items = if_array();
    CAPSTAN_CHECK(items != nullptr, "push_back on a " + std::string(to_string(kind())));
    items->push_back(std::move(value));
}

bool Value::erase(std::string_view key) {
    Object* members = if_object();
    return members != nullptr &&
           std::erase_if(*members, [&](const Member& m) { return m.key == key; }) > 0;
}

bool operator==(const Value& a, const Value& b) noexcept {
    if (a.data_.index() != b.data_.index()) {
        return false;
    }
    if (const Object* members = a.if_object()) {
        return equal_objects(*members, *b.if_object());
    }
    switch (a.kind()) {
        case Kind::boolean: return *a.if_bool() == *b.if_bool();
        case Kind::integer: return *a.if_int() == *b.if_int();
        case Kind::real: return *a.if_real() == *b.if_real();
        case Kind::string: return *a.if_string() == *b.if_string();
        case Kind::array: return *a.if_array() == *b.if_array();
        default: return true;
    }
}

View::View(const View& parent, Kind expected, const Value* value, std::string path)
    : value_(value), path_(std::move(path)), broken_(parent.broken_) {
    if (!broken_ && parent.present() && parent.value_->kind() != expected) {
        broken_ = parent.wrong_kind(expected);
    }
}

View View::operator[](std::string_view key) const {
    return View(*this,
                Kind::object,
                value_ == nullptr ? nullptr : value_->find(key),
                path_ + "/" + escape_pointer_token(key));
}

View View::operator[](std::size_t index) const {
    const Array* items = value_ == nullptr ? nullptr : value_->if_array();
    const bool inside = items != nullptr && index < items->size();
    return View(*this,
                Kind::array,
                inside ? &(*items)[index] : nullptr,
                path_ + "/" + std::to_string(index));
}

Error View::error(std::string_view what) const {
    return Error{Code::invalid,
                 (path_.empty() ? std::string("document") : path_) + ": " + std::string(what),
                 {}};
}

Error View::wrong_kind(Kind expected) const {
    if (broken_) {
        return *broken_;
    }
    if (!present()) {
        return error("missing");
    }
    return error("expected " + std::string(to_string(expected)) + ", found " +
                 std::string(to_string(value_->kind())));
}

Result<bool> View::as_bool() const {
    const bool* found = value_ == nullptr ? nullptr : value_->if_bool();
    if (found == nullptr) {
        return fail(wrong_kind(Kind::boolean));
    }
    return *found;
}

Result<std::int64_t> View::as_int() const {
    const std::int64_t* found = value_ == nullptr ? nullptr : value_->if_int();
    if (found == nullptr) {
        return fail(wrong_kind(Kind::integer));
    }
    return *found;
}

Result<double> View::as_real() const {
    if (value_ != nullptr && value_->if_int() != nullptr) {
        return static_cast<double>(*value_->if_int());
    }
    const double* found = value_ == nullptr ? nullptr : value_->if_real();
    if (found == nullptr) {
        return fail(wrong_kind(Kind::real));
    }
    return *found;
}

Result<std::string_view> View::as_string() const {
    const std::string* found = value_ == nullptr ? nullptr : value_->if_string();
    if (found == nullptr) {
        return fail(wrong_kind(Kind::string));
    }
    return std::string_view(*found);
}

Result<const Array*> View::as_array() const {
    const Array* found = value_ == nullptr ? nullptr : value_->if_array();
    if (found == nullptr) {
        return fail(wrong_kind(Kind::array));
    }
    return found;
}

Result<std::vector<View>> View::items() const {
    std::vector<View> views;
    if (!present() && !broken_) {
        return views;
    }
    CAPSTAN_TRY(const Array* values, as_array());
    views.reserve(values->size());
    for (std::size_t i = 0; i < values->size(); ++i) {
        views.push_back((*this)[i]);
    }
    return views;
}

Result<const Object*> View::as_object() const {
    const Object* found = value_ == nullptr ? nullptr : value_->if_object();
    if (found == nullptr) {
        return fail(wrong_kind(Kind::object));
    }
    return found;
}

bool View::bool_or(bool fallback) const noexcept {
    const bool* found = value_ == nullptr ? nullptr : value_->if_bool();
    return found == nullptr ? fallback : *found;
}

std::int64_t View::int_or(std::int64_t fallback) const noexcept {
    const std::int64_t* found = value_ == nullptr ? nullptr : value_->if_int();
    return found == nullptr ? fallback : *found;
}

std::string_view View::string_or(std::string_view fallback) const noexcept {
    const std::string* found = value_ == nullptr ? nullptr : value_->if_string();
    return found == nullptr ? fallback : std::string_view(*found);
}

const Array& View::array() const noexcept {
    const Array* found = value_ == nullptr ? nullptr : value_->if_array();
    return found == nullptr ? kEmptyArray : *found;
}

const Object& View::object() const noexcept {
    const Object* found = value_ == nullptr ? nullptr : value_->if_object();
    return found == nullptr ? kEmptyObject : *found;
}

std::string escape_pointer_token(std::string_view token) {
    std::string out;
    out.reserve(token.size());
    for (const char c : token) {
        if (c == '~') {
            out += "~0";
        } else if (c == '/') {
            out += "~1";
        } else {
            out += c;
        }
    }
    return out;
}

}  // namespace capstan::json
