// Names of types, and values for the outside.
#include "runtime/local/cel/times.hpp"
#include "runtime/local/cel/value.hpp"

namespace capstan::local::cel {

std::string_view type_name(const Value& value) noexcept {
    if (is_list(value)) {
        return "list";
    }
    if (is_map(value)) {
        return "map";
    }
    if (value.get_if<bool>() != nullptr) {
        return "bool";
    }
    if (value.get_if<std::int64_t>() != nullptr) {
        return "int";
    }
    if (value.get_if<double>() != nullptr) {
        return "double";
    }
    if (value.get_if<Text>() != nullptr) {
        return "string";
    }
    if (value.get_if<Duration>() != nullptr) {
        return "google.protobuf.Duration";
    }
    if (value.get_if<Timestamp>() != nullptr) {
        return "google.protobuf.Timestamp";
    }
    if (value.get_if<TypeName>() != nullptr) {
        return "type";
    }
    if (value.get_if<Optional>() != nullptr) {
        return "optional_type";
    }
    if (value.get_if<std::shared_ptr<const Url>>() != nullptr) {
        return "kubernetes.URL";
    }
    return "null_type";
}

std::string key_text(const Value& key) {
    static constexpr std::size_t kKeyBytesMax = 128;
    const Text* text = key.get_if<Text>();
    if (text != nullptr && text->view.size() <= kKeyBytesMax) {
        return std::string(text->view);
    }
    const std::int64_t* whole = key.get_if<std::int64_t>();
    return whole != nullptr ? std::to_string(*whole) : std::string(type_name(key));
}

json::Value to_json(const Value& value, Meter& meter) {
    if (!meter.spend(1)) {
        return {};
    }
    if (const Input* input = value.get_if<Input>()) {
        return *input->value;
    }
    if (const bool* truth = value.get_if<bool>()) {
        return *truth;
    }
    if (const std::int64_t* number = value.get_if<std::int64_t>()) {
        return *number;
    }
    if (const double* number = value.get_if<double>()) {
        return *number;
    }
    if (const Text* text = value.get_if<Text>()) {
        return meter.spend_text(text->view.size()) ? json::Value(text->view) : json::Value();
    }
    if (const Duration* duration = value.get_if<Duration>()) {
        return duration_text(*duration);
    }
    if (const Timestamp* time = value.get_if<Timestamp>()) {
        return timestamp_text(*time);
    }
    if (const TypeName* type = value.get_if<TypeName>()) {
        return type->name;
    }
    if (const auto* url = value.get_if<std::shared_ptr<const Url>>()) {
        return (*url)->text;
    }
    if (const Optional* optional = value.get_if<Optional>()) {
        return optional->value ? to_json(*optional->value, meter) : json::Value();
    }
    if (is_list(value)) {
        json::Value list = json::list();
        for (std::size_t i = 0; i < list_size(value) && !meter.exceeded(); ++i) {
            list.push_back(to_json(list_item(value, i), meter));
        }
        return list;
    }
    if (is_map(value)) {
        json::Value object = json::object();
        for (std::size_t i = 0; i < map_size(value) && !meter.exceeded(); ++i) {
            const Entry entry = map_entry(value, i);
            const json::Value key = to_json(entry.key, meter);
            object.set(key.is_string() ? *key.if_string() : json::dump(key),
                       to_json(entry.value, meter));
        }
        return object;
    }
    return {};
}

}  // namespace capstan::local::cel
