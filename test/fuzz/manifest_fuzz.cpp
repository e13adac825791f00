// The JSON of a manifest note: accepted or refused with sentences, never more than its limits.
#include "runtime/plugin/manifest.hpp"
#include "test/fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace capstan;
    using fuzz::require;
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    plugin::Problems problems;
    const auto manifest = plugin::parse_manifest(text, {}, problems);
    require(manifest.has_value() == problems.empty(), "a manifest or problems, never both");
    for (const std::string& problem : problems.lines()) {
        require(!problem.empty(), "a problem has a text");
    }
    if (!manifest) {
        return 0;
    }
    require(!manifest->id.empty(), "a manifest has an id");
    const auto again = plugin::parse_manifest(json::dump(manifest->document));
    require(again.has_value(), "a manifest printed is a manifest");
    for (const auto& controller : manifest->controllers) {
        require(
            !controller.watches.empty() && controller.watches.front().role == plugin::Role::primary,
            "the primary watch is first");
        require(controller.max_concurrent >= 1 && controller.max_concurrent <= plugin::kWorkersMax,
                "workers are limited");
        for (const auto& watch : controller.watches) {
            (void)watch.predicate.evaluate({});
            (void)manifest->allows("list", watch.gvk.group, plugin::plural_of(watch.gvk.kind), "x");
        }
    }
    return 0;
}
