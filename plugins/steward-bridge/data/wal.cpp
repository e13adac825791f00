#include "plugins/steward-bridge/data/wal.hpp"

#include "plugins/steward-bridge/restore/crc32c.hpp"
#include "plugins/steward-bridge/restore/protobuf.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>

namespace capstan::steward {
namespace {

namespace fs = std::filesystem;

enum RecordType : std::uint64_t { kMetadata = 1, kEntry = 2, kState = 3, kChecksum = 4, kMark = 5 };

constexpr std::size_t kSectorBytes = 512;
constexpr std::size_t kFrameBytes = 8;

std::span<const std::uint8_t> bytes(std::string_view text) {
    return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

// "%016x-%016x" before `ending`.
bool parse_name(std::string_view name,
                std::string_view ending,
                std::uint64_t& first,
                std::uint64_t& second) {
    if (name.size() != 33 + ending.size() || !name.ends_with(ending) || name[16] != '-') {
        return false;
    }
    const auto number = [&](std::size_t at, std::uint64_t& out) {
        const auto [end, error] = std::from_chars(name.data() + at, name.data() + at + 16, out, 16);
        return error == std::errc{} && end == name.data() + at + 16;
    };
    return number(0, first) && number(17, second);
}

Result<std::vector<std::string>> names_in(const std::string& directory) {
    std::vector<std::string> names;
    std::error_code error;
    for (fs::directory_iterator at(directory, error), end; !error && at != end;
         at.increment(error)) {
        names.push_back(at->path().filename().string());
    }
    if (error) {
        const bool absent = error.value() == ENOENT || error.value() == ENOTDIR;
        return fail(absent ? Code::not_found : Code::unavailable,
                    directory + ": " + error.message());
    }
    return names;
}

// One open file; closes it.
class File {
public:
    explicit File(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
        struct stat info {};
        if (fd_ < 0 || ::fstat(fd_, &info) != 0) {
            error_ = errno;
            return;
        }
        bytes_ = static_cast<std::uint64_t>(info.st_size);
    }
    ~File() {
        if (fd_ >= 0) {
            ::close(fd_);
        }
    }
    File(const File&) = delete;
    File& operator=(const File&) = delete;

    int error() const { return error_; }  // errno of opening it, or 0
    std::uint64_t size() const { return bytes_; }
    // All of it or an error.
    Result<void> read(std::uint64_t offset, std::span<char> into) const {
        std::size_t done = 0;
        while (done < into.size()) {
            const ssize_t count = ::pread(
                fd_, into.data() + done, into.size() - done, static_cast<off_t>(offset + done));
            if (count < 0 && errno == EINTR) {
                continue;
            }
            if (count <= 0) {
                return fail(Code::unavailable, count < 0 ? std::strerror(errno) : "it ends early");
            }
            done += static_cast<std::size_t>(count);
        }
        return ok();
    }

private:
    const int fd_;
    int error_{0};
    std::uint64_t bytes_{0};
};

struct Record {
    std::uint64_t type{0};
    std::uint32_t checksum{0};
    std::string_view data;  // borrowed from the frame
};

Result<Record> decode_record(std::string_view message) {
    Record record;
    protobuf::Reader reader(message);
    CAPSTAN_TRY(std::optional<protobuf::Field> field, reader.next());
    while (field) {
        switch (field->number) {
            case 1: record.type = field->value; break;
            case 2: record.checksum = static_cast<std::uint32_t>(field->value); break;
            case 3: record.data = field->bytes; break;
            default: break;
        }
        CAPSTAN_TRY(field, reader.next());
    }
    return record;
}

// Numbers of the first three fields of a message.
Result<std::array<std::uint64_t, 4>> decode_numbers(std::string_view message) {
    std::array<std::uint64_t, 4> numbers{};
    protobuf::Reader reader(message);
    CAPSTAN_TRY(std::optional<protobuf::Field> field, reader.next());
    while (field) {
        if (field->number < numbers.size() && !field->is_bytes) {
            numbers[field->number] = field->value;
        }
        CAPSTAN_TRY(field, reader.next());
    }
    return numbers;
}

// A sector of zeros inside what was written: the machine stopped before it was on the disk.
bool is_torn(std::string_view frame, std::uint64_t offset) {
    std::size_t at = 0;
    while (at < frame.size()) {
        const std::size_t room =
            kSectorBytes - static_cast<std::size_t>((offset + at) % kSectorBytes);
        const std::string_view sector = frame.substr(at, room);
        if (std::all_of(sector.begin(), sector.end(), [](char c) { return c == '\0'; })) {
            return true;
        }
        at += sector.size();
    }
    return false;
}

// Walks one file after the other under one running checksum.
class Walk {
public:
    explicit Walk(WalFacts& facts) : facts_(facts) {}
    Result<void> file(const std::string& path, bool last);

private:
    Result<bool> frame(const File& file, std::uint64_t& offset, bool last);
    Result<void> take(const Record& record);
    Result<void> take_entry(std::string_view message);

    WalFacts& facts_;
    std::uint32_t sum_{0};
    std::string buffer_;
};

Result<void> Walk::take_entry(std::string_view message) {
    CAPSTAN_TRY(const auto numbers, decode_numbers(message));
    const std::uint64_t index = numbers[3];
    if (index > facts_.last_index + 1 && facts_.last_index > 0) {
        return fail(Code::invalid,
                    "entry " + std::to_string(index) + " follows entry " +
                        std::to_string(facts_.last_index));
    }
    facts_.last_index = index;
    return ok();
}

Result<void> Walk::take(const Record& record) {
    switch (record.type) {
        case kMetadata: {
            CAPSTAN_TRY(const auto numbers, decode_numbers(record.data));
            const bool known = facts_.member_id != 0;
            if (known && (facts_.member_id != numbers[1] || facts_.cluster_id != numbers[2])) {
                return fail(Code::invalid, "two files are of different members");
            }
            facts_.member_id = numbers[1];
            facts_.cluster_id = numbers[2];
            return ok();
        }
        case kEntry: return take_entry(record.data);
        case kState: {
            CAPSTAN_TRY(const auto numbers, decode_numbers(record.data));
            facts_.commit = numbers[3];
            return ok();
        }
        case kMark: {
            CAPSTAN_TRY(const auto numbers, decode_numbers(record.data));
            facts_.marks.push_back({numbers[1], numbers[2]});
            facts_.last_index = std::max(facts_.last_index, numbers[1]);
            return ok();
        }
        default: return fail(Code::invalid, "unknown record type " + std::to_string(record.type));
    }
}

// False: the file ends here.
Result<bool> Walk::frame(const File& file, std::uint64_t& offset, bool last) {
    const std::uint64_t left = file.size() - offset;
    if (left < kFrameBytes) {
        facts_.torn = facts_.torn || left > 0;
        return false;
    }
    std::uint64_t word = 0;
    CAPSTAN_TRY(file.read(offset, {reinterpret_cast<char*>(&word), sizeof word}));
    if (word == 0) {
        return false;  // room that was reserved
    }
    const std::uint64_t size = word & ~(std::uint64_t{0xFF} << 56);
    const std::uint64_t padding = (word >> 63) != 0 ? (word >> 56) & 7 : 0;
    if (size + padding > left - kFrameBytes) {
        if (!last) {
            return fail(Code::invalid, "a record is cut off");
        }
        facts_.torn = true;
        return false;
    }
    if (size > kWalRecordBytesMax) {
        return fail(Code::invalid, "a record of " + std::to_string(size) + " bytes");
    }
    buffer_.resize(size + padding);
    CAPSTAN_TRY(file.read(offset + kFrameBytes, buffer_));
    const auto broken = [&](const std::string& what) -> Result<bool> {
        if (last && is_torn(buffer_, offset + kFrameBytes)) {
            facts_.torn = true;
            return false;
        }
        return fail(Code::invalid, what);
    };
    const auto record = decode_record(std::string_view(buffer_).substr(0, size));
    if (!record) {
        return broken(record.error().message);
    }
    if (record.value().type == kChecksum) {
        if (sum_ != 0 && record.value().checksum != sum_) {
            return broken("its checksum does not continue the file before");
        }
        sum_ = record.value().checksum;
    } else {
        const std::uint32_t sum = crc32c(sum_, bytes(record.value().data));
        if (sum != record.value().checksum) {
            return broken("wrong checksum");
        }
        sum_ = sum;
        CAPSTAN_TRY(take(record.value()));
    }
    offset += kFrameBytes + size + padding;
    return true;
}

Result<void> Walk::file(const std::string& path, bool last) {
    const File file(path);
    if (file.error() != 0) {
        return fail(Code::unavailable, path + ": " + std::strerror(file.error()));
    }
    std::uint64_t offset = 0;
    for (bool more = true; more;) {
        const Result<bool> next = frame(file, offset, last);
        if (!next) {
            return fail(with_context(next.error(), path + " at offset " + std::to_string(offset)));
        }
        more = next.value();
    }
    return ok();
}

}  // namespace

Result<std::vector<WalFile>> list_wal(const std::string& directory) {
    CAPSTAN_TRY(const auto names, names_in(directory));
    std::vector<WalFile> files;
    for (const std::string& name : names) {
        WalFile file{name, 0, 0};
        if (parse_name(name, ".wal", file.sequence, file.first_index)) {
            files.push_back(std::move(file));
        }
    }
    std::sort(files.begin(), files.end(), [](const WalFile& a, const WalFile& b) {
        return a.sequence < b.sequence;
    });
    return files;
}

Result<WalFacts> read_wal(const std::string& directory, std::uint64_t from_index) {
    CAPSTAN_TRY(const auto files, list_wal(directory));
    if (files.empty()) {
        return fail(Code::not_found, directory + ": holds no write-ahead log");
    }
    std::size_t first = 0;
    while (first + 1 < files.size() && files[first + 1].first_index <= from_index) {
        ++first;
    }
    if (files[first].first_index > from_index) {
        return fail(Code::invalid,
                    directory + ": the log begins with entry " +
                        std::to_string(files[first].first_index) + ", entry " +
                        std::to_string(from_index + 1) + " is needed");
    }
    WalFacts facts;
    facts.first_index = files[first].first_index;
    facts.last_index = facts.first_index > 0 ? facts.first_index - 1 : 0;
    Walk walk(facts);
    for (std::size_t i = first; i < files.size(); ++i) {
        if (i > first && files[i].sequence != files[i - 1].sequence + 1) {
            return fail(Code::invalid,
                        directory + ": a file is missing between " + files[i - 1].name + " and " +
                            files[i].name);
        }
        CAPSTAN_TRY(walk.file(directory + "/" + files[i].name, i + 1 == files.size()));
    }
    if (facts.member_id == 0) {
        return fail(Code::invalid,
                    directory + "/" + files[first].name + ": does not say whose log it is");
    }
    return facts;
}

Result<std::vector<SnapFile>> list_snaps(const std::string& directory) {
    CAPSTAN_TRY(const auto names, names_in(directory));
    std::vector<SnapFile> files;
    for (const std::string& name : names) {
        SnapFile file{name, {}};
        if (parse_name(name, ".snap", file.mark.term, file.mark.index)) {
            files.push_back(std::move(file));
        }
    }
    std::sort(files.begin(), files.end(), [](const SnapFile& a, const SnapFile& b) {
        return a.name > b.name;
    });
    return files;
}

Result<void> check_snap(const std::string& directory, const SnapFile& file) {
    const std::string path = directory + "/" + file.name;
    const auto wrong = [&](std::string_view what) {
        return fail(Code::invalid, path + ": " + std::string(what));
    };
    const File opened(path);
    if (opened.error() != 0) {
        return fail(Code::unavailable, path + ": " + std::strerror(opened.error()));
    }
    if (opened.size() == 0 || opened.size() > kSnapFileBytesMax) {
        return wrong(std::to_string(opened.size()) + " bytes");
    }
    std::string content(opened.size(), '\0');
    if (const Result<void> read = opened.read(0, content); !read) {
        return fail(with_context(read.error(), path));
    }
    const auto decode = [&]() -> Result<void> {
        std::uint64_t checksum = 0;
        std::string_view data, metadata;
        protobuf::Reader outer(content);
        CAPSTAN_TRY(std::optional<protobuf::Field> field, outer.next());
        while (field) {
            checksum = field->number == 1 ? field->value : checksum;
            data = field->number == 2 ? field->bytes : data;
            CAPSTAN_TRY(field, outer.next());
        }
        if (data.empty() || checksum != crc32c(0, bytes(data))) {
            return wrong("wrong checksum");
        }
        protobuf::Reader inner(data);
        CAPSTAN_TRY(field, inner.next());
        while (field) {
            metadata = field->number == 2 ? field->bytes : metadata;
            CAPSTAN_TRY(field, inner.next());
        }
        CAPSTAN_TRY(const auto numbers, decode_numbers(metadata));
        if (WalMark{numbers[2], numbers[3]} != file.mark) {
            return wrong("its content is of another index than its name");
        }
        return ok();
    };
    const Result<void> decoded = decode();
    const bool named = decoded || decoded.error().message.find(path) != std::string::npos;
    return named ? decoded : Result<void>(wrong(decoded.error().message));
}

}  // namespace capstan::steward
