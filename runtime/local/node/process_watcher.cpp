#include "runtime/local/node/process_watcher.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

namespace capstan::local {
namespace {

struct Entry {
    ProcessIdentity identity;
    int pidfd{-1};
    std::function<void(ProcessExit)> on_exit;
};

// Loop thread only. Shared, because a posted task may run after the watcher is gone.
struct Table {
    std::map<std::uint64_t, Entry> entries;
};

void take_exit(Table& table, std::uint64_t id) {
    const auto it = table.entries.find(id);
    if (it == table.entries.end()) {
        return;
    }
    Entry entry = std::move(it->second);
    table.entries.erase(it);
    // before reaping: while the leader is a zombie its pid is not given away
    kill_session(entry.identity);
    const auto exit = collect_exit(entry.pidfd, entry.identity);
    ::close(entry.pidfd);
    entry.on_exit(exit);
}

class Watched final : public WatchedProcess {
public:
    Watched(std::shared_ptr<Table> table, std::uint64_t id, ProcessIdentity identity)
        : table_(std::move(table)), id_(id), identity_(std::move(identity)) {}
    ~Watched() override {
        const auto it = table_->entries.find(id_);
        if (it != table_->entries.end()) {
            ::close(it->second.pidfd);  // leaves the epoll set with its last descriptor
            table_->entries.erase(it);
        }
    }
    const ProcessIdentity& identity() const noexcept override { return identity_; }
    void signal(int number) override {
        const auto it = table_->entries.find(id_);
        if (it != table_->entries.end()) {
            ::syscall(SYS_pidfd_send_signal, it->second.pidfd, number, nullptr, 0);
        }
    }

private:
    std::shared_ptr<Table> table_;
    std::uint64_t id_;
    ProcessIdentity identity_;
};

constexpr std::uint64_t kStopId = 0;

class Watcher final : public ProcessWatcher {
public:
    Watcher(net::Loop& loop, int epoll, int stop)
        : loop_(loop),
          epoll_(epoll),
          stop_(stop),
          table_(std::make_shared<Table>()),
          thread_([this] { run(); }) {}

    ~Watcher() override {
        const std::uint64_t one = 1;
        [[maybe_unused]] const auto written = ::write(stop_, &one, sizeof one);
        thread_.join();
        for (auto& [id, entry] : table_->entries) {
            ::close(entry.pidfd);
        }
        table_->entries.clear();
        ::close(epoll_);
        ::close(stop_);
    }

    Result<std::unique_ptr<WatchedProcess>> watch(
        const ProcessIdentity& identity, std::function<void(ProcessExit)> on_exit) override {
        const int pidfd = static_cast<int>(::syscall(SYS_pidfd_open, identity.pid, 0));
        if (pidfd < 0) {
            if (errno == ENOSYS) {
                return fail(Code::unavailable,
                            "watch a process: pidfd_open needs Linux 5.3 or newer");
            }
            return fail(Code::not_found,
                        "process " + std::to_string(identity.pid) + ": " + std::strerror(errno));
        }
        // Checked after opening: the descriptor stays with the process it was opened on.
        if (process_state(identity) == ProcessState::gone) {
            ::close(pidfd);
            return fail(Code::not_found, "process " + std::to_string(identity.pid) + " has ended");
        }
        const auto id = next_id_++;
        epoll_event event{};
        event.events = EPOLLIN | EPOLLONESHOT;
        event.data.u64 = id;
        table_->entries.emplace(id, Entry{identity, pidfd, std::move(on_exit)});
        if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, pidfd, &event) != 0) {
            const int error = errno;
            table_->entries.erase(id);
            ::close(pidfd);
            return fail(Code::unavailable, "watch process: " + std::string(std::strerror(error)));
        }
        return std::unique_ptr<WatchedProcess>(std::make_unique<Watched>(table_, id, identity));
    }

private:
    void run() {
        epoll_event events[16];
        while (true) {
            const int count = ::epoll_wait(epoll_, events, 16, -1);
            if (count < 0 && errno != EINTR) {
                return;
            }
            for (int i = 0; i < count; ++i) {
                const auto id = events[i].data.u64;
                if (id == kStopId) {
                    return;
                }
                loop_.post([table = table_, id] { take_exit(*table, id); });
            }
        }
    }

    net::Loop& loop_;
    const int epoll_;
    const int stop_;
    const std::shared_ptr<Table> table_;
    std::uint64_t next_id_{1};
    std::thread thread_;  // last: starts when everything else is there
};

}  // namespace

Result<std::unique_ptr<ProcessWatcher>> ProcessWatcher::create(net::Loop& loop) {
    const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
    const int stop = ::eventfd(0, EFD_CLOEXEC);
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = kStopId;
    if (epoll < 0 || stop < 0 || ::epoll_ctl(epoll, EPOLL_CTL_ADD, stop, &event) != 0) {
        return fail(Code::unavailable, "watch processes: " + std::string(std::strerror(errno)));
    }
    return std::unique_ptr<ProcessWatcher>(std::make_unique<Watcher>(loop, epoll, stop));
}

}  // namespace capstan::local
