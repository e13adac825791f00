#include "runtime/local/node/container.hpp"

#include "runtime/local/node/files.hpp"
#include "runtime/local/node/node.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <csignal>
#include <utility>

namespace capstan::local {

Container::Container(net::Loop& loop,
                     ProcessWatcher& watcher,
                     std::string dir,
                     std::function<void()> on_change)
    : loop_(loop), watcher_(watcher), dir_(std::move(dir)), on_change_(std::move(on_change)) {}

Container::~Container() = default;

std::string Container::log_path(int attempt) const {
    return dir_ + "/" + std::to_string(attempt) + ".log";
}

Result<void> Container::save() {
    return write_file(dir_ + "/record.json", json::dump(to_json(record_)), 0600);
}

Result<void> Container::adopt() {
    auto text = read_file(dir_ + "/record.json");
    if (!text.has_value()) {
        if (text.error().code == Code::not_found) {
            return ok();
        }
        return fail(std::move(text).error());
    }
    auto value = json::parse(text.value());
    if (!value.has_value()) {
        return fail(with_context(std::move(value).error(), dir_ + "/record.json"));
    }
    auto record = container_record_from_json(value.value());
    if (!record.has_value()) {
        return fail(with_context(std::move(record).error(), dir_ + "/record.json"));
    }
    record_ = std::move(record).value();
    if (record_.ended || record_.attempt < 0) {
        return ok();
    }
    auto watched = watcher_.watch(record_.process, [this](ProcessExit exit) { ended(exit); });
    if (watched.has_value()) {
        watched_ = std::move(watched).value();
        return ok();
    }
    if (process_state(record_.process) != ProcessState::gone) {
        // it runs, but cannot be watched: do not start a second one
        return fail(std::move(watched).error());
    }
    kill_session(record_.process);
    record_end(std::nullopt, "Unknown", "ended while no node was running");
    return save();
}

Result<void> Container::start(SpawnRequest request) {
    CAPSTAN_CHECK(!running(), dir_);
    CAPSTAN_TRY(make_dirs(dir_));
    if (record_.ended) {
        record_.previous = std::exchange(record_.ended, std::nullopt);
    }
    ++record_.attempt;
    record_.started = loop_.wall_now();
    record_.process = {};
    stopping_ = false;
    ::unlink(log_path(record_.attempt - kLogsKept).c_str());
    request.log_path = log_path(record_.attempt);
    const auto give_up = [this](Error error) {
        record_end(128, "StartError", error.message);  // the kubelet's code for it
        // without it the next node starts at this attempt again
        [[maybe_unused]] const auto saved = save();
        return fail(std::move(error));
    };
    auto child = GatedProcess::spawn(request);
    if (!child.has_value()) {
        return give_up(std::move(child).error());
    }
    record_.process = child.value().identity();
    if (auto saved = save(); !saved.has_value()) {
        return give_up(std::move(saved).error());  // the gate closes with `child`: nothing ran
    }
    // Watched before the gate opens: an error here must not leave a running
    // process without a watcher.
    auto watched = watcher_.watch(record_.process, [this](ProcessExit exit) { ended(exit); });
    if (!watched.has_value()) {
        return give_up(std::move(watched).error());
    }
    if (auto released = child.value().release(); !released.has_value()) {
        watched.value().reset();
        return give_up(std::move(released).error());
    }
    watched_ = std::move(watched).value();
    return ok();
}

void Container::stop(std::chrono::seconds grace, std::string reason, bool planned) {
    if (!running()) {
        return;
    }
    planned_ = planned_ || planned;
    const auto at = loop_.now() + std::chrono::nanoseconds(grace);
    if (stopping_ && at >= kill_at_) {
        return;
    }
    if (!stopping_) {
        stopping_ = true;
        stop_reason_ = std::move(reason);
        watched_->signal(SIGTERM);
    }
    kill_at_ = at;
    kill_timer_ = loop_.at(at, [this] {
        if (watched_) {
            watched_->signal(SIGKILL);
        }
    });
}

void Container::record_end(std::optional<int> code, std::string reason, std::string message) {
    Termination end;
    end.code = code;
    end.reason = std::move(reason);
    end.message = std::move(message);
    end.started = record_.started;
    end.finished = loop_.wall_now();
    end.planned = std::exchange(planned_, false);
    // A long run forgives the short ones before it.
    if (!end.planned) {
        record_.failures =
            end.finished - end.started >= kRestartDelayReset ? 1 : record_.failures + 1;
    }
    record_.ended = std::move(end);
}

void Container::ended(ProcessExit exit) {
    watched_.reset();
    kill_timer_.reset();
    kill_at_ = kNever;
    stopping_ = false;
    const bool good = exit.code == 0;
    std::string message = std::exchange(stop_reason_, {});
    if (!exit.code) {
        message = "exit code unknown: the process was not a child of this node";
    }
    record_end(exit.code,
               !exit.code ? "Unknown"
               : good     ? "Completed"
                          : "Error",
               std::move(message));
    // lost: the next node finds the process gone, code unknown
    [[maybe_unused]] const auto saved = save();
    on_change_();
}

void Container::trim_log(std::size_t bytes_max) {
    const auto path = log_path(record_.attempt);
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0 || static_cast<std::size_t>(info.st_size) <= bytes_max) {
        return;
    }
    const int from = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    const int to = ::open((path + ".old").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (from >= 0 && to >= 0) {
        for (ssize_t n = 1; n > 0;) {
            n = ::copy_file_range(from, nullptr, to, nullptr, bytes_max, 0);
        }
    }
    if (from >= 0) {
        // the writer appends, so it goes on at 0
        [[maybe_unused]] const int cut = ::ftruncate(from, 0);
        ::close(from);
    }
    if (to >= 0) {
        ::close(to);
    }
}

}  // namespace capstan::local
