// A tunnel through a proxy, on a connection to it.
#include "runtime/net/proxy_talk.hpp"
#include "runtime/net/transport_impl.hpp"

#include <utility>

namespace capstan::net {

namespace {

// Owned by the callback that waits on the socket, which shut() drops.
struct Tunnel : std::enable_shared_from_this<Tunnel> {
    std::weak_ptr<SocketState> socket;
    std::unique_ptr<ProxyTalk> talk;
    std::function<void(const std::string&)> done;

    void act(const ProxyTalk::Step& step) {
        const auto state = socket.lock();
        if (!state || state->closed) {
            return;
        }
        if (step.open || !step.problem.empty()) {
            return finish(step.problem);
        }
        if (step.send.empty()) {
            return read(*state);
        }
        state->out = step.send;
        state->on_write = [self = shared_from_this()](const IoError& error) {
            const auto open = self->socket.lock();
            if (error) {
                self->finish(error);
            } else if (open) {
                self->read(*open);
            }
        };
        state->write();
    }
    void read(SocketState& state) {
        state.on_read = [self = shared_from_this()](const IoError& error, std::string_view bytes) {
            if (error) {
                self->finish(error);
            } else {
                self->act(self->talk->take(bytes));
            }
        };
        state.read();
    }
    void finish(const IoError& error) {
        finish(error.kind == IoError::Kind::end ? "closed the connection" : error.text);
    }
    void finish(const std::string& problem) {
        if (const auto call = std::exchange(done, nullptr)) {
            call(problem);
        }
    }
};

}  // namespace

void open_tunnel(const std::shared_ptr<SocketState>& state,
                 const Endpoint& target,
                 const Proxy& proxy,
                 std::function<void(const std::string& problem)> done) {
    auto tunnel = std::make_shared<Tunnel>();
    tunnel->socket = state;
    tunnel->talk = make_proxy_talk(proxy, target);
    tunnel->done = std::move(done);
    tunnel->act(tunnel->talk->begin());
}

}  // namespace capstan::net
