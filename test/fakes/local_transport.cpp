#include "test/fakes/local_transport.hpp"

#include "capstan/json.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <tuple>
#include <utility>

namespace capstan::test {
namespace {

constexpr std::size_t kDataBytesMax = 64 * 1024;  // one on_data
// undelivered bytes beyond which a write is not flushed
constexpr std::size_t kWindowBytes = 256 * 1024;

Error broken(std::string text) {
    return Error{Code::unavailable, std::move(text), {}};
}

}  // namespace

// One exchange, seen from both sides. Owned by the two ends and by deliveries on their way.
struct Session : std::enable_shared_from_this<Session> {
    using Task = std::function<void()>;

    explicit Session(net::Loop& l) : loop(l) {}

    net::Loop& loop;
    net::HttpRequest request;
    Fault fault;
    // shared with the transport, which may go first
    std::shared_ptr<const LocalTransportOptions> options;
    std::shared_ptr<const bool> partitioned;  // the same

    // Client side.
    bool client_open{true};
    bool is_stream{false};
    std::function<void(Result<net::HttpResponse>)> done;
    net::StreamHandler handler;
    net::StreamOptions stream_options;
    net::HttpResponse response;
    std::deque<std::string> inbox;
    std::size_t inbox_bytes{0};
    std::size_t delivered_bytes{0};
    bool read_pending{false};
    bool delivery_posted{false};
    bool response_ended{false};
    std::unique_ptr<net::Timer> deadline;
    std::unique_ptr<net::Timer> idle;
    std::deque<std::function<void(Result<void>)>> unflushed;
    std::deque<Task> held;  // what a partition holds back

    // Server side.
    bool server_open{true};  // may still answer
    bool request_ended{false};
    std::string request_body;
    std::function<void()> wanted;  // a read waits for the body
    std::function<void()> closed;
    std::map<std::uint64_t, std::unique_ptr<net::Timer>> timers;
    std::uint64_t timer_sequence{0};

    void after(std::chrono::nanoseconds delay, Task task) {
        auto self = shared_from_this();
        if (delay.count() <= 0) {
            loop.post([self, task = std::move(task)] { task(); });
            return;
        }
        const std::uint64_t id = ++timer_sequence;
        timers[id] = loop.at(loop.now() + delay, [self, id, task = std::move(task)] {
            const auto timer = std::move(self->timers[id]);
            self->timers.erase(id);
            task();
        });
    }
    std::chrono::nanoseconds way_back() const { return options->latency + fault.response_delay; }

    // Something arrives at the client, now or when the partition ends.
    void arrive(Task task) {
        after(way_back(), [this, task = std::move(task)]() mutable {
            if (*partitioned || !held.empty()) {
                held.push_back(std::move(task));
            } else {
                task();
            }
        });
    }
    void release() {
        for (std::deque<Task> now = std::exchange(held, {}); !now.empty(); now.pop_front()) {
            loop.post([self = shared_from_this(), task = std::move(now.front())] { task(); });
        }
    }

    // The client's end is over, with an error or because it let go.
    void close_client() {
        client_open = false;
        deadline.reset();
        idle.reset();
        inbox.clear();
        inbox_bytes = 0;
        flush(broken("the peer went away"));
        if (!response_ended) {
            after(options->latency, [this] { close_server(); });
        }
    }
    void close_server() {
        server_open = false;
        request_ended = true;
        if (wanted) {
            std::exchange(wanted, nullptr)();
        }
        if (closed) {
            std::exchange(closed, nullptr)();
        }
    }
    // The transport goes: the client hears nothing more, the server that its peer went away. What
    // the two wait for may own the exchange and so this session, so it is given away and not kept
    // here: a loop that ends before its tasks have run still destroys them.
    void abandon() {
        client_open = false;
        server_open = false;
        request_ended = true;
        const auto unheard = std::make_tuple(std::exchange(done, nullptr),
                                             std::exchange(handler, {}),
                                             std::exchange(unflushed, {}),
                                             std::exchange(held, {}),
                                             std::exchange(timers, {}),
                                             std::move(deadline),
                                             std::move(idle));
        loop.post([self = shared_from_this(),
                   read = std::exchange(wanted, nullptr),
                   told = std::exchange(closed, nullptr)] {
            if (read) {
                read();
            }
            if (told) {
                told();
            }
        });
    }
    void fail_client(Error error) {
        if (!client_open) {
            return;
        }
        auto finished = std::move(done);
        auto ended = std::move(handler.on_end);
        close_client();
        if (finished) {
            finished(fail(std::move(error)));
        } else if (ended) {
            ended(fail(std::move(error)));
        }
    }
    void flush(const Result<void>& result) {
        while (!unflushed.empty()) {
            loop.post([done_one = std::move(unflushed.front()), result] { done_one(result); });
            unflushed.pop_front();
        }
    }

