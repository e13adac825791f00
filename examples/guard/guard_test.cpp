// The plugin's entry is linked in and driven by the SDK's fake host. Exit code 0: it does its job.
#include <capstan/testing/fake_webhook.hpp>

#include <cstdio>

int main() {
    using namespace capstan;
    testing::FakeHost host;
    testing::PluginUnderTest plugin(host, &capstan_plugin_entry, R"({"maxKeys": 1})");
    const auto ask = [&host](const char* webhook, json::Value data) {
        return testing::review(host,
                               webhook,
                               {{"operation", "CREATE"},
                                {"namespace", "n"},
                                {"userInfo", {{"username", "alice"}}},
                                {"object", {{"metadata", {{"name", "a"}}}, {"data", data}}}});
    };
    const auto owned = ask("owner", json::object());
    const auto few = ask("limits", {{"a", "1"}});
    const auto many = ask("limits", {{"a", "1"}, {"b", "2"}});
    host.put({{"apiVersion", "v1"},
              {"kind", "ConfigMap"},
              {"metadata", {{"namespace", "n"}, {"name", "guard-policy"}}},
              {"data", {{"maxKeys", "2"}}}});
    const bool good =
        owned.allowed &&
        json::View(owned.object)["metadata"]["annotations"]["guard.example.com/owner"].string_or(
            "") == "alice" &&
        few.allowed && !many.allowed && many.code == 403 &&
        ask("limits", {{"a", "1"}, {"b", "2"}}).allowed;
    std::puts(good ? "guard: good" : "guard: FAILED");
    return good ? 0 : 1;
}
