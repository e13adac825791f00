// The few questions this steward asks etcd, through its JSON gateway (POST /v3/…).
//
// The parsing is pure and tested alone; Gateway sends. 64-bit integers arrive as text and are
// unsigned. Thread: the caller's, blocking for at most the timeout given.
#pragma once

#include "capstan/error.hpp"
#include "capstan/http.hpp"
#include "capstan/json.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
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
    std::string leader_id;                       // "" without one
    std::int64_t db_size{0}, db_size_in_use{0};  // bytes
};

struct ListedMember {
    std::string id;  // lower-case hex
    std::string name;
    std::vector<std::string> peer_urls, client_urls;
    bool started{false};  // it has told the cluster its client URLs at least once
    bool learner{false};
};

struct MemberList {
    std::string cluster_id;  // lower-case hex
    std::vector<ListedMember> members;

    const ListedMember* by_id(std::string_view id) const;
};

struct EtcdAlarm {
    std::string member_id;  // lower-case hex
    std::string alarm;      // "NOSPACE", "CORRUPT"
    friend bool operator==(const EtcdAlarm&, const EtcdAlarm&) = default;
};

// A member's or cluster's id, a 64-bit number as the gateway writes it, as lower-case hex.
Result<std::string> hex_id(const json::View& view);
Result<EtcdStatus> parse_status(const json::Value& answer);
Result<std::vector<ListedMember>> parse_member_list(const json::Value& answer);
Result<MemberList> parse_cluster(const json::Value& answer);
// What a refusal means: `exists` (such a member is there, or it votes already), `conflict` (a
// learner that has not caught up), `overloaded` (another learner is there already), `not_found`
// (no such member), else unavailable. The message is etcd's.
Error refusal_of(int status, std::string_view body);

class Gateway {
public:
    explicit Gateway(Call& call, HttpTls tls = {}) : call_(&call), tls_(std::move(tls)) {}
    Result<EtcdStatus> status(const std::string& endpoint, std::chrono::milliseconds timeout);
    Result<std::vector<ListedMember>> member_list(const std::string& endpoint,
                                                  std::chrono::milliseconds timeout);
    Result<MemberList> cluster(const std::string& endpoint, std::chrono::milliseconds timeout);
    // Each gives the members afterwards; an error of a timeout leaves open whether it happened.
    Result<MemberList> add_learner(const std::string& endpoint,
                                   const std::vector<std::string>& peer_urls,
                                   std::chrono::milliseconds timeout);
    Result<MemberList> remove_member(const std::string& endpoint,
                                     const std::string& id,
                                     std::chrono::milliseconds timeout);
    Result<MemberList> promote_member(const std::string& endpoint,
                                      const std::string& id,
                                      std::chrono::milliseconds timeout);
    // Any other call. Errors: those of refusal_of for another status than 200.
    Result<json::Value> post(const std::string& url,
                             std::string body,
                             std::chrono::milliseconds timeout);

private:
    Call* call_;
    HttpTls tls_;
};

}  // namespace capstan::steward
