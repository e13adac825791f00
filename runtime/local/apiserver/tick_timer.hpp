// One timer at the server's next tick, as whoever runs an ApiServer must keep it.
#pragma once

#include "runtime/local/apiserver/api_server.hpp"
#include "runtime/net/loop.hpp"

#include <memory>

namespace capstan::local {

class TickTimer {
public:
    // Borrowed, outlive *this. Sets the server's wake callback.
    TickTimer(net::Loop& loop, ApiServer& server);
    ~TickTimer();  // the server ticks no more
    TickTimer(const TickTimer&) = delete;
    TickTimer& operator=(const TickTimer&) = delete;

private:
    void arm();

    net::Loop& loop_;
    ApiServer& server_;
    std::unique_ptr<net::Timer> timer_;
    MonotonicTime timer_at_{kNever};
};

}  // namespace capstan::local
