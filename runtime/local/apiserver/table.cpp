#include "runtime/local/apiserver/table.hpp"

#include "runtime/local/apiserver/table_columns.hpp"

namespace capstan::local {

namespace {

struct PrinterColumn {
    std::string path;
    std::string type;
};

// The text of a value in a string column: strings bare, everything else as JSON.
std::string plain(const json::Value& value) {
    return value.is_string() ? *value.if_string() : json::dump(value);
}

json::Value printer_cell(const json::Value& object, const PrinterColumn& column, WallTime now) {
    const auto found = json_path_first(object, column.path);
    const json::Value* value = found ? found.value() : nullptr;
    if (value == nullptr || value->is_null()) {
        return json::Value();
    }
    if (column.type == "integer") {
        const auto number = json::View(*value).as_real();
        return number ? json::Value(static_cast<std::int64_t>(number.value())) : json::Value();
    }
    if (column.type == "number") {
        return json::View(*value).as_real() ? *value : json::Value();
    }
    if (column.type == "boolean") {
        return value->if_bool() != nullptr ? *value : json::Value();
    }
    if (column.type == "date") {
        return value->is_string() && parse_rfc3339(*value->if_string())
                   ? since(*value->if_string(), now)
                   : std::string("<invalid>");
    }
    return plain(*value);
}

json::Value definition(std::string_view name,
                       std::string_view type,
                       std::string_view format,
                       std::string_view text,
                       std::int64_t priority) {
    return {{"name", name},
            {"type", type},
            {"format", format},
            {"description", text},
            {"priority", priority}};
}

json::Value name_definition() {
    return definition("Name", "string", "name", "Name of the object.", 0);
}

// The columns of one answer: either of a builtin kind, or the name and the CRD's.
class Columns {
public:
    Columns(const GroupVersionKind& gvk, const json::Value* printer_columns)
        : builtin_(builtin_columns(gvk)) {
        if (printer_columns != nullptr) {
            for (const json::Value& column : json::View(*printer_columns).array()) {
                add_printer(json::View(column));
            }
        }
        if (builtin_.empty() && printer_.empty()) {
            printer_.push_back({".metadata.creationTimestamp", "date"});
            printer_definitions_.push_back(
                definition("Age", "date", "", "Time since creation.", 0));
        }
    }

    json::Value definitions() const {
        json::Value out = json::list();
        if (!builtin_.empty()) {
            for (const Column& column : builtin_) {
                out.push_back(
                    column.name == std::string_view("Name")
                        ? definition(column.name,
                                     column.type,
                                     "name",
                                     "Name of the object.",
                                     column.priority)
                        : definition(column.name, column.type, "", column.name, column.priority));
            }
            return out;
        }
        out.push_back(name_definition());
        for (const json::Value& column : printer_definitions_) {
            out.push_back(column);
        }
        return out;
    }

    json::Value cells(const json::Value& object, WallTime now) const {
        json::Value out = json::list();
        const json::View view(object);
        for (const Column& column : builtin_) {
            out.push_back(column.cell(view, now));
        }
        if (!builtin_.empty()) {
            return out;
        }
        out.push_back(view["metadata"]["name"].string_or(""));
        for (const PrinterColumn& column : printer_) {
            out.push_back(printer_cell(object, column, now));
        }
        return out;
    }

private:
    void add_printer(const json::View& column) {
        const std::string_view type = column["type"].string_or("string");
        printer_.push_back({std::string(column["jsonPath"].string_or("")), std::string(type)});
        printer_definitions_.push_back(definition(column["name"].string_or(""),
                                                  type,
                                                  column["format"].string_or(""),
                                                  column["description"].string_or(""),
                                                  column["priority"].int_or(0)));
    }

    std::span<const Column> builtin_;
    std::vector<PrinterColumn> printer_;
    std::vector<json::Value> printer_definitions_;
};

json::Value row(const Columns& columns,
                const json::Value& object,
                IncludeObject include,
                WallTime now) {
    json::Value out = {{"cells", columns.cells(object, now)}};
    if (include == IncludeObject::object) {
        out.set("object", object);
    } else if (include == IncludeObject::metadata) {
        const json::Value* metadata = object.find("metadata");
        out.set("object",
                {{"kind", "PartialObjectMetadata"},
                 {"apiVersion", "meta.k8s.io/v1"},
                 {"metadata", metadata == nullptr ? json::object() : *metadata}});
    } else {
        out.set("object", json::Value());
    }
    return out;
}

}  // namespace

IncludeObject parse_include_object(std::string_view text) {
    if (text == "None") {
        return IncludeObject::none;
    }
    return text == "Object" ? IncludeObject::object : IncludeObject::metadata;
}

json::Value to_table(const GroupVersionKind& gvk,
                     const json::Value& list_or_object,
                     const json::Value* printer_columns,
                     IncludeObject include,
                     WallTime now) {
    const Columns columns(gvk, printer_columns);
    const json::Value* items = list_or_object.find("items");
    json::Value metadata = json::object();
    json::Value rows = json::list();
    if (items != nullptr && items->is_array()) {
        if (const json::Value* found = list_or_object.find("metadata")) {
            metadata = *found;
        }
        for (const json::Value& item : *items->if_array()) {
            rows.push_back(row(columns, item, include, now));
        }
    } else {
        if (const json::Value* version = list_or_object.pointer("/metadata/resourceVersion")) {
            metadata.set("resourceVersion", *version);
        }
        rows.push_back(row(columns, list_or_object, include, now));
    }
    return {{"kind", "Table"},
            {"apiVersion", "meta.k8s.io/v1"},
            {"metadata", std::move(metadata)},
            {"columnDefinitions", columns.definitions()},
            {"rows", std::move(rows)}};
}

std::string since(std::string_view text, WallTime now) {
    const auto time = parse_rfc3339(text);
    return time ? age_text(now - *time) : "<unknown>";
}

std::string age_text(std::chrono::nanoseconds age) {
    const std::int64_t seconds = std::chrono::duration_cast<std::chrono::seconds>(age).count();
    const std::int64_t minutes = seconds / 60;
    const std::int64_t hours = minutes / 60;
    const std::int64_t days = hours / 24;
    const auto text = [](std::int64_t major, char unit, std::int64_t minor, char minor_unit) {
        std::string out = std::to_string(major) + unit;
        return minor == 0 ? out : out + std::to_string(minor) + minor_unit;
    };
    if (seconds < -1) {
        return "<invalid>";
    }
    if (seconds < 120) {
        return text(std::max<std::int64_t>(seconds, 0), 's', 0, ' ');
    }
    if (minutes < 180) {
        return text(minutes, 'm', minutes < 10 ? seconds % 60 : 0, 's');
    }
    if (hours < 48) {
        return text(hours, 'h', hours < 8 ? minutes % 60 : 0, 'm');
    }
    if (days < 2 * 365) {
        return text(days, 'd', days < 8 ? hours % 24 : 0, 'h');
    }
    return text(days / 365, 'y', days < 8 * 365 ? days % 365 : 0, 'd');
}

}  // namespace capstan::local
