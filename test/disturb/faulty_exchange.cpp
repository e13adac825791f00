#include "test/disturb/faulty_exchange.hpp"

#include <deque>
#include <utility>

namespace capstan::test {
namespace {

constexpr const char* kExpired =
    R"({"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410,"message":"too old resource version"}})"
    "\n";

using Inner = std::shared_ptr<net::ServerExchange>;

class FaultyExchange final : public net::ServerExchange,
                             public std::enable_shared_from_this<FaultyExchange> {
public:
    FaultyExchange(net::Loop& loop, Inner inner, const Trouble& trouble)
        : loop_(loop),
          inner_(std::move(inner)),
          trouble_(trouble),
          method_(inner_->method()),
          target_(inner_->target()),
          headers_(inner_->headers()),
          remote_(inner_->remote()),
          name_(inner_->certificate_common_name()),
          groups_(inner_->certificate_organizations()) {}

    const std::string& method() const noexcept override { return method_; }
    const std::string& target() const noexcept override { return target_; }
    const net::Headers& headers() const noexcept override { return headers_; }
    const std::string& remote() const noexcept override { return remote_; }
    const std::string& certificate_common_name() const noexcept override { return name_; }
    const std::vector<std::string>& certificate_organizations() const noexcept override {
        return groups_;
    }
    void read(std::size_t bytes_max, std::function<void(Result<std::string>)> done) override {
        inner_->read(bytes_max, std::move(done));
    }
    void read_all(std::size_t bytes_max, std::function<void(Result<std::string>)> done) override {
        inner_->read_all(bytes_max, std::move(done));
    }
    void respond(int status, net::Headers headers, std::string body) override {
        if (inner_) {
            deepen(body);
            inner_->respond(status, std::move(headers), std::move(body));
        }
    }
    void start(int status, net::Headers headers) override {
        if (inner_) {
            inner_->start(status, std::move(headers));
        }
    }
    void write(std::string bytes, std::function<void(Result<void>)> done) override {
        if (!inner_ || (trouble_.silent_soon && written_ > 0)) {
            swallow(std::move(done));
            return;
        }
        if (trouble_.without_end && bytes.find("initial-events-end") != std::string::npos) {
            const std::size_t line = bytes.rfind("\n", bytes.find("initial-events-end"));
            bytes.erase(line == std::string::npos ? 0 : line + 1);
        }
        if (trouble_.expired_in_stream) {
            bytes = kExpired;
        }
        deepen(bytes);
        if (trouble_.padded_to > 0) {
            pad(bytes);
        }
        const bool breaks = trouble_.cut_after > 0 && written_ + bytes.size() >= trouble_.cut_after;
        if (breaks) {
            bytes.resize(trouble_.cut_after - written_);
        }
        written_ += bytes.size();
        if (bytes.empty()) {
            swallow(std::move(done));
        } else if (trouble_.byte_by_byte) {
            trickle(std::make_shared<std::string>(std::move(bytes)), 0, std::move(done));
        } else {
            const bool over = breaks || trouble_.expired_in_stream;
            inner_->write(
                std::move(bytes),
                [self = shared_from_this(), over, done = std::move(done)](Result<void> result) {
                    done(std::move(result));
                    if (over) {
                        self->break_off();
                    }
                });
        }
    }
    void end() override {
        if (inner_ && !trouble_.silent_soon) {
            inner_->end();
        }
    }
    void on_closed(std::function<void()> closed) override {
        closed_ = std::make_shared<std::function<void()>>(std::move(closed));
        if (inner_) {
            inner_->on_closed([call = closed_] { (*call)(); });
        }
    }

private:
    void swallow(std::function<void(Result<void>)> done) {
        loop_.post([done = std::move(done)] { done(ok()); });
    }
    void deepen(std::string& bytes) const {
        const std::string value = "\"" + std::string(kDeepValue) + "\"";
        for (std::size_t at = 0;
             trouble_.deepened && (at = bytes.find(value, at)) != std::string::npos;) {
            std::string deep = "1";
            for (int i = 0; i < 200; ++i) {
                deep = "{\"a\":" + deep + "}";
            }
            bytes.replace(at, value.size(), deep);
        }
    }
    // Blanks between the members of the first object.
    void pad(std::string& bytes) {
        const std::size_t at = bytes.find("\"object\":{");
        if (at != std::string::npos && bytes.size() < trouble_.padded_to) {
            bytes.insert(at + 10, trouble_.padded_to - bytes.size(), ' ');
            trouble_.padded_to = 0;
        }
    }
    void trickle(const std::shared_ptr<std::string>& bytes,
                 std::size_t from,
                 std::function<void(Result<void>)> done) {
        if (from == bytes->size() || !inner_) {
            done(ok());
            return;
        }
        inner_->write(bytes->substr(from, 1),
                      [self = shared_from_this(), bytes, from, done = std::move(done)](
                          const Result<void>& result) mutable {
                          if (result) {
                              self->trickle(bytes, from + 1, std::move(done));
                          } else {
                              done(fail(result.error()));
                          }
                      });
    }
    // Not inside a callback of the exchange that dies with it.
    void break_off() {
        loop_.post([self = shared_from_this()] {
            if (self->inner_ && self->trouble_.expired_in_stream) {
                self->inner_->end();
            }
            self->inner_.reset();  // the connection goes with it
            if (self->closed_) {
                (*self->closed_)();
            }
        });
    }

    net::Loop& loop_;
    Inner inner_;
    Trouble trouble_;
    const std::string method_;
    const std::string target_;
    const net::Headers headers_;
    const std::string remote_;
    const std::string name_;
    const std::vector<std::string> groups_;
    std::size_t written_{0};
    std::shared_ptr<std::function<void()>> closed_;  // shared with the inner exchange
};

}  // namespace

std::shared_ptr<net::ServerExchange> make_faulty(net::Loop& loop,
                                                 Inner inner,
                                                 const Trouble& trouble) {
    return std::make_shared<FaultyExchange>(loop, std::move(inner), trouble);
}

}  // namespace capstan::test
