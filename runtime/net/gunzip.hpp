// A gzip stream (RFC 1952; members in a row are one text) decoded as it arrives, into bounded
// pieces: however much a few bytes unfold to, no more than the asked room is made at once.
//
// Thread: one.
#pragma once

#include "capstan/error.hpp"

#include <cstddef>
#include <memory>
#include <string>

namespace capstan::net {

class Gunzip {
public:
    Gunzip();
    ~Gunzip();
    Gunzip(const Gunzip&) = delete;
    Gunzip& operator=(const Gunzip&) = delete;

    // Takes from the front of `in` what it uses and appends at most `room` bytes to `out`. Bytes
    // stay in `in` only when the room is used up. Errors: unavailable (no gzip, damaged,
    // memory); the object is then of no use.
    Result<void> decode(std::string& in, std::size_t room, std::string& out);

    bool has_more() const noexcept;  // the room was used up, so another call may give more
    bool complete() const noexcept;  // the stream may end where it is now

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace capstan::net
