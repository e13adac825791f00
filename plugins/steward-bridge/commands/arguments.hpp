// What stands behind `capstan backup` on the command line. Thread: any (values).
#pragma once

#include "plugins/steward-bridge/snapshot/compression.hpp"
#include "plugins/steward-bridge/snapshot/histories.hpp"
#include "plugins/steward-bridge/snapshot/retention.hpp"

#include "capstan/clock.hpp"
#include "capstan/error.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::steward {

// One store as options name it.
struct StoreArguments {
    std::string provider;   // as written
    std::string container;  // bucket, or directory
    std::string prefix;     // without slashes at the ends
    std::string endpoint, region, ca_file;
    bool path_style{false};
};

struct BackupArguments {
    std::string command;  // "list", "restore", …
    StoreArguments store;
    StoreArguments to;  // copy
    bool as_json{false};
    std::optional<bool> progress;  // nothing: when stderr is a terminal

    // verify, restore, compact, dump
    HistoryWish wish;
    bool accept_other_history{false};
    std::string work_directory;  // where room for the base is; "": beside the result, or $TMPDIR

    bool all{false};      // verify: every object, not only those a restore would read
    bool dry_run{false};  // compact, copy
    bool force{false};    // restore, dump

    // restore
    std::string data_directory, name{"default"}, initial_cluster, token{"etcd-cluster"};
    std::uint64_t quota_bytes{std::uint64_t{8} << 30};

    std::optional<Compression> compression;  // compact; nothing: as the newest object has it
    std::string file{"-"};                   // dump; "-": standard output

    RetentionOptions retention;   // explain
    std::optional<WallTime> at;   // explain: as if it were then
    std::int64_t max_backups{0};  // copy: newest fulls and what follows them; 0: all
    bool accept_damaged{false};   // copy
};

// Either `arguments`, or a text for somebody who asked for it (exit code 0, stdout) or made a
// mistake (2, stderr).
struct ParsedArguments {
    std::optional<BackupArguments> arguments;
    int exit_code{0};
    std::string text;
};
ParsedArguments parse_backup_arguments(const std::vector<std::string>& args);

// The one of `known` that `word` is probably meant to be; "": none is near.
std::string nearest_word(std::string_view word, const std::vector<std::string>& known);

}  // namespace capstan::steward
