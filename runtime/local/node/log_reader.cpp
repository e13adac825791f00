#include "runtime/local/node/log_reader.hpp"

#include "runtime/local/node/files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>

namespace capstan::local {
namespace {

class File {
public:
    explicit File(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
    ~File() {
        if (fd_ >= 0) {
            ::close(fd_);
        }
    }
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    bool open() const { return fd_ >= 0; }
    std::uint64_t size() const {
        struct stat info {};
        return ::fstat(fd_, &info) == 0 ? static_cast<std::uint64_t>(info.st_size) : 0;
    }
    std::string read(std::uint64_t from, std::size_t bytes) const {
        std::string out(bytes, '\0');
        std::size_t have = 0;
        while (have < bytes) {
            const auto n =
                ::pread(fd_, out.data() + have, bytes - have, static_cast<off_t>(from + have));
            if (n <= 0) {
                break;
            }
            have += static_cast<std::size_t>(n);
        }
        out.resize(have);
        return out;
    }

private:
    int fd_;
};

// Where the last `lines` lines begin.
std::uint64_t tail_offset(const File& file, std::uint64_t size, std::int64_t lines) {
    constexpr std::size_t kBlock = 64 * 1024;
    if (lines <= 0) {
        return size;
    }
    std::uint64_t end = size;
    while (end > 0) {
        const auto begin = end > kBlock ? end - kBlock : 0;
        const auto block = file.read(begin, static_cast<std::size_t>(end - begin));
        for (std::size_t i = block.size(); i > 0; --i) {
            const bool last_byte = begin + i == size;
            if (block[i - 1] == '\n' && !last_byte && --lines == 0) {
                return begin + i;
            }
        }
        end = begin;
    }
    return 0;
}

class Follow final : public LogFollow {
public:
    Follow(net::Loop& loop,
           std::string path,
           std::uint64_t from,
           std::function<bool()> ended,
           std::function<void(std::string_view)> on_data,
           std::function<void()> on_end)
        : loop_(loop),
          path_(std::move(path)),
          at_(from),
          ended_(std::move(ended)),
          on_data_(std::move(on_data)),
          on_end_(std::move(on_end)) {
        wait();
    }

private:
    void wait() {
        timer_ = loop_.at(loop_.now() + kLogFollowPeriod, [this] { look(); });
    }
    void look() {
        const bool last = ended_();  // asked before reading: nothing is written after it
        const File file(path_);
        if (file.open()) {
            const auto size = file.size();
            at_ = size < at_ ? 0 : at_;  // the log was cut
            const auto text = file.read(
                at_, static_cast<std::size_t>(std::min<std::uint64_t>(size - at_, 1024 * 1024)));
            at_ += text.size();
            wait();
            if (!text.empty()) {
                on_data_(text);  // may destroy *this
                return;
            }
        } else {
            wait();
        }
        if (last) {
            timer_.reset();
            const auto on_end = std::move(on_end_);
            on_end();
        }
    }

    net::Loop& loop_;
    const std::string path_;
    std::uint64_t at_;
    const std::function<bool()> ended_;
    const std::function<void(std::string_view)> on_data_;
    std::function<void()> on_end_;
    std::unique_ptr<net::Timer> timer_;
};

}  // namespace

Result<LogPart> read_log_file(const std::string& path,
                              std::optional<std::int64_t> tail_lines,
                              std::optional<std::int64_t> limit_bytes) {
    const File file(path);
    if (!file.open()) {
        return fail(file_error("read log", path, errno));
    }
    const auto size = file.size();
    auto from = tail_lines ? tail_offset(file, size, *tail_lines) : 0;
    from = std::max(from, size > kLogAnswerBytesMax ? size - kLogAnswerBytesMax : 0);
    LogPart part;
    part.text = file.read(from, static_cast<std::size_t>(size - from));
    part.end = from + part.text.size();
    if (limit_bytes && *limit_bytes >= 0 &&
        part.text.size() > static_cast<std::size_t>(*limit_bytes)) {
        part.text.resize(static_cast<std::size_t>(*limit_bytes));
    }
    return part;
}

std::unique_ptr<LogFollow> follow_log_file(net::Loop& loop,
                                           std::string path,
                                           std::uint64_t from,
                                           std::function<bool()> ended,
                                           std::function<void(std::string_view)> on_data,
                                           std::function<void()> on_end) {
    return std::make_unique<Follow>(
        loop, std::move(path), from, std::move(ended), std::move(on_data), std::move(on_end));
}

}  // namespace capstan::local
