// The plugin most tests use: for each ConfigMap with a value it keeps a Secret of the
// same name with that value.
#pragma once

#include "test/sim/world.hpp"

#include <map>
#include <set>
#include <string>

namespace capstan::test {

struct DemoRecord {
    std::map<std::string, int> runs;  // by key
    std::set<std::string> running;    // keys inside reconcile now
    int overlaps{0};                  // must stay 0
    std::map<std::string, std::string> last_error;
};

inline Outcome demo_reconcile(DemoRecord& record, Call& call, const Request& request) {
    const std::string key = request.key.to_string();
    ++record.runs[key];
    record.overlaps += record.running.insert(key).second ? 0 : 1;
    struct Leave {
        DemoRecord& record;
        const std::string& key;
        ~Leave() { record.running.erase(key); }
    } leave{record, key};
    auto source = call.cache().get_value("ConfigMap", request.key);
    if (!source) {
        return source.error().code == Code::not_found ? Outcome::done()
                                                      : Outcome::failed(source.error());
    }
    const json::View view(source.value());
    const auto value = view["data"]["value"].string_or("");
    const json::Value owner = {
        {"apiVersion", "v1"},
        {"kind", "ConfigMap"},
        {"name", request.key.name},
        {"uid", view["metadata"]["uid"].string_or("")},
        {"controller", true},
    };
    const json::Value secret = {
        {"apiVersion", "v1"},
        {"kind", "Secret"},
        {"metadata",
         {
             {"name", request.key.name},
             {"namespace", request.key.ns},
             {"annotations", {{"demo.example.io/value", value}}},
             {"ownerReferences", json::list({owner})},
         }},
        {"type", "Opaque"},
    };
    if (auto applied = call.client().apply("v1/Secret", secret); !applied) {
        record.last_error[key] = applied.error().message;
        return Outcome::failed(applied.error());
    }
    return Outcome::done();
}

inline TestPlugin demo_plugin(DemoRecord& record,
                              const std::string& id = "demo.example.io",
                              const json::Value& extra = {}) {
    TestPlugin plugin;
    plugin.id = id;
    plugin.manifest_json = manifest_json(id, extra);
    plugin.controllers["main"] = [&record](Call& call, const Request& request) {
        return demo_reconcile(record, call, request);
    };
    return plugin;
}

inline std::string secret_value(World& world, const std::string& name) {
    const auto secret = world.read("/api/v1/namespaces/ns/secrets/" + name);
    if (!secret) {
        return "<none>";
    }
    return std::string(
        json::View(*secret)["metadata"]["annotations"]["demo.example.io/value"].string_or(""));
}

}  // namespace capstan::test
