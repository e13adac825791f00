// JSON text in and out, on RapidJSON.
#include "capstan/json.hpp"

#include <rapidjson/error/en.h>
#include <rapidjson/memorystream.h>
#include <rapidjson/prettywriter.h>
#include <rapidjson/reader.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <unordered_set>

namespace capstan::json {
namespace {

// Objects up to this size are searched for duplicates by comparing; larger ones by hashing.
constexpr std::size_t kLinearMembersMax = 16;

// Length of the UTF-8 sequence at `at` (RFC 3629: no overlong forms, no surrogates, up to
// U+10FFFF); 0: none.
std::size_t sequence_length(const unsigned char* at, std::size_t left) noexcept {
    const auto follows = [&](std::size_t i, unsigned low = 0x80, unsigned high = 0xbf) {
        return i < left && at[i] >= low && at[i] <= high;
    };
    const unsigned lead = at[0];
    if (lead < 0x80) {
        return 1;
    }
    if (lead >= 0xc2 && lead <= 0xdf) {
        return follows(1) ? 2 : 0;
    }
    if (lead >= 0xe0 && lead <= 0xef) {
        const bool second = follows(1, lead == 0xe0 ? 0xa0 : 0x80, lead == 0xed ? 0x9f : 0xbf);
        return second && follows(2) ? 3 : 0;
    }
    if (lead >= 0xf0 && lead <= 0xf4) {
        const bool second = follows(1, lead == 0xf0 ? 0x90 : 0x80, lead == 0xf4 ? 0x8f : 0xbf);
        return second && follows(2) && follows(3) ? 4 : 0;
    }
    return 0;
}

// Whole text at once, eight ASCII bytes at a time: RapidJSON's own check takes a table look-up per
// byte.
bool is_utf8(std::string_view text) noexcept {
    constexpr std::uint64_t kHighBits = 0x8080808080808080u;
    const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
    for (std::size_t i = 0; i < text.size();) {
        std::uint64_t word = 0;
        if (i + sizeof word <= text.size()) {
            std::memcpy(&word, bytes + i, sizeof word);
            if ((word & kHighBits) == 0) {
                i += sizeof word;
                continue;
            }
        }
        const std::size_t length = sequence_length(bytes + i, text.size() - i);
        if (length == 0) {
            return false;
        }
        i += length;
    }
    return true;
}

// Builds Values from RapidJSON's events. RapidJSON's iterative parser does not recurse, so the
// depth limit here is what bounds the destructor's recursion.
class Builder {
public:
    explicit Builder(std::size_t depth_max) : depth_max_(depth_max) {}

    bool Null() { return put(Value()); }
    bool Bool(bool value) { return put(Value(value)); }
    bool Int(int) { return false; }  // numbers come as RawNumber
    bool Uint(unsigned) { return false; }
    bool Int64(std::int64_t) { return false; }
    bool Uint64(std::uint64_t) { return false; }
    bool Double(double) { return false; }
    bool RawNumber(const char* text, rapidjson::SizeType length, bool) {
        const char* end = text + length;
        if (std::find_if(text, end, [](char c) { return c == '.' || c == 'e' || c == 'E'; }) ==
            end) {
            std::int64_t integer = 0;
            if (std::from_chars(text, end, integer).ec == std::errc()) {
                return put(Value(integer));
            }
        }
        double real = 0;
        if (std::from_chars(text, end, real).ec != std::errc()) {
            real = std::strtod(std::string(text, end).c_str(), nullptr);  // too large or too small
        }
        if (!std::isfinite(real)) {
            error_ = "a number that is too large";
            return false;
        }
        return put(Value(real));
    }
    bool String(const char* text, rapidjson::SizeType length, bool) {
        return is_whole({text, length}) && put(Value(std::string(text, length)));
    }
    bool StartObject() { return open(json::object()); }
    bool StartArray() { return open(json::list()); }
    bool EndArray(rapidjson::SizeType) { return close(); }
    bool EndObject(rapidjson::SizeType) {
        const Object& members = *stack_.back().if_object();
        if (members.size() > kLinearMembersMax && has_duplicate(members)) {
            return false;
        }
        return close();
    }
    bool Key(const char* text, rapidjson::SizeType length, bool) {
        const std::string_view key(text, length);
        if (!is_whole(key)) {
            return false;
        }
        Object& members = *stack_.back().if_object();
        if (members.size() < kLinearMembersMax) {
            for (const Member& member : members) {
                if (member.key == key) {
                    error_ = "duplicate key \"" + std::string(key.substr(0, 64)) + "\"";
                    return false;
                }
            }
        }
        make_room(members);
        members.emplace_back(key, Value());  // put() gives it its value
        return true;
    }

    Value take() { return std::move(root_); }
    const std::string& error() const { return error_; }
    bool too_deep() const { return too_deep_; }

private:
    // RapidJSON takes a lone low surrogate, "\udc00", and makes bytes of it that are no UTF-8. The
    // text itself was checked, so only an escape can bring a 0xed that does not stand well.
    bool is_whole(std::string_view text) {
        if (std::memchr(text.data(), 0xed, text.size()) == nullptr || is_utf8(text)) {
            return true;
        }
        error_ = "a surrogate without its pair";
        return false;
    }
    // Most arrays and objects have a few elements: not one allocation for each of the first four.
    template <class Elements>
    static void make_room(Elements& elements) {
        if (elements.capacity() == 0) {
            elements.reserve(4);
        }
    }
    bool open(Value value) {
        if (stack_.size() >= depth_max_) {
            too_deep_ = true;
            return false;
        }
        stack_.push_back(std::move(value));
        return true;
    }
    bool close() {
        Value value = std::move(stack_.back());
        stack_.pop_back();
        return put(std::move(value));
    }
    bool put(Value value) {
        if (stack_.empty()) {
            root_ = std::move(value);
        } else if (Array* items = stack_.back().if_array()) {
            make_room(*items);
            items->push_back(std::move(value));
        } else {
            stack_.back().if_object()->back().value = std::move(value);
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
    std::vector<Value> stack_;  // arrays and objects that are still open
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
    // To RapidJSON it is the end of the text, whatever follows.
    if (const std::size_t zero = text.find('\0'); zero != std::string_view::npos) {
        return fail(Code::invalid, "offset " + std::to_string(zero) + ": a zero byte");
    }
    // RapidJSON skips a byte order mark, also parts of one.
    if (!text.empty() && static_cast<unsigned char>(text[0]) >= 0x80 &&
        !text.starts_with("\xef\xbb\xbf")) {
        return fail(Code::invalid, "offset 0: no value begins like this");
    }
    // RapidJSON's own numbers of many digits may be the neighbour of the nearest double.
    constexpr unsigned kFlags =
        rapidjson::kParseIterativeFlag | rapidjson::kParseNumbersAsStringsFlag;
    Builder builder(options.depth_max);
    rapidjson::MemoryStream memory(text.data(), text.size());
    rapidjson::EncodedInputStream<rapidjson::UTF8<>, rapidjson::MemoryStream> input(memory);
    rapidjson::Reader reader;
    // Text that is no UTF-8 goes the slow way, which says where.
    const rapidjson::ParseResult parsed =
        is_utf8(text)
            ? reader.Parse<kFlags>(input, builder)
            : reader.Parse<kFlags | rapidjson::kParseValidateEncodingFlag>(input, builder);
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
