// Reviews of admission webhooks under the fake host.
//
//     PluginUnderTest plugin(host, &capstan_plugin_entry);
//     const Reviewed answer =
//         review(host, "limits", {{"operation", "CREATE"}, {"object", object}});
//     EXPECT_FALSE(answer.allowed);
//
// Its lies: the request is passed on as it is, without the members an API server adds; writes are
// not refused; the changed object is shown, not the patch. Thread: one.
#pragma once

#include "capstan/testing/fake_host.hpp"
#include "capstan/webhook.h"

#include <string>
#include <string_view>

namespace capstan::testing {

struct Reviewed {
    capstan_rc rc{CAPSTAN_E_UNSUPP};  // of review; E_UNSUPP: no such extension, or no instance
    bool answered{false};             // what follows is the answer
    bool allowed{false};
    int code{0};
    std::string message, reason;
    json::Value object;           // null: unchanged
    json::Value warnings, audit;  // null: none
};

// Asks the instance of the PluginUnderTest that was made last on `host`.
Reviewed review(FakeHost& host, std::string_view webhook, const json::Value& request);

}  // namespace capstan::testing
