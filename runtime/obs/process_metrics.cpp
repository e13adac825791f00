#include "runtime/obs/metrics.hpp"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
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

}  // namespace

void register_process_metrics(Metrics& metrics) {
    Gauge& cpu =
        metrics.gauge("process_cpu_seconds_total", "CPU time spent, user and system.").with({});
    Gauge& resident = metrics.gauge("process_resident_memory_bytes", "Resident memory.").with({});
    Gauge& virtual_memory =
        metrics.gauge("process_virtual_memory_bytes", "Virtual memory.").with({});
    Gauge& threads = metrics.gauge("process_threads", "Threads of the process.").with({});
    Gauge& start =
        metrics.gauge("process_start_time_seconds", "Start of the process since the epoch.")
            .with({});
    start.set(boot_time_seconds() + read_stat().start_ticks);
    metrics.before_render([&cpu, &resident, &virtual_memory, &threads] {
        const Stat stat = read_stat();
        cpu.set(stat.cpu_seconds);
        resident.set(stat.resident_bytes);
        virtual_memory.set(stat.virtual_bytes);
        threads.set(stat.threads);
    });
}

}  // namespace capstan::obs
