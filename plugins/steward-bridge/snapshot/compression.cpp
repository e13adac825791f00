#include "plugins/steward-bridge/snapshot/compression.hpp"

#include "plugins/steward-bridge/snapshot/damaged.hpp"
#include "plugins/steward-bridge/snapshot/lzw.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <vector>

namespace capstan::steward {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{64} * 1024;
constexpr int kWindowBits = 15;
constexpr int kGzipBits = kWindowBits + 16;  // zlib's way to say: with a gzip header
constexpr int kUnknownSystem = 255;          // of RFC 1952, as existing writers have it
constexpr int kMemoryLevel = 8;              // zlib's default

struct Format {
    Compression compression;
    std::string_view suffix;
    std::string_view policy;
};
constexpr std::array<Format, 4> kFormats{{
    {Compression::none, "", "none"},
    {Compression::gzip, ".gz", "gzip"},
    {Compression::zlib, ".zlib", "zlib"},
    {Compression::lzw, ".Z", "lzw"},
}};

class PlainSource final : public Source {
public:
    explicit PlainSource(Source& from) : from_(from) {}
    Result<std::size_t> read(std::span<std::uint8_t> into) override { return from_.read(into); }

private:
    Source& from_;
};

class PlainSink final : public Sink {
public:
    explicit PlainSink(Sink& to) : to_(to) {}
    Result<void> write(std::span<const std::uint8_t> bytes) override { return to_.write(bytes); }
    Result<void> finish() override { return to_.finish(); }

private:
    Sink& to_;
};

class InflateSource final : public Source {
public:
    InflateSource(Source& from, std::string object, bool gzip)
        : from_(from), object_(std::move(object)), gzip_(gzip), packed_(kBufferBytes) {}
    InflateSource(const InflateSource&) = delete;
    InflateSource& operator=(const InflateSource&) = delete;
    ~InflateSource() override { inflateEnd(&stream_); }

    Result<void> start() {
        if (inflateInit2(&stream_, gzip_ ? kGzipBits : kWindowBits) != Z_OK) {
            return fail(Code::overloaded, object_ + ": no memory to decompress it");
        }
        return ok();
    }

    Result<std::size_t> read(std::span<std::uint8_t> into) override {
        while (true) {
            CAPSTAN_TRY(fill());
            if (between_members_) {
                if (stream_.avail_in == 0) {
                    return std::size_t{0};
                }
                CAPSTAN_TRY(next_member());
            }
            stream_.next_out = into.data();
            stream_.avail_out = static_cast<uInt>(std::min(into.size(), kBufferBytes));
            const uInt room = stream_.avail_out;
            const int outcome = inflate(&stream_, Z_NO_FLUSH);
            const std::size_t produced = room - stream_.avail_out;
            CAPSTAN_TRY(judge(outcome, produced));
            if (produced > 0) {
                return produced;
            }
        }
    }

private:
    Result<void> fill() {
        if (stream_.avail_in > 0 || source_ended_) {
            return ok();
        }
        CAPSTAN_TRY(const std::size_t count, from_.read(packed_));
        source_ended_ = count == 0;
        read_ += count;
        stream_.next_in = packed_.data();
        stream_.avail_in = static_cast<uInt>(count);
        return ok();
    }

    Result<void> next_member() {
        if (!gzip_) {
            return fail(damaged(object_, "bytes follow the end of its zlib stream at " + at()));
        }
        first_member_ = false;
        between_members_ = false;
        inflateReset(&stream_);
        return ok();
    }

    Result<void> judge(int outcome, std::size_t produced) {
        if (outcome == Z_STREAM_END) {
            between_members_ = true;
            return ok();
        }
        if (outcome == Z_MEM_ERROR) {
            return fail(Code::overloaded, object_ + ": no memory to decompress it");
        }
        const std::string stream = gzip_ ? "gzip stream" : "zlib stream";
        if (outcome != Z_OK && outcome != Z_BUF_ERROR) {
            if (!first_member_ && stream_.total_out == 0) {
                return fail(damaged(
                    object_, "bytes that are no gzip member follow the end of its " + stream));
            }
            const std::string why = outcome == Z_NEED_DICT   ? "it needs a dictionary"
                                    : stream_.msg != nullptr ? stream_.msg
                                                             : "invalid data";
            return fail(damaged(object_, "no valid " + stream + " at " + at() + " (" + why + ")"));
        }
        if (produced == 0 && stream_.avail_in == 0 && source_ended_) {
            return fail(damaged(object_,
                                read_ == 0 ? "it is empty (0 bytes)"
                                           : "its " + stream + " ends too early, at " + at()));
        }
        return ok();
    }

    std::string at() const { return "byte " + std::to_string(read_ - stream_.avail_in); }

