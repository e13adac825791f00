// A member's write-ahead log and its .snap file: the same bytes as either.
#include "plugins/steward-bridge/data/wal.hpp"
#include "test/fuzz/fuzz.hpp"

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace capstan::steward {
namespace {

using fuzz::require;

constexpr const char* kLog = "/0000000000000000-0000000000000000.wal";
constexpr const char* kSnap = "0000000000000001-0000000000000001.snap";

void write(const std::string& path, std::string_view bytes) {
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    file.close();
    require(file.good(), "the input is in a file");
}

void read(const std::string& directory, std::string_view bytes) {
    write(directory + kLog, bytes);
    const auto log = read_wal(directory, 0);
    require(log || !log.error().message.empty(), "a refusal says why");
    if (log) {
        require(log.value().member_id != 0, "a log says whose it is");
        write(directory + kLog, std::string(bytes) + std::string(4096, '\0'));
        const auto longer = read_wal(directory, 0);
        require(longer.has_value() || bytes.size() % 8 != 0, "room behind the end changes nothing");
        require(
            !longer || bytes.size() % 8 != 0 || longer.value().last_index == log.value().last_index,
            "room behind the end adds nothing");
    }
    write(directory + "/" + kSnap, bytes);
    const auto snap = check_snap(directory, {kSnap, {1, 1}});
    require(snap || !snap.error().message.empty(), "a refusal says why");
}

// Goes with the process.
struct Directory {
    Directory() { require(::mkdtemp(path.data()) != nullptr, "there is a directory"); }
    ~Directory() { std::filesystem::remove_all(path); }
    std::string path{"/dev/shm/capstan-wal-XXXXXX"};
};

}  // namespace
}  // namespace capstan::steward

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const capstan::steward::Directory directory;
    capstan::steward::read(directory.path, {reinterpret_cast<const char*>(data), size});
    return 0;
}
