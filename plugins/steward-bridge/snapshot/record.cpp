#include "plugins/steward-bridge/snapshot/record.hpp"

#include "plugins/steward-bridge/snapshot/owner.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <tuple>

namespace capstan::steward {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr std::int64_t kSecondsMax = 7'258'118'400;  // the year 2200; WallTime ends in 2262
constexpr std::string_view kFinal = ".final";
constexpr std::string_view kBackupDir = "Backup-";
constexpr std::array<std::string_view, 3> kLeftovers{".tmp", ".part", ".partial"};
constexpr std::string_view kOwnDir = "capstan", kFenceName = "delta-", kMarkName = "history-";

bool is_digits(std::string_view text) {
    return !text.empty() &&
           std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::optional<std::int64_t> number(std::string_view text) {
    std::int64_t value = 0;
    const bool fits =
        is_digits(text) &&
        std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc{};
    return fits ? std::optional(value) : std::nullopt;
}

// Cuts the part behind the last slash off `path`; the slash stays with neither.
std::string_view take_last(std::string_view& path) {
    const std::size_t slash = path.rfind('/');
    const std::string_view last = path.substr(slash == std::string_view::npos ? 0 : slash + 1);
    path = path.substr(0, slash == std::string_view::npos ? 0 : slash);
    return last;
}

bool begins_as_snapshot(std::string_view name) {
    return name.starts_with("Full-") || name.starts_with("Incr-");
}

auto refused(std::string reason) {
    return fail(Code::invalid, std::move(reason));
}

Result<void> parse_suffixes(std::string_view text, SnapshotRecord& record) {
    record.final = text.ends_with(kFinal);
    const std::string_view packed =
        text.substr(0, text.size() - (record.final ? kFinal.size() : 0));
    const auto compression = compression_of_suffix(packed);
    if (!compression) {
        return refused("its suffix \"" + std::string(text) +
                       "\" is none of .gz, .zlib, .Z, each with or without .final behind it");
    }
    record.compression = *compression;
    return ok();
}

Result<void> parse_name(std::string_view name, SnapshotRecord& record) {
    std::array<std::string_view, 3> fields;  // kind, start, last
    for (std::string_view& field : fields) {
        const std::size_t dash = name.find('-');
        if (dash == std::string_view::npos) {
            return refused("its name is not Kind-Start-Last-Second");
        }
        field = name.substr(0, dash);
        name.remove_prefix(dash + 1);
    }
    if (fields[0] != "Full" && fields[0] != "Incr") {
        return refused("its name begins with neither Full- nor Incr-");
    }
    record.kind = fields[0] == "Full" ? SnapshotKind::full : SnapshotKind::delta;
    const std::size_t dot = std::min(name.find('.'), name.size());
    const auto start = number(fields[1]), last = number(fields[2]),
               second = number(name.substr(0, dot));
    if (!start || !last || !second) {
        return refused("its name holds no three plain numbers after the kind");
    }
    if (*start > *last || (record.kind == SnapshotKind::delta && *start == 0)) {
        return refused("revisions " + std::to_string(*start) + " to " + std::to_string(*last) +
                       " are no range");
    }
    if (record.kind == SnapshotKind::full && *start != 0) {
        return refused("a full begins at revision 0, not at " + std::to_string(*start));
    }
    if (*second > kSecondsMax) {
        return refused("second " + std::to_string(*second) + " is beyond the year 2200");
    }
    record.start_revision = *start;
    record.last_revision = *last;
    record.created = WallTime(seconds(*second));
    return parse_suffixes(name.substr(dot), record);
}

std::optional<Fence> parse_fence(std::string_view key) {
    std::string_view rest = key;
    const std::string_view name = take_last(rest);
    if (!name.starts_with(kFenceName) || take_last(rest) != kOwnDir) {
        return std::nullopt;
    }
    const auto start = number(name.substr(kFenceName.size()));
    return start ? std::optional(Fence{std::string(key), *start}) : std::nullopt;
}

std::optional<HistoryMark> parse_mark(std::string_view key) {
    std::string_view rest = key;
    std::string_view name = take_last(rest);
    if (!name.starts_with(kMarkName) || take_last(rest) != kOwnDir) {
        return std::nullopt;
    }
    name.remove_prefix(kMarkName.size());
    const std::size_t dash = std::min(name.find('-'), name.size());
    const auto revision = number(name.substr(0, dash));
    const auto second = number(name.substr(std::min(dash + 1, name.size())));
    if (!revision || !second || *second > kSecondsMax) {
        return std::nullopt;
    }
    return HistoryMark{std::string(key), *revision, WallTime(seconds(*second)), {}, {}};
}

// What a name promises that is right but for its suffix; no revision in any other.
SkippedKey skipped_key(const std::string& key, std::string reason) {
    SkippedKey skipped{key, std::move(reason)};
    for (const std::string_view leftover : kLeftovers) {
        if (key.ends_with(leftover)) {
            return skipped;
        }
    }
    const std::size_t slash = key.rfind('/');
    const std::size_t dot = key.find('.', slash == std::string::npos ? 0 : slash);
    if (dot == std::string::npos) {
        return skipped;
    }
    if (const auto record = parse_snapshot_key(key.substr(0, dot))) {
        skipped.last_revision = record.value().last_revision;
        skipped.created = record.value().created;
    }
    return skipped;
}

std::string own_key(std::string_view prefix, std::string_view name) {
    std::string key(prefix);
    if (!key.empty() && !key.ends_with('/')) {
        key += '/';
    }
    key += kOwnDir;
    key += '/';
    return key += name;
}

std::string with_width(std::int64_t revision) {
    std::array<char, 24> text{};
    const int size = std::snprintf(text.data(), text.size(), "%08" PRId64, revision);
    return {text.data(), static_cast<std::size_t>(size)};
}

}  // namespace

std::string SnapshotRecord::key() const {
    return prefix + dir + (dir.empty() ? "" : "/") + name;
}

std::string snapshot_name(const SnapshotRecord& record) {
    const auto second = std::chrono::floor<seconds>(record.created.time_since_epoch());
    std::string name = record.kind == SnapshotKind::full ? "Full-" : "Incr-";
    name += with_width(record.start_revision) + "-" + with_width(record.last_revision) + "-";
    name += std::to_string(second.count());
    name += suffix(record.compression);
    name += record.final ? kFinal : "";
    return name;
}

std::string name_of_copy(const SnapshotRecord& record) {
    const std::size_t size = record.name.size() - (record.final ? kFinal.size() : 0);
    return record.name.substr(0, size);
}

Result<SnapshotRecord> parse_snapshot_key(std::string_view key) {
    SnapshotRecord record;
    std::string_view rest = key;
    std::string_view name = take_last(rest);
    if (is_digits(name)) {
        std::string_view above = rest;
        const std::string_view whole = take_last(above);
        record.part = begins_as_snapshot(whole);
        if (record.part) {
            name = whole;
            rest = above;
        }
    }
    CAPSTAN_TRY(parse_name(name, record));
    std::string_view layout = take_last(rest);
    if (layout.starts_with(kBackupDir) && is_digits(layout.substr(kBackupDir.size()))) {
        record.dir = layout;
        layout = take_last(rest);
    }
    if (layout != (record.dir.empty() ? "v2" : "v1")) {
        return refused("it lies neither in a folder v2 nor in v1/Backup-<second>");
    }
    const std::size_t prefix_size =
        static_cast<std::size_t>(layout.data() - key.data()) + layout.size() + 1;
    record.prefix = key.substr(0, prefix_size);
    record.name = key.substr(static_cast<std::size_t>(name.data() - key.data()));
    return record;
}

std::string to_rfc3339_nano(WallTime time) {
    const auto second = std::chrono::floor<seconds>(time);
    std::string text = to_rfc3339(second);
    const std::int64_t fraction = nanoseconds(time - second).count();
    if (fraction == 0) {
        return text;
    }
    std::array<char, 16> digits{};
    std::snprintf(digits.data(), digits.size(), ".%09" PRId64, fraction);
    std::string_view shown(digits.data());
    shown = shown.substr(0, shown.find_last_not_of('0') + 1);
    text.pop_back();
    text += shown;
    return text += 'Z';
}

json::Value to_json(const SnapshotRecord& record) {
    const std::string expiry =
        record.immutable_until ? to_rfc3339_nano(*record.immutable_until) : "0001-01-01T00:00:00Z";
    const json::Value version =
        record.version_id ? json::Value(*record.version_id) : json::Value(nullptr);
    return {
        {"createdOn", to_rfc3339_nano(record.created)},
        {"immutabilityExpriyTime", expiry},  // misspelt since the first reader
        {"versionID", version},
        {"kind", record.kind == SnapshotKind::full ? "Full" : "Incr"},
        {"snapDir", record.dir},
        {"snapName", record.name},
        {"prefix", record.prefix},
        {"compressionSuffix", suffix(record.compression)},
        {"startRevision", record.start_revision},
        {"lastRevision", record.last_revision},
        {"isChunk", record.part},
        {"isFinal", record.final},
    };
}

bool before(const SnapshotRecord& a, const SnapshotRecord& b) {
    const auto rank = [](const SnapshotRecord& one) {
        return std::tuple(one.last_revision, one.part, one.created, one.kind == SnapshotKind::full);
    };
    const auto left = rank(a), right = rank(b);
    return left != right ? left < right : a.key() < b.key();
}

SnapshotListing read_listing(const std::vector<ListedObject>& objects) {
    SnapshotListing listing;
    for (const ListedObject& object : objects) {
        if (auto fence = parse_fence(object.key)) {
            fence->version = object.version_id.value_or(std::string());
            fence->immutable_until = object.immutable_until;
            listing.fences.push_back(std::move(*fence));
            continue;
        }
        if (auto mark = parse_mark(object.key)) {
            mark->version = object.version_id.value_or(std::string());
            mark->immutable_until = object.immutable_until;
            listing.marks.push_back(std::move(*mark));
            continue;
        }
        if (is_owner_key(object.key)) {
            continue;
        }
        auto record = parse_snapshot_key(object.key);
        if (!record) {
            listing.skipped.push_back(skipped_key(object.key, std::move(record).error().message));
            continue;
        }
        record.value().bytes = object.bytes;
        record.value().immutable_until = object.immutable_until;
        record.value().version_id = object.version_id;
        (record.value().part ? listing.parts : listing.snapshots)
            .push_back(std::move(record).value());
    }
    std::sort(listing.snapshots.begin(), listing.snapshots.end(), before);
    std::sort(listing.parts.begin(), listing.parts.end(), before);
    std::sort(listing.marks.begin(), listing.marks.end(), [](const auto& a, const auto& b) {
        return a.since != b.since ? a.since < b.since : a.key < b.key;
    });
    return listing;
}

std::string fence_key(std::string_view prefix, std::int64_t start_revision) {
    return own_key(prefix, std::string(kFenceName) + std::to_string(start_revision));
}

std::string history_key(std::string_view prefix, std::int64_t revision, WallTime since) {
    const auto second = std::chrono::floor<seconds>(since.time_since_epoch());
    return own_key(
        prefix,
        std::string(kMarkName) + std::to_string(revision) + "-" + std::to_string(second.count()));
}

}  // namespace capstan::steward