    // From the server.
    void put_head(int status, net::Headers headers) {
        if (fault.lose_response) {
            arrive([this] { fail_client(broken("connection reset by peer")); });
            return;
        }
        arrive([this, status, headers = std::move(headers)] {
            if (!client_open) {
                return;
            }
            if (is_stream) {
                deadline.reset();
                if (handler.on_head) {
                    handler.on_head(status, headers);
                }
            } else {
                response.status = status;
                response.headers = headers;
            }
        });
    }
    void put_body(std::string bytes, std::function<void(Result<void>)> flushed) {
        arrive([this, bytes = std::move(bytes), flushed = std::move(flushed)]() mutable {
            if (!client_open) {
                if (flushed) {
                    flushed(fail(broken("the peer went away")));
                }
                return;
            }
            inbox_bytes += bytes.size();
            const bool too_much = inbox_bytes > kBacklogBytesMax;
            if (!is_stream) {
                response.body += bytes;
                inbox_bytes = 0;
                if (response.body.size() > request.body_bytes_max) {
                    fail_client(Error{Code::too_large, "response body over the limit", {}});
                } else if (fault.cut_after_bytes && response.body.size() > *fault.cut_after_bytes) {
                    fail_client(broken("connection reset by peer"));
                }
            } else if (!bytes.empty()) {
                inbox.push_back(std::move(bytes));
            }
            if (flushed) {
                unflushed.push_back(std::move(flushed));
            }
            if (too_much) {
                flush(fail(broken("the peer does not read")));
            } else if (inbox_bytes < kWindowBytes) {
                flush(ok());
            }
            deliver_soon();
        });
    }
    void put_end() {
        arrive([this] {
            response_ended = true;
            if (!client_open) {
                return;
            }
            if (is_stream) {
                deliver_soon();
                return;
            }
            auto finished = std::move(done);
            net::HttpResponse whole = std::move(response);
            close_client();
            finished(std::move(whole));
        });
    }

    void deliver_soon() {
        if (is_stream && client_open && read_pending && !delivery_posted) {
            delivery_posted = true;
            loop.post([self = shared_from_this()] {
                self->delivery_posted = false;
                self->deliver();
            });
        }
    }
    void deliver() {
        if (!client_open || !read_pending) {
            return;
        }
        if (inbox.empty()) {
            if (response_ended) {
                auto ended = std::move(handler.on_end);
                close_client();
                ended(ok());
            }
            return;
        }
        std::size_t size = std::min(inbox.front().size(), kDataBytesMax);
        if (fault.chunk_bytes > 0) {
            size = std::min(size, fault.chunk_bytes);
        }
        if (fault.cut_after_bytes && delivered_bytes + size > *fault.cut_after_bytes) {
            size = *fault.cut_after_bytes - std::min(*fault.cut_after_bytes, delivered_bytes);
            if (size == 0) {
                fail_client(broken("connection reset by peer"));
                return;
            }
        }
        read_pending = false;
        idle.reset();
        const std::string piece = inbox.front().substr(0, size);
        inbox.front().erase(0, size);
        if (inbox.front().empty()) {
            inbox.pop_front();
        }
        inbox_bytes -= size;
        delivered_bytes += size;
        if (inbox_bytes < kWindowBytes) {
            flush(ok());
        }
        const auto on_data = handler.on_data;
        on_data(piece);
    }
};

namespace {

class ClientEnd : public net::HttpStream {
public:
    explicit ClientEnd(std::shared_ptr<Session> session) : session_(std::move(session)) {}
    ~ClientEnd() override {
        if (session_->client_open) {
            session_->close_client();
        }
    }
    ClientEnd(const ClientEnd&) = delete;
    ClientEnd& operator=(const ClientEnd&) = delete;

