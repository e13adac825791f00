// A bbolt database, and what a restore reads in it.
#include "plugins/steward-bridge/bolt/reader.hpp"
#include "plugins/steward-bridge/restore/base.hpp"
#include "plugins/steward-bridge/restore/replay.hpp"
#include "test/fuzz/fuzz.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <string>

namespace capstan::steward {
namespace {

using fuzz::require;

template <class T>
void require_reason(const Result<T>& result) {
    require(result || !result.error().message.empty(), "a refusal says why");
}

void read(const std::string& path) {
    const auto reader = bolt::Reader::open(path);
    require_reason(reader);
    if (!reader) {
        return;
    }
    const auto checked = reader.value()->check();
    require_reason(checked);
    const auto base = read_base(*reader.value());
    require_reason(base);
    if (!base) {
        return;
    }
    Replay replay(nullptr, *reader.value(), base.value(), {});
    const auto added = replay.add_base();
    require_reason(added);
    require(!added || replay.revision() == base.value().revision, "it ends where it says");
}

}  // namespace
}  // namespace capstan::steward

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const int fd = ::memfd_create("database", MFD_CLOEXEC);
    static const std::string path = "/proc/self/fd/" + std::to_string(fd);
    const bool written =
        ::ftruncate(fd, 0) == 0 && ::pwrite(fd, data, size, 0) == static_cast<ssize_t>(size);
    capstan::fuzz::require(written, "the input is in memory");
    capstan::steward::read(path);
    return 0;
}
