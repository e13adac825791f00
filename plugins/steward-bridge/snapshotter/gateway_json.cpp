#include "plugins/steward-bridge/snapshotter/gateway_json.hpp"

#include "plugins/steward-bridge/stream/base64.hpp"

#include <charconv>

namespace capstan::steward {
namespace {

constexpr std::size_t kMessageBytesMax = 512;
constexpr std::string_view kBlob = "\"blob\":\"";
constexpr std::string_view kRemaining = "\"remaining_bytes\":\"";

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

// The text behind `name` up to its closing quote; base64 and digits have no escapes.
std::string_view quoted_after(std::string_view line, std::string_view name) {
    const std::size_t at = line.find(name);
    if (at == std::string_view::npos) {
        return {};
    }
    const std::size_t begin = at + name.size();
    const std::size_t end = line.find('"', begin);
    return end == std::string_view::npos ? std::string_view() : line.substr(begin, end - begin);
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
    // As every etcd writes it: found without a tree, as this is most of the time a snapshot takes.
    if (line.starts_with("{\"result\":{") && line.find('\\') == std::string_view::npos) {
        const std::string_view left = quoted_after(line, kRemaining);
        remaining = 0;
        std::from_chars(left.data(), left.data() + left.size(), remaining);
        return append_decoded(quoted_after(line, kBlob), out);
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
