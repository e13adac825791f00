#include "runtime/control/http_pool.hpp"

#include "runtime/control/digest.hpp"

#include <algorithm>

namespace capstan::control {

Result<std::shared_ptr<net::HttpClient>> HttpPool::client(const net::HttpClientOptions& options) {
    const net::TlsClientOptions& tls = options.tls;
    // Keys are secrets: only a digest of them is kept here.
    std::string identity;
    for (const std::string* text :
         {&tls.ca_pem, &tls.certificate_pem, &tls.key_pem, &tls.server_name}) {
        identity += std::to_string(text->size()) + ":" + *text;
    }
    const std::string key =
        options.endpoint + (tls.insecure ? " insecure " : " ") + sha256(identity);
    const auto found = std::find_if(
        clients_.begin(), clients_.end(), [&key](const Entry& e) { return e.key == key; });
    if (found != clients_.end()) {
        clients_.splice(clients_.begin(), clients_, found);
        return clients_.front().client;
    }
    if (!factory_) {
        return fail(Code::unsupported, "this host makes no HTTP clients");
    }
    CAPSTAN_TRY(std::unique_ptr<net::HttpClient> made, factory_(options));
    clients_.push_front({key, std::move(made)});
    if (clients_.size() > kHttpClientsMax) {
        clients_.pop_back();
    }
    return clients_.front().client;
}

}  // namespace capstan::control
