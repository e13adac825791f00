// The inside of PodWorker: one container of the pod with its process and its probes.
#pragma once

#include "runtime/local/node/path_map.hpp"
#include "runtime/local/node/pod_status.hpp"
#include "runtime/local/node/pod_worker.hpp"

namespace capstan::local {

struct PodWorker::Slot {
    Slot(json::Value container_spec, bool is_init)
        : spec(std::move(container_spec)), init(is_init) {}

    json::View view() const { return json::View(spec); }
    std::string name() const { return std::string(view()["name"].string_or("")); }
    std::string_view image() const { return view()["image"].string_or(""); }

    ContainerFacts facts(MonotonicTime now, WallTime wall) const;
    ContainerView as_view() const;
    MonotonicTime started_at(const Clock& clock) const;
    std::string waits_for() const;
    void wait_for_backoff(MonotonicTime until, MonotonicTime now, const ObjectKey& pod);
    void clear_wait();

    const json::Value spec;
    const bool init;
    bool skipped{false};
    std::unique_ptr<Container> container;
    std::unique_ptr<Prober> prober;
    int probed_attempt{-1};
    PathMap paths;
    std::string map_text;  // as written last
    std::string waiting_reason;
    std::string waiting_message;
    MonotonicTime retry_at{0};
};

// Adopts; a damaged record is thrown away after whatever carries this
// container's mark has been killed.
Result<void> adopt_slot(Container& container,
                        const std::string& name,
                        const std::string& pod_uid,
                        const std::string& pod_dir);

}  // namespace capstan::local