    void read() override {
        CAPSTAN_CHECK(!session_->read_pending, "one read at a time");
        session_->read_pending = true;
        if (session_->stream_options.idle_max != kNever) {
            session_->idle = session_->loop.at(
                session_->loop.now() + session_->stream_options.idle_max, [s = session_] {
                    s->fail_client(Error{Code::timeout, "no bytes within the idle limit", {}});
                });
        }
        session_->deliver_soon();
    }
    void write(std::string bytes, bool last, std::function<void(Result<void>)> done) override {
        session_->after(session_->options->latency,
                        [s = session_, bytes = std::move(bytes), last, done = std::move(done)] {
                            if (!s->client_open) {
                                return;
                            }
                            s->request_body += bytes;
                            s->request_ended = s->request_ended || last;
                            if (s->wanted) {
                                std::exchange(s->wanted, nullptr)();
                            }
                            done(ok());
                        });
    }

private:
    const std::shared_ptr<Session> session_;
};

class ServerEnd final : public net::ServerExchange {
public:
    explicit ServerEnd(std::shared_ptr<Session> session) : session_(std::move(session)) {}
    ~ServerEnd() override {
        session_->closed = nullptr;
        session_->wanted = nullptr;
        if (session_->server_open && !started_) {
            respond(500, {{"Content-Type", "text/plain"}}, "not answered");
        } else if (session_->server_open && !ended_) {
            session_->arrive(
                [s = session_.get()] { s->fail_client(broken("connection closed in the body")); });
        }
    }
    ServerEnd(const ServerEnd&) = delete;
    ServerEnd& operator=(const ServerEnd&) = delete;

    const std::string& method() const noexcept override { return session_->request.method; }
    const std::string& target() const noexcept override { return session_->request.target; }
    const net::Headers& headers() const noexcept override { return session_->request.headers; }
    const std::string& remote() const noexcept override { return session_->options->remote; }
    const std::string& certificate_common_name() const noexcept override {
        return session_->options->certificate_common_name;
    }
    const std::vector<std::string>& certificate_organizations() const noexcept override {
        return session_->options->certificate_organizations;
    }

    void read(std::size_t bytes_max, std::function<void(Result<std::string>)> done) override {
        auto give = [s = session_.get(), bytes_max, done] {
            if (!s->server_open) {
                done(fail(broken("the peer went away")));
                return;
            }
            std::string piece = s->request_body.substr(0, bytes_max);
            s->request_body.erase(0, piece.size());
            done(std::move(piece));
        };
        when_body([s = session_.get()] { return !s->request_body.empty() || s->request_ended; },
                  std::move(give));
    }
    void read_all(std::size_t bytes_max, std::function<void(Result<std::string>)> done) override {
        auto give = [this, s = session_.get(), bytes_max, done] {
            if (!s->server_open) {
                done(fail(broken("the peer went away")));
            } else if (s->request_body.size() > bytes_max) {
                respond(413, {}, "");
                done(fail(Code::too_large, "request body over the limit"));
            } else {
                done(std::exchange(s->request_body, {}));
            }
        };
        when_body([s = session_.get()] { return s->request_ended; }, std::move(give));
    }

    void respond(int status, net::Headers headers, std::string body) override {
        start(status, std::move(headers));
        if (!body.empty()) {
            session_->put_body(std::move(body), {});
        }
        end();
    }
    void start(int status, net::Headers headers) override {
        CAPSTAN_CHECK(!started_, "answered twice");
        started_ = true;
        session_->put_head(status, std::move(headers));
    }
    void write(std::string bytes, std::function<void(Result<void>)> done) override {
        CAPSTAN_CHECK(started_ && !ended_, "write outside a streaming answer");
        session_->put_body(std::move(bytes), std::move(done));
    }
    void end() override {
        ended_ = true;
        session_->put_end();
    }
    void on_closed(std::function<void()> closed) override {
        if (session_->server_open) {
            session_->closed = std::move(closed);
        } else {
            session_->after({}, std::move(closed));
        }
    }

private:
    // Runs `give` later, when `ready` holds. The server keeps *this alive until its callback has
    // run.
    void when_body(std::function<bool()> ready, std::function<void()> give) {
        session_->after({}, [s = session_.get(), ready = std::move(ready), give = std::move(give)] {
            wait_body(s, ready, give);
        });
    }
    static void wait_body(Session* s,
                          const std::function<bool()>& ready,
                          const std::function<void()>& give) {
        if (ready() || !s->server_open) {
            give();
        } else {
            s->wanted = [s, ready, give] { wait_body(s, ready, give); };
        }
    }

    const std::shared_ptr<Session> session_;
    bool started_{false};
    bool ended_{false};
};

}  // namespace

struct LocalTransport::State {
    State(net::Loop& l, net::ServerHandler h, LocalTransportOptions o)
        : loop(l),
          handler(std::move(h)),
          options(std::make_shared<const LocalTransportOptions>(std::move(o))) {}

