// How the API says no: JSON with a word for programs and a sentence for people.
#pragma once

#include "capstan/plugin.hpp"

#include <chrono>
#include <string_view>

namespace capstan::steward {

// {"reason": "NoStore", "message": "…"}; `retry_after` 0: no such header.
void refuse(Exchange& exchange,
            int status,
            std::string_view reason,
            std::string_view message,
            std::chrono::milliseconds retry_after = {});
// With the status that fits the code of a failed action.
void refuse(Exchange& exchange, const Error& error);

}  // namespace capstan::steward
