#include "plugins/steward-bridge/store/store.hpp"

#include <algorithm>
#include <array>

namespace capstan::steward {
namespace {

constexpr std::string_view kUnfinished = ".capstan-tmp";

auto refused(std::string_view key, const char* why) {
    return fail(Code::invalid,
                "\"" + std::string(key.substr(0, 128)) + "\" is no key of an object: " + why);
}

}  // namespace

Result<void> check_key(std::string_view key) {
    if (key.empty()) {
        return refused(key, "it is empty");
    }
    if (key.size() > kKeyBytesMax) {
        return refused(key, "it is over 1024 bytes");
    }
    if (key.find('\0') != std::string_view::npos) {
        return refused(key, "it holds a zero byte");
    }
    std::size_t start = 0;
    while (start <= key.size()) {
        const std::size_t end = std::min(key.find('/', start), key.size());
        const std::string_view part = key.substr(start, end - start);
        if (part.empty() || part == "." || part == "..") {
            return refused(key, "a part between slashes is empty, \".\" or \"..\"");
        }
        if (start == 0 && part == kUnfinished) {
            return refused(key, "that folder is for unfinished files");
        }
        start = end + 1;
    }
    return ok();
}

Result<std::string> read_object(ObjectStore& store, const ObjectName& name, std::size_t bytes_max) {
    CAPSTAN_TRY(const auto source, store.open(name, 0));
    std::string out;
    std::array<std::uint8_t, 16 * 1024> buffer;
    while (true) {
        CAPSTAN_TRY(const std::size_t n, source->read(buffer));
        if (n == 0) {
            return out;
        }
        if (out.size() + n > bytes_max) {
            return fail(Code::too_large,
                        name.key + " is over " + std::to_string(bytes_max) + " bytes");
        }
        out.append(reinterpret_cast<const char*>(buffer.data()), n);
    }
}

Result<void> write_object(ObjectStore& store, const std::string& key, std::string_view bytes) {
    CreateOptions options;
    options.bytes_about = bytes.size();
    CAPSTAN_TRY(const auto sink, store.create(key, options));
    CAPSTAN_TRY(sink->write({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()}));
    return sink->finish();
}

Result<std::vector<ObjectInfo>> list_all(ObjectStore& store,
                                         std::string_view prefix,
                                         const ListOptions& options) {
    std::vector<ObjectInfo> all;
    const auto collect = [&all](std::span<const ObjectInfo> page) -> Result<bool> {
        all.insert(all.end(), page.begin(), page.end());
        return true;
    };
    CAPSTAN_TRY(store.list(prefix, options, collect));
    return all;
}

}  // namespace capstan::steward