    net::Loop& loop;
    net::ServerHandler handler;
    std::shared_ptr<const LocalTransportOptions> options;
    std::function<Fault(const net::HttpRequest&)> faults;
    std::shared_ptr<bool> partitioned{std::make_shared<bool>(false)};
    std::vector<std::weak_ptr<Session>> sessions;
    std::uint64_t requests{0};
};

LocalTransport::LocalTransport(net::Loop& loop,
                               net::ServerHandler handler,
                               LocalTransportOptions options)
    : state_(std::make_shared<State>(loop, std::move(handler), std::move(options))) {}

LocalTransport::~LocalTransport() {
    for (const auto& weak : std::exchange(state_->sessions, {})) {
        if (const auto session = weak.lock()) {
            session->abandon();
        }
    }
}

namespace {

std::string status_body(int status) {
    const json::Value body = {
        {"kind", "Status"},
        {"apiVersion", "v1"},
        {"metadata", json::object()},
        {"status", "Failure"},
        {"message", "injected fault"},
        {"reason", status == 410 ? "Expired" : ""},
        {"code", status},
    };
    return json::dump(body);
}

}  // namespace

void LocalTransport::set_faults(std::function<Fault(const net::HttpRequest&)> faults) {
    state_->faults = std::move(faults);
}

namespace {

// Puts the request on its way. `State` is the transport's private state.
template <class State>
void dispatch(const std::shared_ptr<State>& state, const std::shared_ptr<Session>& session) {
    session->options = state->options;
    session->partitioned = state->partitioned;
    session->fault = state->faults ? state->faults(session->request) : Fault{};
    ++state->requests;
    std::erase_if(state->sessions, [](const auto& weak) { return weak.expired(); });
    state->sessions.push_back(session);
    if (session->request.deadline != kNever) {
        session->deadline = state->loop.at(session->request.deadline, [s = std::weak_ptr(session)] {
            if (const auto live = s.lock()) {
                live->fail_client(Error{Code::timeout, "no answer before the deadline", {}});
            }
        });
    }
    if (session->fault.refuse || *state->partitioned) {
        session->after({}, [s = session.get()] { s->fail_client(broken("connection refused")); });
        return;
    }
    session->after(state->options->latency + session->fault.request_delay, [state, session] {
        if (!session->client_open) {
            return;
        }
        if (session->fault.status) {
            const auto exchange = std::make_shared<ServerEnd>(session);
            net::Headers headers = {{"Content-Type", "application/json"}};
            if (session->fault.retry_after.count() > 0) {
                headers.emplace_back("Retry-After",
                                     std::to_string(session->fault.retry_after.count()));
            }
            exchange->respond(
                *session->fault.status, std::move(headers), status_body(*session->fault.status));
            return;
        }
        if (session->fault.duplicate) {
            const auto ghost = std::make_shared<Session>(state->loop);
            ghost->request = session->request;
            ghost->options = session->options;
            ghost->partitioned = session->partitioned;
            ghost->request_body = session->request_body;
            ghost->request_ended = true;
            ghost->client_open = false;
            state->sessions.push_back(ghost);
            state->handler(std::make_shared<ServerEnd>(ghost));
        }
        state->handler(std::make_shared<ServerEnd>(session));
    });
}

}  // namespace

std::unique_ptr<net::HttpExchange> LocalTransport::send(
    net::HttpRequest request, std::function<void(Result<net::HttpResponse>)> done) {
    auto session = std::make_shared<Session>(state_->loop);
    session->request_body = std::exchange(request.body, {});
    session->request_ended = true;
    session->request = std::move(request);
    session->done = std::move(done);
    dispatch(state_, session);
    return std::make_unique<ClientEnd>(std::move(session));
}

std::unique_ptr<net::HttpStream> LocalTransport::stream(net::HttpRequest request,
                                                        net::StreamOptions options,
                                                        net::StreamHandler handler) {
    auto session = std::make_shared<Session>(state_->loop);
    session->is_stream = true;
    session->request_ended = !options.body_follows;
    session->request_body = std::exchange(request.body, {});
    session->request = std::move(request);
    session->stream_options = options;
    session->handler = std::move(handler);
    dispatch(state_, session);
    return std::make_unique<ClientEnd>(std::move(session));
}

std::size_t LocalTransport::cut_all() {
    std::size_t count = 0;
    for (const auto& weak : state_->sessions) {
        if (const auto session = weak.lock(); session && session->client_open) {
            ++count;
            session->after(
                {}, [s = session.get()] { s->fail_client(broken("connection reset by peer")); });
        }
    }
    return count;
}

void LocalTransport::set_partitioned(bool partitioned) {
    *state_->partitioned = partitioned;
    if (!partitioned) {
        for (const auto& weak : state_->sessions) {
            if (const auto session = weak.lock()) {
                session->release();
            }
        }
    }
}

std::size_t LocalTransport::open_streams() const noexcept {
    std::size_t count = 0;
    for (const auto& weak : state_->sessions) {
        const auto session = weak.lock();
        count += session && session->client_open && session->is_stream ? 1 : 0;
    }
    return count;
}

std::uint64_t LocalTransport::requests() const noexcept {
    return state_->requests;
}

}  // namespace capstan::test
