#include "plugins/steward-bridge/snapshot/delta_writer.hpp"

#include "plugins/steward-bridge/snapshot/record.hpp"
#include "plugins/steward-bridge/stream/base64.hpp"

#include <algorithm>

namespace capstan::steward {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{64} * 1024;
constexpr std::size_t kBase64Piece = std::size_t{48} * 1024;  // a multiple of three and of four

auto refused(const std::string& what) {
    return fail(Code::invalid, "delta: " + what);
}

}  // namespace

DeltaWriter::DeltaWriter(Sink& to, std::int64_t start) : to_(to), start_(start), last_(start - 1) {
    buffer_.reserve(2 * kBufferBytes);
}

Result<void> DeltaWriter::check(const DeltaChange& change) const {
    const std::int64_t revision = change.mod_revision;
    if (finished_) {
        return refused("it is finished");
    }
    if (revision < last_ || (revision == last_ && settled_)) {
        return refused("an event of revision " + std::to_string(revision) + " after revision " +
                       std::to_string(last_) + " was complete");
    }
    if (revision > last_ && revision - last_ > 1) {
        return refused("no events of revision " + std::to_string(last_ + 1) + " before those of " +
                       std::to_string(revision) + "; a full snapshot is needed");
    }
    if (revision > last_ && to_skip_ > 0) {
        return refused("revision " + std::to_string(last_) +
                       " came with fewer events than the first time");
    }
    if (change.key.empty()) {
        return refused("an event of revision " + std::to_string(revision) + " without a key");
    }
    if (change.base64 && !(is_base64(change.key) && is_base64(change.value))) {
        return refused("an event of revision " + std::to_string(revision) + " is not base64");
    }
    return ok();
}

Result<void> DeltaWriter::flush() {
    CAPSTAN_TRY(to_.write({reinterpret_cast<const std::uint8_t*>(buffer_.data()), buffer_.size()}));
    buffer_.clear();
    return ok();
}

Result<void> DeltaWriter::put(std::string_view text) {
    bytes_ += text.size();
    buffer_ += text;
    return buffer_.size() < kBufferBytes ? Result<void>(ok()) : flush();
}

Result<void> DeltaWriter::put_member(std::string_view name, std::int64_t value) {
    if (value == 0) {
        return ok();
    }
    std::string text(name);
    return put(text += std::to_string(value));
}

Result<void> DeltaWriter::put_base64(std::string_view data, bool encoded) {
    while (!data.empty()) {
        const std::string_view piece = data.substr(0, kBase64Piece);
        data.remove_prefix(piece.size());
        if (encoded) {
            CAPSTAN_TRY(put(piece));
            continue;
        }
        const std::size_t before = buffer_.size();
        append_base64(buffer_, piece);
        bytes_ += buffer_.size() - before;
        CAPSTAN_TRY(put({}));
    }
    return ok();
}

Result<void> DeltaWriter::put_key_value(const DeltaChange& change) {
    CAPSTAN_TRY(put(R"("kv":{"key":")"));
    CAPSTAN_TRY(put_base64(change.key, change.base64));
    CAPSTAN_TRY(put("\""));
    CAPSTAN_TRY(put_member(R"(,"create_revision":)", change.create_revision));
    CAPSTAN_TRY(put_member(R"(,"mod_revision":)", change.mod_revision));
    CAPSTAN_TRY(put_member(R"(,"version":)", change.version));
    if (!change.value.empty()) {
        CAPSTAN_TRY(put(R"(,"value":")"));
        CAPSTAN_TRY(put_base64(change.value, change.base64));
        CAPSTAN_TRY(put("\""));
    }
    CAPSTAN_TRY(put_member(R"(,"lease":)", change.lease));
    return put("}");
}

Result<void> DeltaWriter::put_leases(const DeltaChange& change) {
    if (change.leases == nullptr || change.leases->empty()) {
        return ok();
    }
    std::string_view opening = R"(,"leases":[{"ID":)";
    for (const DeltaLease& lease : *change.leases) {
        CAPSTAN_TRY(put(opening));
        CAPSTAN_TRY(put(std::to_string(lease.id)));
        CAPSTAN_TRY(put(R"(,"TTL":)"));
        CAPSTAN_TRY(put(std::to_string(lease.ttl_seconds)));
        opening = R"(},{"ID":)";
    }
    return put("}]");
}

void DeltaWriter::count(const DeltaChange& change) {
    if (change.mod_revision != last_) {
        of_revision_ = 0;
        revision_bytes_ = 0;
    }
    last_ = change.mod_revision;
    settled_ = false;
    ++of_revision_;
    const std::uint64_t size = change.key.size() + change.value.size();
    revision_bytes_ += change.base64 ? size / 4 * 3 : size;
    beyond_other_tools_ = beyond_other_tools_ || of_revision_ > kOthersOperationsMax ||
                          revision_bytes_ > kOthersRevisionBytesMax;
}

Result<void> DeltaWriter::add(const DeltaChange& change) {
    CAPSTAN_TRY(check(change));
    if (change.mod_revision == last_ && to_skip_ > 0) {
        --to_skip_;
        return ok();
    }
    count(change);
    CAPSTAN_TRY(put(events_++ == 0 ? R"([{"etcdEvent":{)" : R"(,{"etcdEvent":{)"));
    if (change.deleted) {
        CAPSTAN_TRY(put(R"("type":1,)"));
    }
    CAPSTAN_TRY(put_key_value(change));
    CAPSTAN_TRY(put(R"(},"time":")"));
    CAPSTAN_TRY(put(to_rfc3339_nano(change.time)));
    CAPSTAN_TRY(put("\""));
    CAPSTAN_TRY(put_leases(change));
    return put("}");
}

std::int64_t DeltaWriter::resume_revision() noexcept {
    if (settled_) {
        return last_ + 1;
    }
    to_skip_ = of_revision_;
    return last_;
}

Result<void> DeltaWriter::finish() {
    if (events_ == 0 || !settled_ || to_skip_ > 0) {
        return refused(events_ == 0 ? "there are no events; nothing is stored for none"
                                    : "revision " + std::to_string(last_) +
                                          " is not complete, and an object never ends inside one");
    }
    finished_ = true;
    CAPSTAN_TRY(put("]"));
    CAPSTAN_TRY(flush());
    return to_.finish();
}

}  // namespace capstan::steward
