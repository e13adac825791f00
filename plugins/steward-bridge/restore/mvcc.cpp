#include "plugins/steward-bridge/restore/mvcc.hpp"

#include "plugins/steward-bridge/restore/protobuf.hpp"

namespace capstan::steward::mvcc {
namespace {

std::uint64_t big_endian(std::string_view eight) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < 8; ++i) {
        value = value << 8 | static_cast<std::uint8_t>(eight[i]);
    }
    return value;
}

}  // namespace

std::optional<Revision> decode_revision(std::string_view key) {
    const bool tombstone = key.size() == kRevisionBytes + 1 && key.back() == 't';
    if ((key.size() != kRevisionBytes && !tombstone) || key[8] != '_') {
        return std::nullopt;
    }
    return Revision{static_cast<std::int64_t>(big_endian(key)),
                    static_cast<std::int64_t>(big_endian(key.substr(9))),
                    tombstone};
}

std::string encode_revision(const Revision& revision) {
    std::string key = encode_number(static_cast<std::uint64_t>(revision.main));
    key += '_';
    key += encode_number(static_cast<std::uint64_t>(revision.sub));
    if (revision.tombstone) {
        key += 't';
    }
    return key;
}

std::string encode_number(std::uint64_t value) {
    std::string bytes(8, '\0');
    for (std::size_t i = 0; i < 8; ++i) {
        bytes[i] = static_cast<char>(value >> (56 - 8 * i));
    }
    return bytes;
}

std::optional<std::uint64_t> decode_number(std::string_view bytes) {
    if (bytes.size() != 8) {
        return std::nullopt;
    }
    return big_endian(bytes);
}

Result<KeyValue> decode_key_value(std::string_view message) {
    KeyValue found;
    protobuf::Reader reader(message);
    CAPSTAN_TRY(std::optional<protobuf::Field> field, reader.next());
    while (field) {
        const auto number = static_cast<std::int64_t>(field->value);
        switch (field->number) {
            case 1: found.key = field->bytes; break;
            case 2: found.create_revision = number; break;
            case 3: found.mod_revision = number; break;
            case 4: found.version = number; break;
            case 5: found.value = field->bytes; break;
            case 6: found.lease = number; break;
            default: break;
        }
        CAPSTAN_TRY(field, reader.next());
    }
    return found;
}

void encode_key_value(const KeyValue& from, std::string& to) {
    to.clear();
    protobuf::Writer writer(to);
    writer.bytes(1, from.key);
    writer.number(2, static_cast<std::uint64_t>(from.create_revision));
    writer.number(3, static_cast<std::uint64_t>(from.mod_revision));
    writer.number(4, static_cast<std::uint64_t>(from.version));
    writer.bytes(5, from.value);
    writer.number(6, static_cast<std::uint64_t>(from.lease));
}

std::string encode_lease(const Lease& lease) {
    std::string message;
    protobuf::Writer writer(message);
    writer.number(1, static_cast<std::uint64_t>(lease.id));
    writer.number(2, static_cast<std::uint64_t>(lease.ttl_seconds));
    return message;
}

}  // namespace capstan::steward::mvcc
