#include "plugins/steward-bridge/api/api_service.hpp"

#include "plugins/steward-bridge/files.hpp"
#include "plugins/steward-bridge/tls_files.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace capstan::steward {
namespace {

constexpr std::chrono::milliseconds kAskTimeout{5'000};

// The certificate goes first: the listener turns away from TLS by it.
void remove_tls(const std::string& directory) {
    for (const char* file : {"/tls.crt", "/tls.key", "/client.crt", "/client.key", "/ca.crt"}) {
        std::remove((directory + file).c_str());
    }
}

std::string secrets_of(const Configuration& configuration) {
    const TlsGroup none;
    const TlsGroup& tls = configuration.backup_tls ? *configuration.backup_tls : none;
    std::string text = configuration.api_token_secret;
    for (const std::string& name :
         {tls.ca_secret, tls.ca_key, tls.server_secret, tls.client_secret}) {
        text += "\n" + name;
    }
    return text;
}

bool is_away(const Error& error) {
    return error.code == Code::unavailable || error.code == Code::timeout;
}

}  // namespace

std::string cluster_token_file(const PodMap& map, const Identity& identity) {
    return map.path(identity.run_dir) + "/cluster-token";
}

Result<void> ApiService::run(Call& call) {
    while (!call.cancelled()) {
        look(call);
        const Result<void> woken = call.wait(member_.api_wake(), std::min(refresh_at_, check_at_));
        if (!woken && woken.error().code != Code::timeout) {
            break;
        }
    }
    return ok();
}

void ApiService::look(Call& call) {
    const auto configuration = read_configuration(call, member_.identity());
    const auto map = PodMap::load();
    if (!configuration || !map) {  // the member service says why
        refresh_at_ = check_at_ = call.now() + kApiRetry;
        return;
    }
    const bool tls = configuration.value().backup_tls.has_value();
    const std::string secrets = secrets_of(configuration.value());
    if (call.now() >= refresh_at_ || secrets != configured_by_) {
        configured_by_ = secrets;
        const auto fresh = refresh(call, configuration.value(), map.value());
        if (!fresh && !is_away(fresh.error())) {
            report(call, "CertificatesUnreadable", fresh.error().message);
            refresh_at_ = check_at_ = call.now() + kApiRetry;
            return;
        }
        refresh_at_ =
            call.now() + (tls ? std::chrono::nanoseconds(kApiSecretsPeriod) : kApiTokenPeriod);
        check_at_ = std::min(check_at_, call.now());
    }
    if (!tls) {
        check_at_ = fails_since_ = kNever;
        return report(call, {}, {});
    }
    if (call.now() >= check_at_) {
        check(call, configuration.value(), map.value());
    }
}

void ApiService::check(Call& call, const Configuration& configuration, const PodMap& map) {
    const auto asked = ask_itself(call, configuration, map);
    check_at_ = call.now() + (asked ? kApiCheckPeriod : kApiRetry);
    if (asked) {
        fails_since_ = kNever;
        return report(call, {}, {});
    }
    fails_since_ = std::min(fails_since_, call.now());
    if (call.now() - fails_since_ < kApiPatience) {
        return;
    }
    const TlsGroup& group = *configuration.backup_tls;
    report(call,
           "CertificatesRefused",
           asked.error().message + "; remedy: the pairs of the Secrets " + group.server_secret +
               " and " + group.client_secret + " must be issued by the CA of Secret " +
               group.ca_secret + ", the first for the name " +
               host_of(configuration.local_endpoint));
}

Result<void> ApiService::refresh(Call& call,
                                 const Configuration& configuration,
                                 const PodMap& map) {
    CAPSTAN_TRY(refresh_token(call, configuration, map));
    const Identity& me = member_.identity();
    const std::string directory = api_tls_directory(map, me);
    if (!configuration.backup_tls) {
        remove_tls(directory);
        return ok();
    }
    CAPSTAN_TRY(write_tls_group(call, me.ns, *configuration.backup_tls, directory));
    return ok();
}

Result<void> ApiService::refresh_token(Call& call,
                                       const Configuration& configuration,
                                       const PodMap& map) {
    const Identity& me = member_.identity();
    const std::string file = cluster_token_file(map, me);
    const std::string& name = configuration.api_token_secret;
    auto token = name.empty() ? Result<std::string>(fail(Code::not_found, "none is configured"))
                              : read_secret(call, me.ns, name, "token");
    if (token) {
        const auto present = read_file(file);
        return present && present.value() == token.value() ? Result<void>(ok())
                                                           : write_file(file, token.value());
    }
    if (is_away(token.error())) {
        return fail(token.error());
    }
    // Taken away: it opens nothing any more. The launcher has one of its own.
    if (std::remove(file.c_str()) == 0) {
        call.log(LogLevel::info, "the cluster's token is gone", {{"error", token.error().message}});
    }
    return ok();
}

// As another steward would: with its pair, believing its CA, by the name they agree on.
Result<void> ApiService::ask_itself(Call& call,
                                    const Configuration& configuration,
                                    const PodMap& map) {
    HttpRequest request;
    CAPSTAN_TRY(request.tls,
                read_tls(steward_tls_files(configured_, configuration, map, member_.identity())));
    CAPSTAN_TRY(const std::string base, map.url(configuration.local_endpoint));
    CAPSTAN_TRY(request.url, steward_url(base, configuration.api_port, true));
    request.url += "/healthz";
    request.timeout = kAskTimeout;
    auto answer = call.http().send(request);
    if (!answer) {
        return fail(with_context(std::move(answer).error(), request.url));
    }
    return ok();
}

void ApiService::report(Call& call, std::string_view reason, const std::string& message) {
    ApiReport now{std::string(reason), message};
    if (!(now == member_.api_report()) && !reason.empty()) {
        call.log(LogLevel::warn,
                 "the API cannot be reached from outside of this pod",
                 {{"error", message}});
    }
    member_.set_api_report(std::move(now));
}

}  // namespace capstan::steward
