#include "plugins/steward-bridge/commands/arguments.hpp"

#include "plugins/steward-bridge/commands/texts.hpp"

#include "capstan/cli.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <limits>
#include <sstream>

namespace capstan::steward {
namespace {

// What CLI11 reads as text and is judged afterwards.
struct RawArguments {
    std::string to_time, at, quota{"8Gi"}, compression, retention{"exponential"},
        delta_retention{"0s"}, output{"table"}, dump_output{"json"};
    std::vector<std::string> peer_urls;
    bool progress{false}, quiet{false};
};

Error usage(const std::string& message) {
    return {Code::invalid, message, {}};
}

void trim_slashes(std::string& text) {
    text.erase(0, std::min(text.find_first_not_of('/'), text.size()));
    text.erase(text.find_last_not_of('/') + 1);
}

Result<std::uint64_t> parse_bytes(const std::string& text) {
    std::uint64_t number = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    const std::string_view unit(stop, static_cast<std::size_t>(end - stop));
    unsigned shift = 0;
    for (const std::string_view known : {"", "Ki", "Mi", "Gi", "Ti"}) {
        if (error == std::errc() && unit == known && number <= UINT64_MAX >> shift) {
            return number << shift;
        }
        shift += 10;
    }
    return fail(usage("--quota " + text + ": bytes are expected, as 8589934592 or 8Gi"));
}

Result<std::optional<WallTime>> parse_time(const char* option, const std::string& text) {
    if (text.empty()) {
        return std::optional<WallTime>();
    }
    const auto time = parse_rfc3339(text);
    if (!time) {
        return fail(usage(std::string(option) + " " + text +
                          ": a time is expected, as 2026-11-30T12:00:00Z"));
    }
    return time;
}

// CLI::PositiveNumber tells its range in the 300 digits of the largest double.
CLI::Validator from_one() {
    return CLI::Range(std::int64_t{1}, std::numeric_limits<std::int64_t>::max(), "POSITIVE");
}

void add_store(CLI::App& command,
               StoreArguments& store,
               const std::string& before,
               const std::string& group) {
    const auto option = [&](const char* name, std::string& into, const char* what) {
        return command.add_option("--" + before + name, into, what)->group(group);
    };
    CLI::Option* provider = option("provider", store.provider, "Local or S3");
    if (before.empty()) {
        provider->required();
    }
    option("container", store.container, "directory of a Local store, bucket of S3");
    option("prefix", store.prefix, "of the backup in the container: above v2/");
    option("endpoint", store.endpoint, "S3: https://HOST:PORT of a store that is not AWS");
    option("region", store.region, "S3: overrides the credentials' region");
    option("ca-file", store.ca_file, "S3: the only trusted certificates (PEM)");
    command
        .add_flag("--" + before + "path-style",
                  store.path_style,
                  "S3: https://HOST/BUCKET instead of https://BUCKET.HOST")
        ->group(group);
}

void add_point(CLI::App& command, BackupArguments& out, RawArguments& raw) {
    const std::string group = "Point in time";
    CLI::Option* revision = command
                                .add_option("--to-revision,--revision",
                                            out.wish.to_revision,
                                            "up to this revision (default: the newest there is)")
                                ->group(group)
                                ->check(from_one());
    command.add_option("--to-time", raw.to_time, "up to the last snapshot made by then (RFC 3339)")
        ->group(group)
        ->excludes(revision);
    command
        .add_option("--history",
                    out.wish.history,
                    "of a cluster that was set back: which one, as `list` names them (default: the "
                    "present one)")
        ->group(group);
    command
        .add_flag("--by-revision",
                  out.wish.by_revision,
                  "where names contradict each other, take the highest revisions")
        ->group(group);
    command
        .add_flag(
            "--accept-other-history",
            out.accept_other_history,
            "take deltas that do not continue the history before them; the result may mix two")
        ->group(group);
    command
        .add_option("--work-dir",
                    out.work_directory,
                    "directory with room for the unpacked base (default: beside the result, else "
                    "$TMPDIR)")
        ->group(group);
}

void add_restore_options(CLI::App& command, BackupArguments& out, RawArguments& raw) {
    command.add_option("--data-dir", out.data_directory, "where the member's data shall be")
        ->required();
    command.add_option("--name", out.name, "of the member")->capture_default_str();
    command.add_option("--initial-cluster",
                       out.initial_cluster,
                       "NAME=URL,… of every member (default: this one alone)");
    command.add_option("--initial-cluster-token", out.token, "of the new cluster")
        ->capture_default_str();
    command
        .add_option("--initial-advertise-peer-urls",
                    raw.peer_urls,
                    "of this member (default: from --initial-cluster, else "
                    "http://localhost:2380)")
        ->delimiter(',');
    command
        .add_option("--quota",
                    raw.quota,
                    "backend quota of the etcd; near it superseded revisions are dropped")
        ->capture_default_str();
    command.add_flag("--force",
                     out.force,
                     "when --data-dir is not empty: move it aside, to a name that is told");
}

// Options of one command that no other has.
void add_own_options(CLI::App& command, BackupArguments& out, RawArguments& raw) {
    const std::string& name = command.get_name();
    if (name == "restore") {
        add_restore_options(command, out, raw);
    } else if (name == "verify") {
        command.add_flag("--all", out.all, "every object, also those no restore would read");
    } else if (name == "compact") {
        command.add_flag("--dry-run", out.dry_run, "read and check everything, write nothing");
        command.add_option("--compression",
                           raw.compression,
                           "gzip, zlib, lzw or none (default: as the newest object has it)");
    } else if (name == "dump") {
        command.add_option("-f,--file", out.file, "instead of standard output")
            ->capture_default_str();
        command.add_flag("--force", out.force, "replace the file");
        command.add_option("-o,--output", raw.dump_output, "json, the only one")
            ->capture_default_str();
    } else if (name == "explain") {
        command.add_option("--retention", raw.retention, "exponential or limit")
            ->capture_default_str();
        command.add_option("--max-backups", out.retention.max_backups, "fulls kept by limit")
            ->capture_default_str()
            ->check(from_one());
        command.add_option("--delta-retention", raw.delta_retention, "younger deltas stay")
            ->capture_default_str();
        command.add_option("--at", raw.at, "as if it were this time (RFC 3339; default: now)");
    } else if (name == "copy") {
        add_store(command, out.to, "to-", "Store to copy to");
        command
            .add_option("--max-backups",
                        out.max_backups,
                        "only this many of the newest fulls, with what follows them (default: all)")
            ->check(from_one());
        command.add_flag(
            "--accept-damaged", out.accept_damaged, "copy objects that are damaged as they are");
        command.add_flag("--dry-run", out.dry_run, "say what would be copied");
    }
}

Result<void> judge_cluster(BackupArguments& out, const RawArguments& raw) {
    std::string own;
    for (const std::string& url : raw.peer_urls.empty()
                                      ? std::vector<std::string>{"http://localhost:2380"}
                                      : raw.peer_urls) {
        own += (own.empty() ? "" : ",") + out.name + "=" + url;
    }
    if (out.initial_cluster.empty()) {
        out.initial_cluster = own;
        return ok();
    }
    for (std::size_t i = 0; i < raw.peer_urls.size(); ++i) {
        const std::string entry = "," + out.name + "=" + raw.peer_urls[i] + ",";
        if (("," + out.initial_cluster + ",").find(entry) == std::string::npos) {
            return fail(usage("--initial-advertise-peer-urls " + raw.peer_urls[i] +
                              " is not that of member " + out.name + " in --initial-cluster " +
                              out.initial_cluster));
        }
    }
    return ok();
}

Result<void> judge_policy(BackupArguments& out, const RawArguments& raw) {
    if (raw.retention == "exponential" || raw.retention == "Exponential") {
        out.retention.policy = RetentionPolicy::exponential;
    } else if (raw.retention == "limit" || raw.retention == "LimitBased") {
        out.retention.policy = RetentionPolicy::limit_based;
    } else {
        return fail(usage("--retention " + raw.retention + ": there are exponential and limit"));
    }
    const auto delta_retention = parse_duration(raw.delta_retention);
    if (!delta_retention || delta_retention->count() < 0) {
        return fail(usage("--delta-retention " + raw.delta_retention +
                          ": a duration is expected, as 1h30m"));
    }
    out.retention.delta_retention = *delta_retention;
    CAPSTAN_TRY(out.at, parse_time("--at", raw.at));
    return ok();
}

Result<void> judge(BackupArguments& out, const RawArguments& raw) {
    trim_slashes(out.store.prefix);
    trim_slashes(out.to.prefix);
    if (raw.output != "table" && raw.output != "json") {
        return fail(usage("-o " + raw.output + ": there are table and json"));
    }
    if (raw.dump_output != "json") {
        return fail(usage("-o " + raw.dump_output + ": dump prints json only"));
    }
    out.as_json = raw.output == "json";
    if (raw.progress || raw.quiet) {
        out.progress = raw.progress;
    }
    CAPSTAN_TRY(out.wish.to_time, parse_time("--to-time", raw.to_time));
    CAPSTAN_TRY(out.quota_bytes, parse_bytes(raw.quota));
    if (!raw.compression.empty()) {
        CAPSTAN_TRY(out.compression, compression_of_policy(raw.compression));
    }
    if (out.command == "restore") {
        CAPSTAN_TRY(judge_cluster(out, raw));
    }
    return out.command == "explain" ? judge_policy(out, raw) : Result<void>(ok());
}

std::string word_problem(const std::vector<std::string>& args) {
    if (args.empty() || args.front().starts_with("-")) {
        return "";
    }
    std::vector<std::string> known;
    for (const CommandText& text : kCommandTexts) {
        known.emplace_back(text.name);
    }
    if (std::find(known.begin(), known.end(), args.front()) != known.end()) {
        return "";
    }
    const std::string meant = nearest_word(args.front(), known);
    return "capstan backup: unknown command \"" + args.front() + "\"" +
           (meant.empty() ? "; `capstan backup --help` lists them"
                          : "; did you mean \"" + meant + "\"?") +
           "\n";
}

}  // namespace

std::string nearest_word(std::string_view word, const std::vector<std::string>& known) {
    std::string best;
    std::size_t best_distance = word.size() / 3 + 2;
    for (const std::string& each : known) {
        std::vector<std::size_t> row(each.size() + 1);
        for (std::size_t j = 0; j <= each.size(); ++j) {
            row[j] = j;
        }
        for (std::size_t i = 1; i <= word.size(); ++i) {
            std::size_t diagonal = row[0];
            row[0] = i;
            for (std::size_t j = 1; j <= each.size(); ++j) {
                const std::size_t changed = diagonal + (word[i - 1] == each[j - 1] ? 0 : 1);
                diagonal = row[j];
                row[j] = std::min({row[j] + 1, row[j - 1] + 1, changed});
            }
        }
        if (row.back() < best_distance) {
            best_distance = row.back();
            best = each;
        }
    }
    return best;
}

ParsedArguments parse_backup_arguments(const std::vector<std::string>& args) {
    if (std::string problem = word_problem(args); !problem.empty()) {
        return {std::nullopt, CAPSTAN_EXIT_USAGE, std::move(problem)};
    }
    BackupArguments out;
    RawArguments raw;
    CLI::App app{std::string(kBackupText), "capstan backup"};
    app.require_subcommand(1);
    app.footer(std::string(kBackupFooter));
    for (const CommandText& text : kCommandTexts) {
        CLI::App* command = app.add_subcommand(std::string(text.name), std::string(text.summary));
        command->footer(std::string(text.footer));
        add_store(*command, out.store, "", "Store");
        if (text.reads_a_chain) {
            add_point(*command, out, raw);
        }
        add_own_options(*command, out, raw);
        if (text.name != "dump") {
            command->add_option("-o,--output", raw.output, "table or json")->capture_default_str();
        }
        command->add_flag("--progress", raw.progress, "say on standard error how far it is");
        command->add_flag("--quiet", raw.quiet, "do not, also on a terminal");
    }
    std::ostringstream said, wrong;
    try {
        // The last word comes first there.
        app.parse(std::vector<std::string>(args.rbegin(), args.rend()));
    } catch (const CLI::ParseError& error) {
        const int code = app.exit(error, said, wrong);
        return {std::nullopt,
                code == 0 ? CAPSTAN_EXIT_GOOD : CAPSTAN_EXIT_USAGE,
                code == 0 ? said.str() : "capstan backup: " + wrong.str()};
    }
    out.command = app.get_subcommands().front()->get_name();
    if (const auto judged = judge(out, raw); !judged) {
        return {std::nullopt,
                CAPSTAN_EXIT_USAGE,
                "capstan backup " + out.command + ": " + judged.error().message + "\n"};
    }
    return {std::move(out), 0, ""};
}

}  // namespace capstan::steward
