// For tests: the snapshots below a directory.
#pragma once

#include "plugins/steward-bridge/bolt/new_file.hpp"
#include "plugins/steward-bridge/restore/restoration.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace capstan::steward {

class DirectoryObjects final : public SnapshotObjects {
public:
    explicit DirectoryObjects(std::string root) : root_(std::move(root)) {}

    Result<SnapshotListing> list() const {
        namespace fs = std::filesystem;
        std::vector<ListedObject> objects;
        for (const auto& entry : fs::recursive_directory_iterator(root_)) {
            if (entry.is_regular_file()) {
                objects.push_back(
                    {fs::relative(entry.path(), root_).string(), entry.file_size(), {}, {}});
            }
        }
        return read_listing(objects);
    }

    Result<std::unique_ptr<Source>> open(const SnapshotRecord& record) override {
        auto source = std::make_unique<StreamSource>(root_ + "/" + record.key());
        if (!source->stream) {
            return fail(Code::unavailable, std::strerror(errno));
        }
        opened.push_back(record.name);
        return std::unique_ptr<Source>(std::move(source));
    }

    std::vector<std::string> opened;

private:
    struct StreamSource final : Source {
        explicit StreamSource(const std::string& path) : stream(path, std::ios::binary) {}
        Result<std::size_t> read(std::span<std::uint8_t> into) override {
            stream.read(reinterpret_cast<char*>(into.data()),
                        static_cast<std::streamsize>(into.size()));
            return static_cast<std::size_t>(stream.gcount());
        }
        std::ifstream stream;
    };

    const std::string root_;
};

}  // namespace capstan::steward
