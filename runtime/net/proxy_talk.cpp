#include "runtime/net/proxy_talk.hpp"

#include "runtime/net/http1.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>

namespace capstan::net {

namespace {

using Step = ProxyTalk::Step;

constexpr std::size_t kStatusLineBytesMax = 120;  // of it, quoted in an error
constexpr std::size_t kSocksHostBytesMax = 255;   // its length is one byte
// The target speaks second, whether TLS or HTTP: nothing may follow the proxy's own words.
constexpr const char* kMore = "sends more than its answer";

Step problem(std::string text) {
    Step step;
    step.problem = std::move(text);
    return step;
}

Step say(std::string bytes) {
    Step step;
    step.send = std::move(bytes);
    return step;
}

Step opened() {
    Step step;
    step.open = true;
    return step;
}

class ConnectTalk final : public ProxyTalk {
public:
    ConnectTalk(const Proxy& proxy, const Endpoint& target) {
        const std::string authority = join_host_port(target.host, target.port);
        head_ = "CONNECT " + authority + " HTTP/1.1\r\n";
        append_header(head_, "Host", authority);
        if (proxy.login) {
            const std::string plain = proxy.login->user + ":" + proxy.login->password;
            append_header(head_, "Proxy-Authorization", "Basic " + encode_base64(plain));
        }
        head_ += "\r\n";
    }

    Step begin() override { return say(std::move(head_)); }
    Step take(std::string_view bytes) override {
        in_.append(bytes);
        const std::size_t end = in_.find("\r\n\r\n");
        if (end == std::string::npos && in_.size() < kProxyHeadBytesMax) {
            return {};
        }
        const std::string line = in_.substr(0, std::min(in_.find("\r\n"), kStatusLineBytesMax));
        const bool http = line.starts_with("HTTP/1.1 ") || line.starts_with("HTTP/1.0 ");
        if (end == std::string::npos || !http) {
            return problem("does not answer as an HTTP proxy");
        }
        if (line.size() < 12 || line[9] != '2') {
            std::string said = line.substr(9);
            std::replace_if(
                said.begin(), said.end(), [](char c) { return c < ' ' || c > '~'; }, ' ');
            return problem("the proxy refuses: " + said);
        }
        return end + 4 == in_.size() ? opened() : problem(kMore);
    }

private:
    std::string head_;
    std::string in_;
};

std::string_view reply_text(unsigned char code) noexcept {
    static constexpr std::array<std::string_view, 9> kTexts = {"",
                                                               "general failure",
                                                               "not allowed by its rules",
                                                               "network unreachable",
                                                               "host unreachable",
                                                               "connection refused",
                                                               "time to live expired",
                                                               "it knows no CONNECT",
                                                               "it knows no such address"};
    return code < kTexts.size() ? kTexts[code] : "unknown reason";
}

class Socks5Talk final : public ProxyTalk {
public:
    Socks5Talk(const Proxy& proxy, const Endpoint& target) : login_(proxy.login), target_(target) {}

    Step begin() override {
        if (target_.host.size() > kSocksHostBytesMax) {
            return problem("the name of the server has more than the 255 bytes SOCKS5 allows");
        }
        return say(login_ ? std::string{kVersion, 2, kNoLogin, kPassword}
                          : std::string{kVersion, 1, kNoLogin});
    }
    Step take(std::string_view bytes) override {
        in_.append(bytes);
        switch (waiting_) {
            case Waiting::method: return take_method();
            case Waiting::login: return take_login();
            case Waiting::reply: break;
        }
        return take_reply();
    }

private:
    enum class Waiting : std::uint8_t { method, login, reply };
    static constexpr char kVersion = 5;
    static constexpr char kNoLogin = 0;
    static constexpr char kPassword = 2;
    static constexpr char kNone = '\xff';
    static constexpr char kLoginVersion = 1;
    static constexpr char kIpv4 = 1;
    static constexpr char kName = 3;
    static constexpr char kIpv6 = 4;

    static Step foreign() { return problem("does not answer as a SOCKS5 proxy"); }

    Step take_method() {
        if (in_[0] != kVersion) {
            return foreign();
        }
        if (in_.size() != 2) {
            return in_.size() < 2 ? Step{} : problem(kMore);
        }
        const char method = in_[1];
        in_.clear();
        if (method == kNone) {
            return problem(login_ ? "the proxy refuses: it takes no password"
                                  : "the proxy refuses: it wants user:password@ in its URL");
        }
        if (method == kNoLogin) {
            return ask();
        }
        if (method != kPassword || !login_) {
            return foreign();
        }
        waiting_ = Waiting::login;
        return say(kLoginVersion + counted(login_->user) + counted(login_->password));
    }

    Step take_login() {
        if (in_[0] != kLoginVersion) {
            return foreign();
        }
        if (in_.size() != 2) {
            return in_.size() < 2 ? Step{} : problem(kMore);
        }
        if (in_[1] != 0) {
            return problem("the proxy refuses: wrong user or password");
        }
        in_.clear();
        return ask();
    }

    Step ask() {
        waiting_ = Waiting::reply;
        return say(std::string{kVersion, 1, 0} + address() + static_cast<char>(target_.port >> 8) +
                   static_cast<char>(target_.port & 0xff));
    }

    Step take_reply() {
        if (in_[0] != kVersion) {
            return foreign();
        }
        if (in_.size() < 2) {
            return {};
        }
        if (in_[1] != 0) {  // what follows says nothing
            const auto code = static_cast<unsigned char>(in_[1]);
            return problem("the proxy refuses: " + join_host_port(target_.host, target_.port) +
                           ": " + std::string(reply_text(code)) + " (" + std::to_string(code) +
                           ")");
        }
        if (in_.size() < 5) {
            return {};
        }
        std::size_t size = 4 + 2;  // and the address it connects from, which is of no use here
        switch (in_[3]) {
            case kIpv4: size += 4; break;
            case kIpv6: size += 16; break;
            case kName:
                size += 1 + static_cast<std::size_t>(static_cast<unsigned char>(in_[4]));
                break;
            default: return foreign();
        }
        if (in_.size() < size) {
            return {};
        }
        return in_.size() == size ? opened() : problem(kMore);
    }

    static std::string counted(std::string_view text) {  // requires: at most 255 bytes
        return static_cast<char>(text.size()) + std::string(text);
    }

    // An address as such, else the name: where it leads is the proxy's affair.
    std::string address() const {
        std::array<char, 16> bytes{};
        if (::inet_pton(AF_INET, target_.host.c_str(), bytes.data()) == 1) {
            return kIpv4 + std::string(bytes.data(), 4);
        }
        if (::inet_pton(AF_INET6, target_.host.c_str(), bytes.data()) == 1) {
            return kIpv6 + std::string(bytes.data(), 16);
        }
        return kName + counted(target_.host);
    }

    const std::optional<ProxyLogin> login_;
    const Endpoint target_;
    Waiting waiting_{Waiting::method};
    std::string in_;  // of the answer that is waited for
};

}  // namespace

std::unique_ptr<ProxyTalk> make_proxy_talk(const Proxy& proxy, const Endpoint& target) {
    if (proxy.kind == ProxyKind::socks5) {
        return std::make_unique<Socks5Talk>(proxy, target);
    }
    return std::make_unique<ConnectTalk>(proxy, target);
}

}  // namespace capstan::net
