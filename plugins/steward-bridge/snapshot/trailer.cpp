#include "plugins/steward-bridge/snapshot/trailer.hpp"

#include "plugins/steward-bridge/snapshot/damaged.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace capstan::steward {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{64} * 1024;

}  // namespace

TrailerSource::TrailerSource(Source& from,
                             std::unique_ptr<Hasher> sha256,
                             std::string object,
                             TrailerOptions options)
    : from_(from),
      sha256_(std::move(sha256)),
      object_(std::move(object)),
      options_(options),
      buffer_(kBufferBytes) {}

// More than a trailer in the buffer, or all there is.
Result<void> TrailerSource::fill() {
    if (end_ - begin_ > kTrailerBytes || source_ended_) {
        return ok();
    }
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
    while (end_ <= kTrailerBytes && !source_ended_) {
        CAPSTAN_TRY(const std::size_t count,
                    from_.read(std::span<std::uint8_t>(buffer_).subspan(end_)));
        source_ended_ = count == 0;
        end_ += count;
    }
    return ok();
}

Result<void> TrailerSource::check() {
    const std::uint64_t size = payload_ + (end_ - begin_);
    if (end_ - begin_ < kTrailerBytes || payload_ == 0) {
        return fail(damaged(
            object_, "its " + std::to_string(size) + " bytes are too few to hold data and digest"));
    }
    if (options_.database && payload_ % kDatabaseSector != 0) {
        return fail(damaged(object_,
                            "its " + std::to_string(size) +
                                " bytes are no database and its digest (size mod 512 is not 32)"));
    }
    CAPSTAN_TRY(const std::string digest, sha256_->finish());
    if (digest.size() != kTrailerBytes ||
        std::memcmp(digest.data(), buffer_.data() + begin_, kTrailerBytes) != 0) {
        return fail(damaged(object_, "its SHA-256 is not that of its contents"));
    }
    checked_ = true;
    return ok();
}

std::size_t TrailerSource::take(std::span<std::uint8_t> into, std::size_t count) {
    const std::size_t taken = std::min(into.size(), count);
    std::memcpy(into.data(), buffer_.data() + begin_, taken);
    begin_ += taken;
    return taken;
}

Result<std::size_t> TrailerSource::read(std::span<std::uint8_t> into) {
    CAPSTAN_TRY(fill());
    const std::size_t held = end_ - begin_;
    if (!checked_ && held > kTrailerBytes) {
        const std::size_t count = take(into, held - kTrailerBytes);
        CAPSTAN_TRY(sha256_->update(into.first(count)));
        payload_ += count;
        return count;
    }
    if (!checked_) {
        CAPSTAN_TRY(check());
    }
    return options_.keep ? take(into, held) : 0;
}

TrailerSink::TrailerSink(Sink& to, std::unique_ptr<Hasher> sha256)
    : to_(to), sha256_(std::move(sha256)) {}

Result<void> TrailerSink::write(std::span<const std::uint8_t> bytes) {
    CAPSTAN_TRY(sha256_->update(bytes));
    return to_.write(bytes);
}

Result<void> TrailerSink::finish() {
    CAPSTAN_TRY(const std::string digest, sha256_->finish());
    CAPSTAN_TRY(to_.write(bytes_of(digest)));
    return to_.finish();
}

}  // namespace capstan::steward
