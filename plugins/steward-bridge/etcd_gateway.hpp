// The few questions this steward asks etcd, through its JSON gateway (POST /v3/…).
//
// The parsing is pure and tested alone; Gateway sends. 64-bit integers arrive as text and are
// unsigned. Thread: the caller's, blocking for at most the timeout given.
#pragma once

#include "capstan/error.hpp"
#include "capstan/json.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace capstan {
class Call;
}

namespace capstan::steward {

struct EtcdStatus {
    std::string member_id, cluster_id;  // lower-case hex, no leading zeros
    std::string version;
    bool leader{false};
    bool learner{false};
    bool has_leader{false};
    std::int64_t db_size{0}, db_size_in_use{0};  // bytes
};

struct ListedMember {
    std::string id;  // lower-case hex
    std::string name;
    std::vector<std::string> peer_urls;
    bool started{false};  // it has told the cluster its client URLs at least once
    bool learner{false};
};

Result<EtcdStatus> parse_status(const json::Value& answer);
Result<std::vector<ListedMember>> parse_member_list(const json::Value& answer);

class Gateway {
public:
    explicit Gateway(Call& call) noexcept : call_(&call) {}
    Result<EtcdStatus> status(const std::string& endpoint, std::chrono::milliseconds timeout);
    Result<std::vector<ListedMember>> member_list(const std::string& endpoint,
                                                  std::chrono::milliseconds timeout);

private:
    Result<json::Value> post(const std::string& url,
                             std::string body,
                             std::chrono::milliseconds timeout);
    Call* call_;
};

}  // namespace capstan::steward
