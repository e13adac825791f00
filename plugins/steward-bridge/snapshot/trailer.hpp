// The SHA-256 at the end of every snapshot: 32 raw bytes over all that stands before them.
//
// etcd ends its own snapshot stream so; deltas do the same. Compression goes around it.
#pragma once

#include "plugins/steward-bridge/stream/digest.hpp"
#include "plugins/steward-bridge/stream/stream.hpp"

#include "capstan/error.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace capstan::steward {

inline constexpr std::size_t kTrailerBytes = 32;
inline constexpr std::uint64_t kDatabaseSector = 512;  // a database is whole sectors of this size

struct TrailerOptions {
    // A full snapshot: the payload is a database, so size mod 512 is 32 with the trailer.
    bool database{false};
    // The trailer is passed on too, checked: for storing what etcd streams as it is.
    bool keep{false};
};

// The bytes of `from` without (or with) their trailer. The end is only reported once the digest was
// right; until then what was read may be damaged. Memory: 64 KiB.
class TrailerSource final : public Source {
public:
    // `from` is borrowed, `sha256` a fresh one, `object` named in errors.
    TrailerSource(Source& from,
                  std::unique_ptr<Hasher> sha256,
                  std::string object,
                  TrailerOptions options = {});

    // Errors: damaged() when the digest differs, when there is nothing before it, or when the size
    // is not that of a database.
    Result<std::size_t> read(std::span<std::uint8_t> into) override;

    std::uint64_t payload_bytes() const noexcept { return payload_; }  // so far

private:
    Result<void> fill();
    Result<void> check();
    std::size_t take(std::span<std::uint8_t> into, std::size_t count);

    Source& from_;
    std::unique_ptr<Hasher> sha256_;
    const std::string object_;
    const TrailerOptions options_;
    std::vector<std::uint8_t> buffer_;
    std::size_t begin_{0}, end_{0};
    std::uint64_t payload_{0};
    bool source_ended_{false};
    bool checked_{false};
};

// Passes on what is written, adds the trailer at finish() and finishes `to`.
class TrailerSink final : public Sink {
public:
    TrailerSink(Sink& to, std::unique_ptr<Hasher> sha256);  // borrowed; a fresh one

    Result<void> write(std::span<const std::uint8_t> bytes) override;
    Result<void> finish() override;

private:
    Sink& to_;
    std::unique_ptr<Hasher> sha256_;
};

}  // namespace capstan::steward
