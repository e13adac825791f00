// Health: named checks, each ready or with a reason, shown at /healthz and /readyz.
//
// The text says what is not ready and why; reasons are ours, never texts of a server or secrets.
// Format after the Kubernetes API server's: "[+]name ok", "[+]name ok (note)", "[-]name failed:
// reason". Thread: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::obs {

inline constexpr std::size_t kReasonBytesMax = 512;  // longer reasons are cut

enum class Probe : std::uint8_t { healthz, readyz };

class Health {
public:
    // A check of /readyz, and of /healthz too when `probe` is healthz. It starts not ready.
    void add(std::string_view name, Probe probe, std::string_view reason);
    // `note`: shown behind "ok", "" for none. Requires: added.
    void ready(std::string_view name, std::string_view note = {});
    void not_ready(std::string_view name, std::string_view reason);  // requires: added
    void remove(std::string_view name);

    bool is_ready() const;
    // "name: reason" of each check that is not ready, sorted
    std::vector<std::string> reasons() const;

    struct Answer {
        int status{200};  // 200, 500, 404 for an unknown check; plain text
        std::string body;
    };
    // `check`: "" for all, else one name (/readyz/NAME). `query`: "verbose&exclude=NAME".
    Answer render(Probe probe, std::string_view check, std::string_view query) const;

private:
    std::string unknown_check(std::string_view wanted) const;

    struct Check {
        Probe probe;
        bool ok;
        std::string reason;  // ok: the note
    };
    mutable std::mutex mutex_;  // guards checks_
    std::map<std::string, Check, std::less<>> checks_;
};

}  // namespace capstan::obs
