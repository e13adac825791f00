#include "runtime/net/gunzip.hpp"

#include <zlib.h>

#include <algorithm>
#include <utility>

namespace capstan::net {

namespace {

constexpr int kGzipBits = 15 + 16;                // the largest window; 16: a gzip header
constexpr std::size_t kStepBytesMax = 64 * 1024;  // of one call of zlib, in and out

}  // namespace

struct Gunzip::State {
    z_stream stream{};
    bool ready{false};
    bool has_more{false};
    bool between_members{false};
};

Gunzip::Gunzip() : state_(std::make_unique<State>()) {
    state_->ready = inflateInit2(&state_->stream, kGzipBits) == Z_OK;
}

Gunzip::~Gunzip() {
    inflateEnd(&state_->stream);
}

bool Gunzip::has_more() const noexcept {
    return state_->has_more;
}

bool Gunzip::complete() const noexcept {
    return state_->between_members;
}

Result<void> Gunzip::decode(std::string& in, std::size_t room, std::string& out) {
    State& state = *state_;
    z_stream& stream = state.stream;
    if (!state.ready) {
        return fail(Code::unavailable, "no memory to decode gzip");
    }
    std::size_t used = 0;
    state.has_more = false;
    for (bool stuck = false; !stuck;) {
        if (state.between_members && used == in.size()) {
            break;
        }
        if (room == 0) {
            state.has_more = true;
            break;
        }
        if (std::exchange(state.between_members, false)) {
            inflateReset(&stream);
        }
        const std::size_t give = std::min(in.size() - used, kStepBytesMax);
        const std::size_t take = std::min(room, kStepBytesMax);
        const std::size_t old = out.size();
        out.resize(old + take);
        stream.next_in = reinterpret_cast<Bytef*>(in.data() + used);
        stream.avail_in = static_cast<uInt>(give);
        stream.next_out = reinterpret_cast<Bytef*>(out.data() + old);
        stream.avail_out = static_cast<uInt>(take);
        const int outcome = inflate(&stream, Z_NO_FLUSH);
        const std::size_t made = take - stream.avail_out;
        out.resize(old + made);
        used += give - stream.avail_in;
        room -= made;
        if (outcome != Z_OK && outcome != Z_STREAM_END && outcome != Z_BUF_ERROR) {
            const char* const why = stream.msg != nullptr ? stream.msg : "out of memory";
            return fail(Code::unavailable, std::string("damaged gzip: ") + why);
        }
        state.between_members = outcome == Z_STREAM_END;
        stuck = !state.between_members && made < take && used == in.size();
    }
    in.erase(0, used);
    return ok();
}

}  // namespace capstan::net
