// One request at a real server that goes wrong on its way back: a ServerExchange around another.
// Thread: the loop's.
#pragma once

#include "runtime/net/http.hpp"
#include "runtime/net/loop.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace capstan::test {

inline constexpr const char* kDeepValue = "@deep@";

// What happens to one request; all off by default.
struct Trouble {
    int status{0};  // answered with this and a Status body; the API never sees it
    std::chrono::seconds retry_after{0};
    bool deepened{false};  // values that are kDeepValue become objects of 200 levels
    bool silent{false};    // taken, never answered: a peer that is gone without saying so
    // Of a watch:
    bool silent_soon{false};        // the same after what it starts with
    std::size_t cut_after{0};       // bytes; then the connection breaks. 0: never
    bool byte_by_byte{false};       // each byte is a chunk and a packet of its own
    bool without_end{false};        // the bookmark that ends the initial events is swallowed
    bool expired_in_stream{false};  // 200, then an ERROR event with 410 instead of the first event
    std::size_t padded_to{0};       // the first event with an object grows to so many bytes
};

std::shared_ptr<net::ServerExchange> make_faulty(net::Loop& loop,
                                                 std::shared_ptr<net::ServerExchange> inner,
                                                 const Trouble& trouble);

}  // namespace capstan::test
