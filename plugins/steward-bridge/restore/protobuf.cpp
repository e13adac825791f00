#include "plugins/steward-bridge/restore/protobuf.hpp"

namespace capstan::steward::protobuf {
namespace {

enum WireType : std::uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

auto cut_off() {
    return fail(Code::invalid, "the message is cut off");
}

}  // namespace

void Writer::varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) {
        to_ += static_cast<char>(value | 0x80);
    }
    to_ += static_cast<char>(value);
}

void Writer::number(std::uint32_t field, std::uint64_t value) {
    if (value != 0) {
        number_always(field, value);
    }
}

void Writer::number_always(std::uint32_t field, std::uint64_t value) {
    varint(std::uint64_t{field} << 3 | kVarint);
    varint(value);
}

void Writer::bytes(std::uint32_t field, std::string_view value) {
    if (!value.empty()) {
        bytes_always(field, value);
    }
}

void Writer::bytes_always(std::uint32_t field, std::string_view value) {
    varint(std::uint64_t{field} << 3 | kBytes);
    varint(value.size());
    to_ += value;
}

Result<std::uint64_t> Reader::varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 70 && !rest_.empty(); shift += 7) {
        const auto byte = static_cast<std::uint8_t>(rest_.front());
        rest_.remove_prefix(1);
        if (shift < 64) {
            value |= std::uint64_t{byte & 0x7Fu} << shift;
        }
        if ((byte & 0x80) == 0) {
            return value;
        }
    }
    return cut_off();
}

Result<std::optional<Field>> Reader::next() {
    if (rest_.empty()) {
        return std::optional<Field>{};
    }
    CAPSTAN_TRY(const std::uint64_t tag, varint());
    Field field;
    field.number = static_cast<std::uint32_t>(tag >> 3);
    const auto type = static_cast<std::uint32_t>(tag & 7);
    if (type == kVarint) {
        CAPSTAN_TRY(field.value, varint());
        return std::optional<Field>(field);
    }
    std::uint64_t size = type == kFixed64 ? 8 : 4;
    if (type == kBytes) {
        CAPSTAN_TRY(size, varint());
        field.is_bytes = true;
    } else if (type != kFixed64 && type != kFixed32) {
        return fail(Code::invalid, "unknown wire type " + std::to_string(type));
    }
    if (size > rest_.size()) {
        return cut_off();
    }
    field.bytes = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return std::optional<Field>(field);
}

}  // namespace capstan::steward::protobuf
