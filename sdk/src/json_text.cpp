// JSON text in and out, on RapidJSON.
#include "capstan/json.hpp"

#include <rapidjson/error/en.h>
#include <rapidjson/memorystream.h>
#include <rapidjson/prettywriter.h>
#include <rapidjson/reader.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>

namespace capstan::json {
namespace {

// Objects up to this size are searched for duplicates by comparing; larger ones by hashing.
constexpr std::size_t kLinearMembersMax = 16;

// Builds Values from RapidJSON's events. RapidJSON's iterative parser does not recurse, so the
// depth limit here is what bounds the destructor's recursion.
class Builder {
public:
    explicit Builder(std::size_t depth_max) : depth_max_(depth_max) {}

    bool Null() { return put(Value()); }
    bool Bool(bool value) { return put(Value(value)); }
    bool Int(int value) { return put(Value(value)); }
    bool Uint(unsigned value) { return put(Value(value)); }
    bool Int64(std::int64_t value) { return put(Value(value)); }
    bool Uint64(std::uint64_t value) {
        if (value <= static_cast<std::uint64_t>(INT64_MAX)) {
            return put(Value(static_cast<std::int64_t>(value)));
        }
        return put(Value(static_cast<double>(value)));
    }
    bool Double(double value) { return put(Value(value)); }
    bool RawNumber(const char*, rapidjson::SizeType, bool) { return false; }
    bool String(const char* text, rapidjson::SizeType length, bool) {
        return put(Value(std::string(text, length)));
    }
    bool StartObject() { return open(json::object()); }
    bool StartArray() { return open(json::list()); }
    bool EndArray(rapidjson::SizeType) { return close(); }
    bool EndObject(rapidjson::SizeType) {
        const Object& members = *stack_.back().value.if_object();
        if (members.size() > kLinearMembersMax && has_duplicate(members)) {
            return false;
        }
        return close();
    }
    bool Key(const char* text, rapidjson::SizeType length, bool) {
        const std::string_view key(text, length);
        Frame& frame = stack_.back();
        const Object& members = *frame.value.if_object();
        if (members.size() < kLinearMembersMax) {
            for (const Member& member : members) {
                if (member.key == key) {
                    error_ = "duplicate key \"" + std::string(key.substr(0, 64)) + "\"";
                    return false;
                }
            }
        }
        frame.key = key;
        return true;
    }

    Value take() { return std::move(root_); }
    const std::string& error() const { return error_; }
    bool too_deep() const { return too_deep_; }

private:
    struct Frame {
        Value value;
        std::string key;
    };

    bool open(Value value) {
        if (stack_.size() >= depth_max_) {
            too_deep_ = true;
            return false;
        }
        stack_.push_back(Frame{std::move(value), {}});
        return true;
    }
    bool close() {
        Value value = std::move(stack_.back().value);
        stack_.pop_back();
        return put(std::move(value));
    }
    bool put(Value value) {
        if (stack_.empty()) {
            root_ = std::move(value);
        } else if (Array* items = stack_.back().value.if_array()) {
            items->push_back(std::move(value));
        } else {
            stack_.back().value.if_object()->emplace_back(stack_.back().key, std::move(value));
        }
        return true;
    }
    bool has_duplicate(const Object& members) {
        std::unordered_set<std::string_view> seen;
        seen.reserve(members.size());
        for (const Member& member : members) {
            if (!seen.insert(member.key).second) {
                error_ = "duplicate key \"" + member.key.substr(0, 64) + "\"";
                return true;
            }
        }
        return false;
    }

    std::size_t depth_max_;
    std::vector<Frame> stack_;
    Value root_;
    std::string error_;
    bool too_deep_{false};
};

template <class Writer>
void write(Writer& writer, const Value& value, bool sorted);

template <class Writer>
void write_object(Writer& writer, const Object& members, bool sorted) {
    writer.StartObject();
    if (!sorted) {
        for (const Member& member : members) {
            writer.Key(member.key.data(), static_cast<rapidjson::SizeType>(member.key.size()));
            write(writer, member.value, sorted);
        }
    } else {
        std::vector<const Member*> order;
        order.reserve(members.size());
        for (const Member& member : members) {
            order.push_back(&member);
        }
        std::sort(order.begin(), order.end(), [](const Member* a, const Member* b) {
            return a->key < b->key;
        });
        for (const Member* member : order) {
            writer.Key(member->key.data(), static_cast<rapidjson::SizeType>(member->key.size()));
            write(writer, member->value, sorted);
        }
    }
    writer.EndObject();
}

template <class Writer>
void write(Writer& writer, const Value& value, bool sorted) {
    switch (value.kind()) {
        case Kind::null: writer.Null(); return;
        case Kind::boolean: writer.Bool(*value.if_bool()); return;
        case Kind::integer: writer.Int64(*value.if_int()); return;
        case Kind::real:
            if (std::isfinite(*value.if_real())) {
                writer.Double(*value.if_real());
            } else {
                writer.Null();  // JSON has no NaN; parse() never makes one
            }
            return;
        case Kind::string: {
            const std::string& text = *value.if_string();
            writer.String(text.data(), static_cast<rapidjson::SizeType>(text.size()));
            return;
        }
        case Kind::array:
            writer.StartArray();
            for (const Value& item : *value.if_array()) {
                write(writer, item, sorted);
            }
            writer.EndArray();
            return;
        case Kind::object: write_object(writer, *value.if_object(), sorted); return;
    }
}

std::string compact(const Value& value, bool sorted) {
    rapidjson::StringBuffer buffer;
    rapidjson::Writer<rapidjson::StringBuffer> writer(buffer);
    write(writer, value, sorted);
    return std::string(buffer.GetString(), buffer.GetSize());
}

}  // namespace

Result<Value> parse(std::string_view text, const ParseOptions& options) {
    if (text.size() > options.bytes_max) {
        return fail(Code::too_large,
                    "JSON of " + std::to_string(text.size()) + " bytes is over the limit of " +
                        std::to_string(options.bytes_max));
    }
    constexpr unsigned kFlags =
        rapidjson::kParseIterativeFlag | rapidjson::kParseValidateEncodingFlag;
    Builder builder(options.depth_max);
    rapidjson::MemoryStream memory(text.data(), text.size());
    rapidjson::EncodedInputStream<rapidjson::UTF8<>, rapidjson::MemoryStream> input(memory);
    rapidjson::Reader reader;
    const rapidjson::ParseResult parsed = reader.Parse<kFlags>(input, builder);
    if (parsed) {
        return builder.take();
    }
    if (builder.too_deep()) {
        return fail(Code::too_large,
                    "JSON is nested deeper than " + std::to_string(options.depth_max));
    }
    const std::string& own = builder.error();
    return fail(Code::invalid,
                "offset " + std::to_string(parsed.Offset()) + ": " +
                    (own.empty() ? std::string(rapidjson::GetParseError_En(parsed.Code())) : own));
}

std::string dump(const Value& value) {
    return compact(value, false);
}
std::string dump_sorted(const Value& value) {
    return compact(value, true);
}

std::string dump_pretty(const Value& value) {
    rapidjson::StringBuffer buffer;
    rapidjson::PrettyWriter<rapidjson::StringBuffer> writer(buffer);
    writer.SetIndent(' ', 2);
    write(writer, value, false);
    return std::string(buffer.GetString(), buffer.GetSize());
}

}  // namespace capstan::json
