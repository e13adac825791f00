#include "runtime/cli/election.hpp"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <optional>

namespace capstan::cli {
namespace {

constexpr std::chrono::seconds kReleaseSlack{2};  // over what the election takes itself
constexpr std::size_t kHostNameBytesMax = 256;

std::string host_name() {
    std::array<char, kHostNameBytesMax> name{};
    return ::gethostname(name.data(), name.size() - 1) == 0 ? std::string(name.data()) : "capstan";
}

}  // namespace

std::string make_identity(const std::string& configured,
                          const std::function<std::uint64_t()>& random) {
    std::array<char, 40> uuid{};
    const std::uint64_t high = random(), low = random();
    std::snprintf(uuid.data(),
                  uuid.size(),
                  "%08x-%04x-4%03x-%04x-%012llx",
                  static_cast<unsigned>(high >> 32),
                  static_cast<unsigned>(high >> 16) & 0xffffu,
                  static_cast<unsigned>(high) & 0xfffu,
                  (static_cast<unsigned>(low >> 48) & 0x3fffu) | 0x8000u,
                  static_cast<unsigned long long>(low & 0xffffffffffffull));
    return (configured.empty() ? host_name() : configured) + "_" + uuid.data();
}

Election::Election(Private, ElectionParts parts, lease::LeaderOptions options)
    : parts_(std::move(parts)), options_(std::move(options)), fence_(parts_.loop, parts_.metrics) {}

Result<std::unique_ptr<Election>> Election::create(ElectionParts parts,
                                                   const kube::ConnectionConfig& connection,
                                                   const config::LeaderElectionConfig& config) {
    lease::LeaderOptions options;
    options.ns = config.lease_namespace.empty() ? connection.ns : config.lease_namespace;
    options.name = config.lease_name;
    options.identity = make_identity(config.identity, parts.random);
    options.lease_duration = config.lease_duration;
    options.renew_deadline = config.renew_deadline;
    options.retry_period = config.retry_period;
    auto made = std::make_unique<Election>(Private{}, std::move(parts), std::move(options));
    kube::ConnectionConfig own = connection;
    own.http.connections_max = 1;
    own.http.idle_connections_max = 1;
    kube::ConnectionOptions client;
    client.user_agent = "capstan/" CAPSTAN_VERSION " (leader-election)";
    client.observer = made->parts_.observer;
    CAPSTAN_TRY(made->api_,
                kube::Connection::open(made->parts_.loop, std::move(own), std::move(client)));
    return made;
}

void Election::start(lease::ElectorHandler handler) {
    lease::ElectorParts parts{
        parts_.loop,
        api_->client(),
        fence_,
        parts_.log,
        parts_.metrics,
        parts_.health,
        [random = parts_.random] { return static_cast<double>(random() >> 11) * 0x1p-53; }};
    elector_ = std::make_unique<lease::Elector>(std::move(parts), options_, std::move(handler));
    elector_->start();
}

Result<void> Election::release() {
    std::optional<Result<void>> outcome;
    elector_->release([&outcome](Result<void> result) { outcome.emplace(std::move(result)); });
    parts_.loop.run_until([&outcome] { return outcome.has_value(); },
                          options_.renew_deadline + kReleaseSlack);
    return outcome ? std::move(*outcome)
                   : Result<void>(fail(Code::timeout, "the API server did not answer in time"));
}

}  // namespace capstan::cli
