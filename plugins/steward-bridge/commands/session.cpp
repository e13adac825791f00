#include "plugins/steward-bridge/commands/session.hpp"

#include "plugins/steward-bridge/restore/store_objects.hpp"

#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>
#include <system_error>

namespace capstan::steward {
namespace {

constexpr std::size_t kPrefixesShown = 5;

// "prefix main", "no prefix".
std::string shown_prefix(const std::string& prefix) {
    return prefix.empty() ? "no prefix" : "prefix " + prefix;
}

}  // namespace

Session::Session(CommandCall& command, const BackupArguments& arguments)
    : command_(command),
      arguments_(arguments),
      digests_(command.call().host()),
      transport_(command.call()),
      pace_(command.call(),
            [this] { complain("the store does not answer as it should; it is tried again"); }),
      progress_(command, arguments.progress) {}

void Session::complain(std::string_view message) {
    progress_.clear();
    command_.complain("capstan backup " + arguments_.command + ": " + std::string(message) + "\n");
}

void Session::warn(std::string_view message) {
    complain("warning: " + std::string(message));
}

int Session::fail_with(const Failure& failure) {
    complain(failure.message);
    return failure.exit_code;
}

int Session::print(std::string_view text) {
    progress_.clear();
    return command_.print(text) ? CAPSTAN_EXIT_GOOD : CAPSTAN_EXIT_FAILED;
}

int Session::print_json(const json::Value& value) {
    return print(json::dump(value) + "\n");
}

int exit_code_of_store(Code code) noexcept {
    switch (code) {
        case Code::invalid:
        case Code::not_found:
        case Code::unsupported: return CAPSTAN_EXIT_USAGE;
        case Code::forbidden:
        case Code::denied:
        case Code::overloaded:
        case Code::unavailable:
        case Code::timeout: return CAPSTAN_EXIT_UNREACHABLE;
        default: return CAPSTAN_EXIT_FAILED;
    }
}

CommandResult<std::unique_ptr<ObjectStore>> Session::open(const StoreArguments& store,
                                                          StoreRole role,
                                                          bool make_directory) {
    StoreConfig config;
    auto provider = canonical_provider(store.provider);
    if (!provider) {
        return give_up(CAPSTAN_EXIT_USAGE, provider.error().message);
    }
    config.provider = std::move(provider).value();
    config.container = store.container;
    config.prefix = store.prefix;
    config.endpoint_override = store.endpoint;
    config.overrides = {store.region, store.ca_file, store.path_style};
    config.role = role;
    const auto environment = [this](const std::string& name) {
        return command_.environment(name).value_or("");
    };
    const bool by_variable =
        config.provider != "Local" && !environment("STORAGE_CONTAINER").empty();
    if (store.container.empty() && !by_variable) {
        return give_up(CAPSTAN_EXIT_USAGE,
                       "--container is missing: the directory of a Local store, or the bucket");
    }
    auto opened =
        open_store(config, {environment, digests_, transport_, pace_, {}, make_directory});
    if (!opened) {
        return give_up(exit_code_of_store(opened.error().code), opened.error().message);
    }
    return std::move(opened).value();
}

CommandResult<SnapshotListing> Session::list(ObjectStore& store, const std::string& prefix) {
    auto listing = list_snapshots(store, prefix);
    if (!listing) {
        return give_up(exit_code_of_store(listing.error().code), listing.error().message);
    }
    return std::move(listing).value();
}

// "; near it are main, main-2": prefixes of the container that hold snapshots.
std::string Session::near_prefixes(ObjectStore& store, const std::string& prefix) {
    std::set<std::string> found;
    std::size_t looked_at = 0;
    const auto look = [&](std::span<const ObjectInfo> page) -> Result<bool> {
        for (const ObjectInfo& object : page) {
            const auto record = parse_snapshot_key(object.key);
            if (record) {
                const std::string& layout = record.value().prefix;  // ends with "v2/"
                found.insert(
                    layout.substr(0, layout.size() - std::min<std::size_t>(layout.size(), 4)));
            }
        }
        looked_at += page.size();
        return looked_at < kPrefixSearchKeys && !cancelled();
    };
    if (!store.list("", {}, look) || found.empty()) {
        return "";
    }
    const std::vector<std::string> all(found.begin(), found.end());
    const std::string meant = nearest_word(prefix, all);
    if (!meant.empty()) {
        return "; did you mean --prefix " + meant + "?";
    }
    std::string text;
    for (std::size_t i = 0; i < std::min(all.size(), kPrefixesShown); ++i) {
        text += (i == 0 ? "" : ", ") + shown_prefix(all[i]);
    }
    return "; there are snapshots with " + text + (all.size() > kPrefixesShown ? ", …" : "");
}

CommandResult<Backup> Session::open_backup(StoreRole role) {
    Backup backup;
    CAPSTAN_TRY(backup.store, open(arguments_.store, role));
    CAPSTAN_TRY(backup.listing, list(*backup.store, arguments_.store.prefix));
    const bool promises =
        std::any_of(backup.listing.skipped.begin(),
                    backup.listing.skipped.end(),
                    [](const SkippedKey& skipped) { return skipped.last_revision > 0; });
    if (backup.listing.snapshots.empty() && !promises) {
        return give_up(CAPSTAN_EXIT_DAMAGED,
                       "there is no snapshot with " + shown_prefix(arguments_.store.prefix) +
                           " in " + backup.store->describe() +
                           near_prefixes(*backup.store, arguments_.store.prefix));
    }
    return backup;
}

RestoreOptions Session::restore_options(std::string work_directory) {
    RestoreOptions options;
    options.work_directory = std::move(work_directory);
    options.wish = arguments_.wish;
    options.accept_unfit_events = arguments_.accept_other_history;
    options.cancelled = [this] { return cancelled(); };
    return options;
}

Failure Session::failure_of(const Error& error, const ObservedObjects& objects) const {
    switch (error.code) {
        case Code::invalid:
            // The store's own word for a bad request says nothing about the data.
            return {objects.error() && objects.error()->code == Code::invalid
                        ? CAPSTAN_EXIT_UNREACHABLE
                        : CAPSTAN_EXIT_DAMAGED,
                    error.message};
        case Code::not_found: return {CAPSTAN_EXIT_DAMAGED, error.message};
        case Code::conflict:  // which history is meant
        case Code::exists: return {CAPSTAN_EXIT_USAGE, error.message};
        case Code::cancelled: return {CAPSTAN_EXIT_FAILED, "interrupted; nothing was left behind"};
        default:
            return {
                objects.error() ? exit_code_of_store(objects.error()->code) : CAPSTAN_EXIT_FAILED,
                error.message};
    }
}

CommandResult<std::unique_ptr<Workspace>> Workspace::make(Session& session, std::string parent) {
    if (parent.empty()) {
        parent = session.command().environment("TMPDIR").value_or("");
    }
    std::string path = (parent.empty() ? "/tmp" : parent) + "/capstan-backup-XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) {
        return give_up(CAPSTAN_EXIT_FAILED,
                       "cannot make a directory below " + (parent.empty() ? "/tmp" : parent) +
                           ": " + std::strerror(errno) + "; name another one with --work-dir");
    }
    return std::make_unique<Workspace>(path);
}

Workspace::~Workspace() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

}  // namespace capstan::steward
