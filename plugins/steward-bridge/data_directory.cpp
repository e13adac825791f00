#include "plugins/steward-bridge/data_directory.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace capstan::steward {
namespace {

constexpr std::uint32_t kBoltMagic = 0xED0CDAED;
constexpr std::uint32_t kBoltVersion = 2;
constexpr std::size_t kPageHeaderBytes = 16;
// magic, version, pageSize, flags, root(16), freelist, pgid, txid, checksum
constexpr std::size_t kMetaBytes = 64;
constexpr std::uint32_t kPageSizeMin = 1024, kPageSizeMax = 64 * 1024;

struct Meta {
    bool intact{false};
    std::uint32_t page_size{0};
};

std::uint64_t fnv1a(const unsigned char* bytes, std::size_t count) {
    std::uint64_t hash = 0xcbf29ce484222325ULL;
    for (std::size_t i = 0; i < count; ++i) {
        hash = (hash ^ bytes[i]) * 0x100000001b3ULL;
    }
    return hash;
}

Meta read_meta(int fd, off_t offset) {
    std::array<unsigned char, kPageHeaderBytes + kMetaBytes> bytes{};
    if (::pread(fd, bytes.data(), bytes.size(), offset) != static_cast<ssize_t>(bytes.size())) {
        return {};
    }
    const unsigned char* meta = bytes.data() + kPageHeaderBytes;
    std::uint32_t magic = 0, version = 0, page_size = 0;
    std::uint64_t checksum = 0;
    std::memcpy(&magic, meta, 4);
    std::memcpy(&version, meta + 4, 4);
    std::memcpy(&page_size, meta + 8, 4);
    std::memcpy(&checksum, meta + kMetaBytes - 8, 8);
    const bool intact = magic == kBoltMagic && version == kBoltVersion &&
                        page_size >= kPageSizeMin && page_size <= kPageSizeMax &&
                        checksum == fnv1a(meta, kMetaBytes - 8);
    return {intact, page_size};
}

// "" when the database file looks whole, else why not.
std::string check_database(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return path + ": " + std::strerror(errno);
    }
    struct stat info {};
    ::fstat(fd, &info);
    const Meta first = read_meta(fd, 0);
    // Without the first meta page the page size is a guess; bbolt tries the powers of two as well.
    Meta second;
    for (std::uint32_t size = first.intact ? first.page_size : kPageSizeMin;
         size <= kPageSizeMax && !second.intact;
         size *= 2) {
        second = read_meta(fd, static_cast<off_t>(size));
        if (first.intact) {
            break;
        }
    }
    ::close(fd);
    if (!first.intact && !second.intact) {
        return path + ": neither meta page is intact";
    }
    const std::uint32_t page_size = first.intact ? first.page_size : second.page_size;
    if (info.st_size < static_cast<off_t>(page_size) * 4) {
        return path + ": shorter than four pages";
    }
    return {};
}

}  // namespace

DataDirectory inspect_data_directory(const std::string& path) {
    namespace fs = std::filesystem;
    std::error_code error;
    const fs::path member = fs::path(path) / "member";
    if (!fs::exists(member, error)) {
        if (error && error != std::errc::no_such_file_or_directory) {
            return {DataDirectory::State::invalid, member.string() + ": " + error.message()};
        }
        return {DataDirectory::State::missing, {}};
    }
    bool has_wal = false;
    for (fs::directory_iterator at(member / "wal", error), end; !error && at != end;
         at.increment(error)) {
        has_wal = has_wal || at->path().extension() == ".wal";
    }
    const bool has_database = fs::exists(member / "snap" / "db", error);
    if (!has_wal && !has_database) {
        // etcd makes the directories before anything else: a process that died
        // there has stored nothing.
        return {DataDirectory::State::missing, {}};
    }
    if (!has_wal) {
        return {DataDirectory::State::invalid,
                (member / "wal").string() + ": holds no write-ahead log"};
    }
    if (!has_database) {
        return {DataDirectory::State::invalid, (member / "snap" / "db").string() + ": missing"};
    }
    const std::string problem = check_database((member / "snap" / "db").string());
    if (!problem.empty()) {
        return {DataDirectory::State::invalid, problem};
    }
    return {DataDirectory::State::valid, {}};
}

}  // namespace capstan::steward
