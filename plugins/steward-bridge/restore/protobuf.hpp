// The protobuf wire format, as far as etcd's files need it: numbers and bytes, field by field.
// Thread: any (values).
#pragma once

#include "capstan/error.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace capstan::steward::protobuf {

// Appends fields to a message. `_always` also writes 0, as fields of proto2 that may not be left
// out are written.
class Writer {
public:
    explicit Writer(std::string& to) : to_(to) {}

    void number(std::uint32_t field, std::uint64_t value);  // nothing for 0
    void number_always(std::uint32_t field, std::uint64_t value);
    void bytes(std::uint32_t field, std::string_view value);  // nothing when empty
    void bytes_always(std::uint32_t field, std::string_view value);

private:
    void varint(std::uint64_t value);
    std::string& to_;
};

struct Field {
    std::uint32_t number{0};
    bool is_bytes{false};
    std::uint64_t value{0};  // varint and fixed alike
    std::string_view bytes;  // borrowed from the message
};

// Walks the fields of a message.
class Reader {
public:
    explicit Reader(std::string_view message) : rest_(message) {}

    // Nothing at the end. Errors: invalid ("cut off", "unknown wire type 3"); final.
    Result<std::optional<Field>> next();

private:
    Result<std::uint64_t> varint();
    std::string_view rest_;
};

}  // namespace capstan::steward::protobuf
