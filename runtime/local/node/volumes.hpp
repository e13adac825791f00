// Volumes of a pod as directories.
//
// emptyDir and projected content live below the pod's own directory and go with it; claims and
// hostPath live beside and stay. Files of ConfigMaps, Secrets and projections are replaced at once,
// by the ..data link, as the kubelet does. Thread: owning.
#pragma once

#include "capstan/error.hpp"
#include "capstan/json.hpp"
#include "runtime/local/node/environment.hpp"

#include <sys/types.h>
#include <functional>
#include <map>
#include <string>

namespace capstan::local {

inline constexpr std::size_t kPayloadFilesMax = 1'000;

struct PayloadFile {
    std::string bytes;
    mode_t mode{0644};
};
using Payload = std::map<std::string, PayloadFile>;  // relative path -> file

// Makes `dir` show exactly `payload`; a reader sees all of the old or all of the new.
// False: nothing to change.
// Errors: invalid (a path that leaves the directory), unavailable.
Result<bool> write_payload(const std::string& dir, const Payload& payload);

struct VolumeContext {
    const EnvironmentContext& environment;
    std::string pod_dir;                         // ".capstan/pods/<uid>"
    std::string claims_dir;                      // ".capstan/volumes"
    std::string host_dir;                        // ".capstan/host"
    std::function<Result<std::string>()> token;  // of the pod's service account; empty: none
};

// Directory of a claim: "<claims_dir>/<namespace>_<name>_<uid>"; a claim of the same name
// made later gets another.
std::string claim_dir(const std::string& claims_dir, const json::Value& claim);

// Makes or refreshes every volume of the pod; volume name -> directory. May be repeated.
// Errors: not_found (a claim, ConfigMap, Secret or key is absent), unsupported (kind
// of volume), unavailable.
Result<std::map<std::string, std::string>> prepare_volumes(const VolumeContext& context);

}  // namespace capstan::local
