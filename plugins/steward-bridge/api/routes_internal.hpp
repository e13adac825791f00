// The handlers behind routes.cpp. Internal to api/.
#pragma once

#include "plugins/steward-bridge/api/routes.hpp"

namespace capstan::steward {

void answer_full(const ApiParts& parts, Call& call, Exchange& exchange);
void answer_delta(const ApiParts& parts, Call& call, Exchange& exchange);
void answer_latest(const ApiParts& parts, Call& call, Exchange& exchange);
void answer_defragment(const ApiParts& parts, Call& call, Exchange& exchange);
void answer_last_defragmentation(const ApiParts& parts, Call& call, Exchange& exchange);
void answer_metrics(const ApiParts& parts, Call& call, Exchange& exchange);

}  // namespace capstan::steward