    Source& from_;
    const std::string object_;
    const bool gzip_;
    std::vector<std::uint8_t> packed_;
    z_stream stream_{};
    std::uint64_t read_{0};
    bool source_ended_{false};
    bool between_members_{false};
    bool first_member_{true};
};

class DeflateSink final : public Sink {
public:
    DeflateSink(Sink& to, bool gzip) : to_(to), gzip_(gzip), packed_(kBufferBytes) {}
    DeflateSink(const DeflateSink&) = delete;
    DeflateSink& operator=(const DeflateSink&) = delete;
    ~DeflateSink() override { deflateEnd(&stream_); }

    Result<void> start() {
        const int bits = gzip_ ? kGzipBits : kWindowBits;
        if (deflateInit2(&stream_,
                         Z_DEFAULT_COMPRESSION,
                         Z_DEFLATED,
                         bits,
                         kMemoryLevel,
                         Z_DEFAULT_STRATEGY) != Z_OK) {
            return fail(Code::overloaded, "no memory to compress");
        }
        header_.os = kUnknownSystem;
        if (gzip_ && deflateSetHeader(&stream_, &header_) != Z_OK) {
            return fail(Code::internal, "zlib takes no gzip header");
        }
        return ok();
    }

    Result<void> write(std::span<const std::uint8_t> bytes) override {
        while (!bytes.empty()) {
            const auto piece = bytes.first(std::min(bytes.size(), kBufferBytes));
            bytes = bytes.subspan(piece.size());
            // zlib reads only; its older declarations lack the const.
            stream_.next_in = const_cast<Bytef*>(piece.data());
            stream_.avail_in = static_cast<uInt>(piece.size());
            CAPSTAN_TRY(drain(Z_NO_FLUSH));
        }
        return ok();
    }

    Result<void> finish() override {
        CAPSTAN_TRY(drain(Z_FINISH));
        return to_.finish();
    }

private:
    // Until all input is taken, or, with Z_FINISH, all output given.
    Result<void> drain(int flush) {
        int outcome = Z_OK;
        do {
            stream_.next_out = packed_.data();
            stream_.avail_out = static_cast<uInt>(packed_.size());
            outcome = deflate(&stream_, flush);
            if (outcome == Z_STREAM_ERROR) {
                return fail(Code::internal, "zlib refused to compress");
            }
            const std::size_t produced = packed_.size() - stream_.avail_out;
            if (produced > 0) {
                CAPSTAN_TRY(to_.write({packed_.data(), produced}));
            }
        } while (flush == Z_FINISH ? outcome != Z_STREAM_END : stream_.avail_out == 0);
        return ok();
    }

    Sink& to_;
    const bool gzip_;
    std::vector<std::uint8_t> packed_;
    z_stream stream_{};
    gz_header header_{};
};

}  // namespace

std::string_view suffix(Compression compression) noexcept {
    return kFormats[static_cast<std::size_t>(compression)].suffix;
}

std::optional<Compression> compression_of_suffix(std::string_view suffix) noexcept {
    for (const Format& format : kFormats) {
        if (format.suffix == suffix) {
            return format.compression;
        }
    }
    return std::nullopt;
}

Result<Compression> compression_of_policy(std::string_view policy) {
    for (const Format& format : kFormats) {
        if (format.policy == policy) {
            return format.compression;
        }
    }
    return fail(Code::invalid,
                "no compression policy \"" + std::string(policy) +
                    "\"; there are gzip, zlib, lzw and none");
}

Result<std::unique_ptr<Source>> decompress(Compression compression,
                                           Source& from,
                                           std::string object) {
    if (compression == Compression::none) {
        return std::unique_ptr<Source>(std::make_unique<PlainSource>(from));
    }
    if (compression == Compression::lzw) {
        return std::unique_ptr<Source>(std::make_unique<LzwSource>(from, std::move(object)));
    }
    const bool gzip = compression == Compression::gzip;
    auto source = std::make_unique<InflateSource>(from, std::move(object), gzip);
    CAPSTAN_TRY(source->start());
    return std::unique_ptr<Source>(std::move(source));
}

Result<std::unique_ptr<Sink>> compress(Compression compression, Sink& to) {
    if (compression == Compression::none) {
        return std::unique_ptr<Sink>(std::make_unique<PlainSink>(to));
    }
    if (compression == Compression::lzw) {
        return std::unique_ptr<Sink>(std::make_unique<LzwSink>(to));
    }
    auto sink = std::make_unique<DeflateSink>(to, compression == Compression::gzip);
    CAPSTAN_TRY(sink->start());
    return std::unique_ptr<Sink>(std::move(sink));
}

}  // namespace capstan::steward
