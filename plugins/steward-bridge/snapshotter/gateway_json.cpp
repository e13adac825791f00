#include "plugins/steward-bridge/snapshotter/gateway_json.hpp"

#include "plugins/steward-bridge/stream/base64.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

namespace capstan::steward {
namespace {

constexpr std::size_t kMessageBytesMax = 512;
// Codes of gRPC.
constexpr std::int64_t kCancelled = 1, kDeadline = 4, kDenied = 7, kExhausted = 8, kRange = 11,
                       kUnauthenticated = 16;

Result<void> append_decoded(std::string_view text, std::string& out) {
    const auto bytes = from_base64(text);
    if (!bytes) {
        return fail(Code::invalid, "etcd's snapshot stream holds text that is no base64");
    }
    out += *bytes;
    return ok();
}

struct SnapshotPiece {
    std::string_view remaining, blob;
};

// A line exactly as every etcd writes it; nullopt: only a parser can tell what this is.
std::optional<SnapshotPiece> plain_piece(std::string_view line) {
    constexpr std::string_view kBegin = "{\"result\":{\"", kMiddle = ":\"", kNext = ",\"";
    SnapshotPiece piece;
    if (!line.starts_with(kBegin) || line.find('\\') != std::string_view::npos) {
        return std::nullopt;
    }
    line.remove_prefix(kBegin.size());
    while (true) {
        const std::string_view name = line.substr(0, line.find('"'));
        line.remove_prefix(std::min(line.size(), name.size() + 1));
        if (!line.starts_with(kMiddle)) {
            return std::nullopt;
        }
        line.remove_prefix(kMiddle.size());
        const std::string_view value = line.substr(0, line.find('"'));
        line.remove_prefix(std::min(line.size(), value.size() + 1));
        std::string_view* const known = name == "blob"              ? &piece.blob
                                        : name == "remaining_bytes" ? &piece.remaining
                                                                    : nullptr;
        if (known == nullptr ? name != "version" : !known->empty()) {
            return std::nullopt;
        }
        if (known != nullptr) {
            *known = value;
        }
        if (line == "}}") {
            return piece;
        }
        if (!line.starts_with(kNext)) {
            return std::nullopt;
        }
        line.remove_prefix(kNext.size());
    }
}

bool read_number(std::string_view text, std::uint64_t& number) {
    number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return text.empty() || (error == std::errc{} && end == text.data() + text.size());
}

}  // namespace

Result<std::int64_t> read_int64(const json::View& view) {
    if (!view.present()) {
        return std::int64_t{0};
    }
    if (const std::int64_t* number = view.value()->if_int()) {
        return *number;
    }
    CAPSTAN_TRY(const std::string_view text, view.as_string());
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) {
        return fail(view.error("not a 64-bit number"));
    }
    return value;
}

Error gateway_error(const json::View& error) {
    const std::string text =
        "etcd: \"" + std::string(error["message"].string_or("")).substr(0, kMessageBytesMax) + "\"";
    switch (error["grpc_code"].int_or(error["code"].int_or(0))) {
        case kCancelled:
        case kDeadline: return {Code::timeout, text, {}};
        case kDenied:
        case kUnauthenticated: return {Code::forbidden, text, {}};
        case kExhausted: return {Code::overloaded, text, {}};
        case kRange: return {Code::expired, text, {}};
        default: return {Code::unavailable, text, {}};
    }
}

Result<void> read_snapshot_line(std::string_view line, std::string& out, std::uint64_t& remaining) {
    // Without a tree, as this is most of the time a snapshot takes.
    const auto piece = plain_piece(line);
    if (piece && !piece->blob.empty() && read_number(piece->remaining, remaining)) {
        return append_decoded(piece->blob, out);
    }
    CAPSTAN_TRY(const json::Value parsed, json::parse(line));
    const json::View root(parsed);
    if (root["error"].present()) {
        return fail(gateway_error(root["error"]));
    }
    CAPSTAN_TRY(const std::int64_t left, read_int64(root["result"]["remaining_bytes"]));
    remaining = static_cast<std::uint64_t>(left);
    CAPSTAN_TRY(const std::string_view blob, root["result"]["blob"].as_string());
    return append_decoded(blob, out);
}

}  // namespace capstan::steward
