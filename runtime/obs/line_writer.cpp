#include "runtime/obs/line_writer.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace capstan::obs {
namespace {

// True when a write of kPieceBytesMax does not block. One that fails does not block either.
bool has_room(int fd, std::chrono::milliseconds limit) {
    const auto until = std::chrono::steady_clock::now() + limit;
    for (;;) {
        const auto left =
            std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
        pollfd entry{fd, POLLOUT, 0};
        const int ready =
            ::poll(&entry, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
        if (ready >= 0 || errno != EINTR) {
            return ready > 0;
        }
    }
}

}  // namespace

void LineWriter::write(std::string_view line) {
    drain({});
    tell();
    if (dropped_ != 0 || waiting_.size() + line.size() + 1 > kWaitingBytesMax) {
        ++dropped_;
        return;
    }
    waiting_.append(line).append(1, '\n');
    drain({});
}

void LineWriter::flush(std::chrono::milliseconds limit) {
    drain(limit);
    tell();
    drain({});
}

// Once half of the room is free: not a line dropped and a line told in turns.
void LineWriter::tell() {
    if (dropped_ != 0 && waiting_.size() <= kWaitingBytesMax / 2) {
        waiting_.append(told_(std::exchange(dropped_, 0))).append(1, '\n');
    }
}

void LineWriter::drain(std::chrono::milliseconds limit) {
    const auto until = std::chrono::steady_clock::now() + limit;
    std::size_t done = 0;
    while (done < waiting_.size()) {
        const auto left =
            std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
        if (!has_room(fd_, limit.count() == 0 ? limit : left)) {
            break;
        }
        const std::size_t piece = std::min(waiting_.size() - done, kPieceBytesMax);
        const ssize_t written = ::write(fd_, waiting_.data() + done, piece);
        if (written > 0) {
            done += static_cast<std::size_t>(written);
        } else if (written < 0 && errno == EAGAIN) {
            break;  // somebody else made it non-blocking, or took the room
        } else if (written == 0 || errno != EINTR) {
            done = waiting_.size();  // the reader is gone: there is nobody left to tell
        }
    }
    waiting_.erase(0, done);
}

}  // namespace capstan::obs
