#include "runtime/plugin/inspect.hpp"

#include "runtime/plugin/plugin_file.hpp"

namespace capstan::plugin {

namespace {

void add_warnings(Report& report) {
    if (report.elf->constructor_count > 4) {
        report.warnings.push_back(
            std::to_string(report.elf->constructor_count) +
            " constructors run when it is loaded, before the host can look at it");
    }
    if (!report.elf->marked_nodelete) {
        report.warnings.emplace_back(
            "is not linked with -z nodelete; the host keeps it mapped all the same");
    }
    if (!report.manifest) {
        return;
    }
    for (const ControllerSpec& controller : report.manifest->controllers) {
        for (const Watch& watch : controller.watches) {
            if (watch.map.kind == MapRule::Kind::all) {
                report.warnings.push_back("controller " + controller.name + ": every event of " +
                                          watch.gvk.to_string() +
                                          " wakes all objects of the namespace");
            }
        }
    }
}

}  // namespace

Report inspect(const std::string& path, const InspectOptions& options) {
    Report report;
    report.path = path;
    const auto file = PluginFile::open(path);
    if (!file) {
        report.problems.push_back(file.error().message);
        return report;
    }
    report.size_bytes = file.value()->size();
    if (options.check_permissions) {
        report.problems = permission_problems(*file.value(), path);
    }
    auto facts = read_elf(*file.value());
    if (!facts) {
        report.problems.push_back(facts.error().message);
        return report;
    }
    const auto digest = file.value()->sha256_hex();
    if (!digest) {
        report.problems.push_back(digest.error().message);
        return report;
    }
    report.sha256 = digest.value();
    report.elf = std::move(facts).value();
    for (std::string& reason : refuse_reasons(*report.elf)) {
        report.problems.push_back(std::move(reason));
    }
    Problems problems;
    report.manifest = parse_manifest(report.elf->manifest, options.host, problems);
    for (const std::string& line : problems.lines()) {
        report.problems.push_back("manifest: " + line);
    }
    add_warnings(report);
    return report;
}

}  // namespace capstan::plugin
