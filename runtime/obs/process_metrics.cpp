#include "runtime/obs/metrics.hpp"

#include <dirent.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

namespace capstan::obs {

namespace {

// First 4 KiB of a /proc file; empty when unreadable.
std::string read_proc(const char* path) {
    std::array<char, 4096> buffer{};
    std::FILE* file = std::fopen(path, "re");
    if (file == nullptr) {
        return {};
    }
    const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), file);
    std::fclose(file);
    return {buffer.data(), count};
}

struct Stat {
    double cpu_seconds{0};
    double threads{0};
    double start_ticks{0};
    double virtual_bytes{0};
    double resident_bytes{0};
};

// proc(5): fields are counted after the last ')', because the command name may hold spaces.
Stat read_stat() {
    Stat stat;
    const std::string text = read_proc("/proc/self/stat");
    const std::size_t paren = text.rfind(')');
    if (paren == std::string::npos) {
        return stat;
    }
    unsigned long user = 0;
    unsigned long system = 0;
    long threads = 0;
    unsigned long long start = 0;
    unsigned long virtual_bytes = 0;
    long resident_pages = 0;
    const int count = std::sscanf(
        text.c_str() + paren + 1,
        " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %*d %*d %*d %*d %ld %*d %llu %lu %ld",
        &user,
        &system,
        &threads,
        &start,
        &virtual_bytes,
        &resident_pages);
    if (count != 6) {
        return stat;
    }
    const auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
    stat.cpu_seconds = static_cast<double>(user + system) / ticks;
    stat.threads = static_cast<double>(threads);
    stat.start_ticks = static_cast<double>(start) / ticks;
    stat.virtual_bytes = static_cast<double>(virtual_bytes);
    stat.resident_bytes =
        static_cast<double>(resident_pages) * static_cast<double>(::sysconf(_SC_PAGESIZE));
    return stat;
}

double boot_time_seconds() {
    const std::string text = read_proc("/proc/stat");
    const std::size_t at = text.find("btime ");
    return at == std::string::npos
               ? 0
               : std::strtod(text.c_str() + at + std::strlen("btime "), nullptr);
}

// Names in /proc/self/fd, without the one that reads it.
double open_descriptors() {
    DIR* directory = ::opendir("/proc/self/fd");
    if (directory == nullptr) {
        return 0;
    }
    double count = 0;
    while (const dirent* entry = ::readdir(directory)) {
        count += entry->d_name[0] == '.' ? 0 : 1;
    }
    ::closedir(directory);
    return std::max(0.0, count - 1);
}

// The soft limit; unlimited is shown as the largest number, as client_golang does.
double limit_of(__rlimit_resource resource) {
    rlimit limit{};
    if (::getrlimit(resource, &limit) != 0) {
        return 0;
    }
    return limit.rlim_cur == RLIM_INFINITY
               ? static_cast<double>(std::numeric_limits<std::uint64_t>::max())
               : static_cast<double>(limit.rlim_cur);
}

struct Network {
    double received{0};
    double sent{0};
};

// IpExt of /proc/self/net/netstat: a line of names and one of values, for this network namespace.
Network read_network() {
    std::ifstream file("/proc/self/net/netstat");
    std::string line;
    while (std::getline(file, line) && !line.starts_with("IpExt:")) {
    }
    std::istringstream names(line);
    std::getline(file, line);
    std::istringstream values(line);
    Network network;
    std::string name;
    std::string value;
    while (names >> name && values >> value) {
        if (name == "InOctets") {
            network.received = std::strtod(value.c_str(), nullptr);
        } else if (name == "OutOctets") {
            network.sent = std::strtod(value.c_str(), nullptr);
        }
    }
    return network;
}

struct ProcessSeries {
    explicit ProcessSeries(Metrics& m)
        : cpu(m.float_counter("process_cpu_seconds_total", "CPU time spent, user and system.")
                  .with({})),
          received(m.float_counter("process_network_receive_bytes_total",
                                   "Bytes received by IP in the network namespace of the process.")
                       .with({})),
          sent(m.float_counter("process_network_transmit_bytes_total",
                               "Bytes sent by IP in the network namespace of the process.")
                   .with({})),
          resident(m.gauge("process_resident_memory_bytes", "Resident memory.").with({})),
          virtual_memory(m.gauge("process_virtual_memory_bytes", "Virtual memory.").with({})),
          virtual_max(
              m.gauge("process_virtual_memory_max_bytes", "Most virtual memory allowed.").with({})),
          open_fds(m.gauge("process_open_fds", "Open file descriptors.").with({})),
          max_fds(m.gauge("process_max_fds", "Most file descriptors allowed.").with({})),
          start(m.gauge("process_start_time_seconds", "Start of the process since the epoch.")
                    .with({})),
          threads(m.gauge("capstan_threads", "Threads of the process.").with({})),
          in_use(m.gauge("capstan_allocator_used_bytes", "Memory handed out by the allocator.")
                     .with({})),
          held(
              m.gauge("capstan_allocator_free_bytes", "Memory the allocator holds and nobody uses.")
                  .with({})) {}

    void refresh() {
        const Stat stat = read_stat();
        const Network network = read_network();
        const struct mallinfo2 heap = ::mallinfo2();
        cpu.set(stat.cpu_seconds);
        received.set(network.received);
        sent.set(network.sent);
        resident.set(stat.resident_bytes);
        virtual_memory.set(stat.virtual_bytes);
        virtual_max.set(limit_of(RLIMIT_AS));
        open_fds.set(open_descriptors());
        max_fds.set(limit_of(RLIMIT_NOFILE));
        threads.set(stat.threads);
        in_use.set(static_cast<double>(heap.uordblks + heap.hblkhd));
        held.set(static_cast<double>(heap.fordblks));
    }

    FloatCounter &cpu, &received, &sent;
    Gauge &resident, &virtual_memory, &virtual_max, &open_fds, &max_fds, &start, &threads;
    Gauge &in_use, &held;
};

}  // namespace

void register_process_metrics(Metrics& metrics) {
    ProcessSeries series(metrics);
    series.start.set(boot_time_seconds() + read_stat().start_ticks);
    metrics.before_render([series]() mutable { series.refresh(); });
}

}  // namespace capstan::obs
