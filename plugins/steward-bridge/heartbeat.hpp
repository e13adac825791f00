// The member lease: "<id>:<clusterID>:<Leader|Member>", renewed while etcd answers.
#pragma once

#include "plugins/steward-bridge/member.hpp"

namespace capstan::steward {

class Heartbeat final : public Service {
public:
    explicit Heartbeat(Member& member) noexcept : member_(member) {}  // borrowed; outlives *this
    Result<void> run(Call& call) override;

private:
    Member& member_;
};

}  // namespace capstan::steward
