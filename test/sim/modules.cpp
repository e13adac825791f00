#include "test/sim/modules.hpp"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <utility>

namespace capstan::test {
namespace {

namespace fs = std::filesystem;

// The copies that were mapped are not needed after dlopen.
class CacheDirectory {
public:
    CacheDirectory() {
        std::string name = (fs::temp_directory_path() / "capstan-sim-XXXXXX").string();
        CAPSTAN_CHECK(::mkdtemp(name.data()) != nullptr, "no directory for plugin copies");
        path_ = name;
    }
    ~CacheDirectory() {
        std::error_code ignored;
        fs::remove_all(path_, ignored);
    }
    CacheDirectory(const CacheDirectory&) = delete;
    CacheDirectory& operator=(const CacheDirectory&) = delete;
    const std::string& path() const noexcept { return path_; }

private:
    std::string path_;
};

struct Slot {
    const capstan_plugin* inner{nullptr};
    const ReconcileWatch* watch{nullptr};
    capstan_plugin outer{};
};
// A C table has no context pointer, so each slot has a function of its own. One world at a time.
std::array<Slot, kGuardsMax> slots{};

std::string text_of(capstan_str text) {
    return {text.ptr, static_cast<std::size_t>(text.len)};
}

template <std::size_t N>
capstan_rc reconcile(capstan_ctl* ctl,
                     capstan_call* call,
                     const capstan_request* request) noexcept {
    const std::string controller = text_of(request->controller);
    const ObjectKey key{text_of(request->ns), text_of(request->name)};
    slots[N].watch->entered(controller, key);
    const capstan_rc rc = slots[N].inner->reconcile(ctl, call, request);
    slots[N].watch->left(controller, key);
    return rc;
}

template <std::size_t... N>
auto reconcile_of(std::size_t slot, std::index_sequence<N...>) {
    constexpr std::array functions{&reconcile<N>...};
    return functions[slot];
}

}  // namespace

std::string module_path(const std::string& name) {
    if (const char* given = std::getenv("CAPSTAN_SIM_PLUGINS")) {
        return (fs::absolute(given) / (name + ".so")).string();
    }
    const fs::path self = fs::read_symlink("/proc/self/exe");
    return (self.parent_path() / "../../plugins" / (name + ".so")).lexically_normal().string();
}

const plugin::Module& load_module(
    const std::string& name,
    const std::function<const capstan_host*(const plugin::Manifest&)>& host_for) {
    static std::map<std::string, const plugin::Module*> loaded;
    if (const auto found = loaded.find(name); found != loaded.end()) {
        return *found->second;
    }
    const CacheDirectory copies;
    plugin::Loader loader({copies.path(), {}, true});
    auto candidate = loader.check(module_path(name));
    CAPSTAN_CHECK(candidate.has_value(), candidate.error().message);
    const capstan_host* host = host_for(candidate.value().manifest());
    const auto module = loader.load(std::move(candidate).value(), host);
    CAPSTAN_CHECK(module.has_value(), module.error().message);
    loaded[name] = module.value();
    return *module.value();
}

const capstan_plugin* guarded(const capstan_plugin& table,
                              std::size_t slot,
                              const ReconcileWatch& watch) {
    CAPSTAN_CHECK(slot < kGuardsMax, "too many guarded plugins");
    slots[slot] = {&table, &watch, table};
    slots[slot].outer.reconcile = reconcile_of(slot, std::make_index_sequence<kGuardsMax>());
    return &slots[slot].outer;
}

}  // namespace capstan::test
