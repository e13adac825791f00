#include "runtime/local/apiserver/persistence_record.hpp"

#include "runtime/local/apiserver/persistence.hpp"

#include <boost/crc.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace capstan::local {
namespace {

constexpr std::size_t kHeaderBytes = 8;

std::uint32_t crc32(std::string_view bytes) {
    boost::crc_32_type crc;
    crc.process_bytes(bytes.data(), bytes.size());
    return crc.checksum();
}

void put_u32(std::string& out, std::uint32_t value) {
    for (int shift = 0; shift < 32; shift += 8) {
        out += static_cast<char>((value >> shift) & 0xff);
    }
}

std::uint32_t get_u32(std::string_view bytes) {
    std::uint32_t value = 0;
    for (int i = 3; i >= 0; --i) {
        value = value << 8 | static_cast<unsigned char>(bytes[static_cast<std::size_t>(i)]);
    }
    return value;
}

}  // namespace

void append_record(std::string& out, std::string_view json) {
    put_u32(out, static_cast<std::uint32_t>(json.size()));
    put_u32(out, crc32(json));
    out += json;
}

std::optional<std::string_view> RecordCursor::next() {
    const std::string_view left = bytes.substr(offset);
    if (left.size() < kHeaderBytes) {
        return std::nullopt;
    }
    const std::uint32_t size = get_u32(left);
    if (size > kRecordBytesMax || left.size() - kHeaderBytes < size) {
        return std::nullopt;
    }
    const std::string_view json = left.substr(kHeaderBytes, size);
    if (size == 0 || crc32(json) != get_u32(left.substr(4))) {
        return std::nullopt;
    }
    offset += kHeaderBytes + size;
    return json;
}

std::string change_record(const std::vector<Change>& changes) {
    std::string out = "{\"c\":[";
    for (const Change& change : changes) {
        if (out.back() == '}') {
            out += ',';
        }
        out += "{\"s\":" + json::dump(change.resource) + ",\"k\":" + json::dump(change.key) +
               ",\"v\":" + std::to_string(change.revision);
        if (change.after) {
            out += ",\"o\":" + change.after->text;
        }
        out += '}';
    }
    out += "]}";
    return out;
}

Result<void> replay_record(std::string_view record, Store& store) {
    CAPSTAN_TRY(
        json::Value parsed,
        json::parse(record, {.depth_max = json::kDepthMax + 8, .bytes_max = kRecordBytesMax}));
    json::Value* changes = parsed.find("c");
    json::Array* items = changes == nullptr ? nullptr : changes->if_array();
    if (items == nullptr) {
        return fail(Code::invalid, "record without changes");
    }
    for (json::Value& item : *items) {
        const json::View view(item);
        CAPSTAN_TRY(const std::string_view resource, view["s"].as_string());
        CAPSTAN_TRY(const std::string_view key, view["k"].as_string());
        CAPSTAN_TRY(const std::int64_t revision, view["v"].as_int());
        json::Value* object = item.find("o");
        if (object == nullptr) {
            store.restore_erase(resource, key, static_cast<std::uint64_t>(revision));
        } else if (object->is_object()) {
            store.restore(resource, key, std::move(*object), static_cast<std::uint64_t>(revision));
        } else {
            return fail(Code::invalid, "record without object");
        }
    }
    return ok();
}

Error errno_error(const std::string& what) {
    return Error{
        Code::unavailable, what + ": " + std::strerror(errno), std::chrono::milliseconds{0}};
}

Result<std::string> read_whole_file(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        if (errno == ENOENT) {
            return fail(Code::not_found, path + ": absent");
        }
        return fail(errno_error("open " + path));
    }
    std::string bytes;
    char buffer[64 * 1024];
    while (true) {
        const ssize_t count = ::read(fd, buffer, sizeof buffer);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count < 0) {
            Error error = errno_error("read " + path);
            ::close(fd);
            return fail(std::move(error));
        }
        if (count == 0) {
            break;
        }
        bytes.append(buffer, static_cast<std::size_t>(count));
    }
    ::close(fd);
    return bytes;
}

Result<void> write_all(int fd, std::string_view bytes, const std::string& path) {
    while (!bytes.empty()) {
        const ssize_t count = ::write(fd, bytes.data(), bytes.size());
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count < 0) {
            return fail(errno_error("write " + path));
        }
        bytes.remove_prefix(static_cast<std::size_t>(count));
    }
    return ok();
}

}  // namespace capstan::local
