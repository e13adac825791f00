// For tests: a Call of the fake host, which only a plugin gets.
#pragma once

#include "capstan/plugin.hpp"
#include "capstan/testing/fake_host.hpp"

#include <functional>
#include <memory>

#include <gtest/gtest.h>

namespace capstan::steward {

// What the plugin below runs; one thread drives all tests.
inline std::function<void(Call&)>& testing_work() {
    static std::function<void(Call&)> current;
    return current;
}

class TestingProbe final : public Service {
public:
    Result<void> run(Call& call) override {
        testing_work()(call);
        return ok();
    }
};

inline const capstan_plugin* testing_entry(const capstan_host* host) CAPSTAN_NOEXCEPT {
    const MakePlugin make = [](Setup& setup) -> Result<void> {
        setup.service("probe", std::make_unique<TestingProbe>());
        return ok();
    };
    return detail::plugin_entry(host, make, "probe.example.io", "0.1.0");
}

// Runs `work` as the service of a plugin.
inline void with_call(capstan::testing::FakeHost& host, std::function<void(Call&)> work) {
    capstan::testing::PluginUnderTest plugin(host, &testing_entry);
    ASSERT_TRUE(plugin.running());
    testing_work() = std::move(work);
    EXPECT_EQ(plugin.run_service("probe"), CAPSTAN_OK);
}

}  // namespace capstan::steward
