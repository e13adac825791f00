// Short texts with a grammar of their own: quantities, durations, times, versions, addresses,
// escapes, names of kinds, variables. Input: one byte of choice, then the text.
#include "capstan/clock.hpp"
#include "capstan/object_ref.hpp"
#include "runtime/config/yaml.hpp"
#include "runtime/kube/object.hpp"
#include "runtime/net/url.hpp"
#include "runtime/plugin/operand_value.hpp"
#include "runtime/plugin/variables.hpp"
#include "test/fuzz/fuzz.hpp"

#include <string>

namespace capstan {
namespace {

using fuzz::require;

void check_numbers(std::string_view text) {
    const std::string copy(text);
    const auto quantity = plugin::parse_quantity(copy);
    if (quantity && copy.find_first_not_of("0123456789") == std::string::npos) {
        require(*quantity % 1'000'000'000 == 0, "whole numbers are whole");
    }
    if (quantity && !copy.starts_with('-') && !copy.starts_with('+')) {
        const auto negative = plugin::parse_quantity("-" + copy);
        require(negative.has_value(), "a minus sign keeps a quantity one");
        require(*negative <= 0 && *quantity >= 0, "and turns its sign");
    }
    const auto duration = parse_duration(copy);
    if (duration) {
        const auto again = parse_duration(std::to_string(duration->count()) + "ns");
        require(again && *again == *duration, "a duration in nanoseconds is the same");
    }
    if (const auto time = parse_rfc3339(copy)) {
        const auto seconds = parse_rfc3339(to_rfc3339(*time));
        require(seconds.has_value(), "a time printed can be read");
        require(to_rfc3339(*seconds) == to_rfc3339(*time), "and is the same to the second");
        require(parse_rfc3339(to_rfc3339_micro(*time)).has_value(), "also with microseconds");
    }
    (void)config::resolve_plain(copy);
    for (const char* other : {"", "0", "7", "18446744073709551616", "x"}) {
        const auto forth = kube::compare_resource_versions(copy, other);
        const auto back = kube::compare_resource_versions(other, copy);
        require(forth.has_value() == back.has_value() && (!forth || *forth == -*back),
                "versions are ordered both ways");
    }
}

void check_addresses(std::string_view text) {
    const std::string copy(text);
    if (const auto decoded = net::decode_segment(copy)) {
        const auto again = net::decode_segment(net::encode_segment(decoded.value()));
        require(again && again.value() == decoded.value(), "segments are escaped and back");
    }
    if (const auto query = net::parse_query(copy)) {
        const auto again = net::parse_query(net::build_query(query.value()));
        require(again && again.value() == query.value(), "queries are built and parsed");
    }
    if (const auto target = net::parse_target(copy)) {
        require(target.value().path.starts_with('/'), "a target's path starts with a slash");
    }
    if (const auto endpoint = net::parse_endpoint(copy)) {
        require(!endpoint.value().host.empty(), "an endpoint has a host");
        if (endpoint.value().scheme != net::Scheme::unix_socket) {
            const auto again = net::parse_endpoint(
                "http://" + net::join_host_port(endpoint.value().host, endpoint.value().port));
            require(again && again.value().host == endpoint.value().host &&
                        again.value().port == endpoint.value().port,
                    "an endpoint is joined and parsed");
        }
    }
    (void)net::is_ip_address(copy);
}

void check_names(std::string_view text) {
    const std::string copy(text);
    if (const auto gvk = GroupVersionKind::parse(copy)) {
        require(gvk.value().to_string() == copy, "a kind is printed as it was written");
    }
    const auto lookup = [](const std::string& name) -> std::optional<std::string> {
        return name.size() % 2 == 0 ? std::optional<std::string>("v$(" + name + ")") : std::nullopt;
    };
    if (plugin::has_only_whole_variables(copy)) {
        const auto expanded = plugin::expand_variables(copy, lookup);
        require(expanded || !expanded.error().message.empty(), "a refusal says why");
    }
}

}  // namespace
}  // namespace capstan

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    capstan::fuzz::Input input(data, size);
    switch (input.below(3)) {
        case 0: capstan::check_numbers(input.rest()); break;
        case 1: capstan::check_addresses(input.rest()); break;
        default: capstan::check_names(input.rest()); break;
    }
    return 0;
}
