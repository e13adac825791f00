// For tests with real etcds: the restore engine on a directory store, as one small program.
//
//     restore-driver restore STORE DATA_DIR NAME INITIAL_CLUSTER TOKEN [REVISION [QUOTA]]
//     restore-driver verify STORE [REVISION]
//     restore-driver compact STORE FILE [REVISION]
//     restore-driver dump STORE FILE [REVISION]
//
// Prints the report as JSON. Exit: 0 done, 1 other failure, 2 usage, 6 damaged or incomplete,
// 7 no snapshot at all.
#include "plugins/steward-bridge/restore/directory_objects.hpp"
#include "plugins/steward-bridge/restore/dump.hpp"
#include "plugins/steward-bridge/stream/testing_digest.hpp"

#include "capstan/json.hpp"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>

namespace capstan::steward {
namespace {

class FileSink final : public Sink {
public:
    explicit FileSink(std::unique_ptr<bolt::NewFile> file) : file_(std::move(file)) {}
    Result<void> write(std::span<const std::uint8_t> bytes) override {
        return file_->append(bytes);
    }
    Result<void> finish() override { return file_->sync(); }

private:
    std::unique_ptr<bolt::NewFile> file_;
};

int print(const Result<RestoreReport>& result) {
    if (!result) {
        std::cerr << result.error().message << "\n";
        const Code code = result.error().code;
        return code == Code::invalid ? 6 : code == Code::not_found ? 7 : 1;
    }
    const RestoreReport& report = result.value();
    json::Value deltas = json::list(), warnings = json::list();
    for (const std::string& delta : report.deltas) {
        deltas.push_back(delta);
    }
    for (const std::string& warning : report.warnings) {
        warnings.push_back(warning);
    }
    const json::Value out = {{"full", report.full},
                             {"deltas", deltas},
                             {"baseRevision", report.base_revision},
                             {"revision", report.revision},
                             {"compactedTo", report.compacted_to},
                             {"databaseBytes", report.database_bytes},
                             {"baseEntries", report.counts.base_entries},
                             {"events", report.counts.events},
                             {"eventsKnown", report.counts.events_known},
                             {"leases", report.counts.leases},
                             {"leasesUnknown", report.counts.leases_unknown},
                             {"warnings", warnings}};
    std::puts(json::dump(out).c_str());
    return 0;
}

std::optional<std::int64_t> revision_argument(const std::vector<std::string>& args,
                                              std::size_t at) {
    if (args.size() <= at || args[at] == "0") {
        return std::nullopt;
    }
    return std::strtoll(args[at].c_str(), nullptr, 10);
}

Result<RestoreReport> run(const std::vector<std::string>& args) {
    TestingDigests digests;
    DirectoryObjects objects(args[1]);
    CAPSTAN_TRY(const SnapshotListing listing, objects.list());
    for (const SkippedKey& skipped : listing.skipped) {
        std::cerr << "skipped " << skipped.key << ": " << skipped.reason << "\n";
    }
    RestoreOptions options;
    options.work_directory = args.size() > 2 ? args[2] + ".work" : "/tmp/restore-driver.work";
    if (args[0] == "restore") {
        CAPSTAN_TRY(const NewCluster cluster, make_cluster(args[3], args[4], args[5]));
        options.to_revision = revision_argument(args, 6);
        if (args.size() > 7) {
            options.quota_bytes = std::strtoull(args[7].c_str(), nullptr, 10);
        }
        return restore(listing, objects, digests, cluster, args[2], options);
    }
    if (args[0] == "compact" || args[0] == "dump") {
        options.to_revision = revision_argument(args, 3);
        CAPSTAN_TRY(auto file, bolt::NewFile::create(args[2]));
        FileSink sink(std::move(file));
        return args[0] == "dump" ? dump(listing, objects, digests, sink, options)
                                 : compact(listing, objects, digests, sink, options);
    }
    options.work_directory = args[1] + ".verify";
    options.to_revision = revision_argument(args, 2);
    return verify(listing, objects, digests, options);
}

}  // namespace
}  // namespace capstan::steward

int main(int argc, char** argv) {
    const std::vector<std::string> args(argv + 1, argv + argc);
    const std::string what = args.empty() ? "" : args[0];
    const std::size_t needed = what == "restore" ? 6 : what == "verify" ? 2 : 3;
    const bool known = what == "restore" || what == "verify" || what == "compact" || what == "dump";
    if (!known || args.size() < needed) {
        std::cerr << "usage: restore-driver restore|verify|compact|dump STORE …\n";
        return 2;
    }
    return capstan::steward::print(capstan::steward::run(args));
}
