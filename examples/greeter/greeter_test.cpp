// The plugin's entry is linked in and driven by the SDK's fake host. Exit code 0: it does its job.
#include <capstan/testing/fake_host.hpp>

#include <cstdio>

int main() {
    using namespace capstan;
    testing::FakeHost host;
    host.put(
        {{"apiVersion", "v1"},
         {"kind", "ConfigMap"},
         {"metadata", {{"namespace", "n"}, {"name", "main"}, {"labels", {{"greet", "yes"}}}}}});
    testing::PluginUnderTest plugin(host, &capstan_plugin_entry);
    const testing::Reconciled first = plugin.reconcile("greeter", "v1/ConfigMap", {"n", "main"});
    const auto service = host.find("v1/Service", {"n", "main-client"});
    host.clear_calls();
    plugin.reconcile("greeter", "v1/ConfigMap", {"n", "main"});
    const auto owner = host.find("v1/ConfigMap", {"n", "main"});
    const bool good = first.rc == CAPSTAN_OK && service && host.write_count() == 0 && owner &&
                      json::View(*service)["spec"]["ports"][0]["port"].int_or(0) == 2379 &&
                      json::View(*service)["metadata"]["ownerReferences"][0]["uid"].string_or("") ==
                          json::View(*owner)["metadata"]["uid"].string_or("none");
    std::puts(good ? "greeter: good" : "greeter: FAILED");
    return good ? 0 : 1;
}
