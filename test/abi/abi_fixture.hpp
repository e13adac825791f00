// What the tests with real modules share: where they lie, a directory of their own, a host.
#pragma once

#include "capstan/testing/fake_host.hpp"
#include "runtime/plugin/module.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace capstan::plugin {

// The .so of test/abi/plugins by name.
inline std::string test_plugin(const std::string& name) {
    const char* directory = std::getenv("CAPSTAN_TEST_PLUGINS");
    return std::string(directory != nullptr ? directory : ".") + "/" + name + ".so";
}

inline std::string read_bytes(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

class AbiTest : public ::testing::Test {
protected:
    AbiTest() {
        std::string pattern =
            (std::filesystem::temp_directory_path() / "capstan-abi-XXXXXX").string();
        directory_ = ::mkdtemp(pattern.data());
    }
    ~AbiTest() override {
        std::error_code ignored;
        std::filesystem::remove_all(directory_, ignored);
    }

    std::string path(const std::string& name) const { return directory_ + "/" + name; }
    std::string write(const std::string& name, const std::string& bytes) const {
        std::ofstream(path(name), std::ios::binary) << bytes;
        return path(name);
    }
    Loader loader() const {
        LoaderOptions options;
        options.cache_dir = path("cache");
        return Loader(std::move(options));
    }
    // The error of checking `file`, or of loading it when checking passes; "": it loads.
    std::string refusal(const std::string& file) {
        Loader plugins = loader();
        auto candidate = plugins.check(file);
        if (!candidate) {
            return candidate.error().message;
        }
        const auto module = plugins.load(std::move(candidate).value(), host_.host());
        return module ? "" : module.error().message;
    }

    capstan::testing::FakeHost host_;
    std::string directory_;
};

}  // namespace capstan::plugin
