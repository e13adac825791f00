#include "plugins/steward-bridge/snapshot/chain.hpp"

#include "plugins/steward-bridge/snapshot/damaged.hpp"

#include <algorithm>

namespace capstan::steward {
namespace {

using Records = std::vector<const SnapshotRecord*>;

std::string revisions(std::int64_t from, std::int64_t to) {
    return from == to ? "revision " + std::to_string(from)
                      : "revisions " + std::to_string(from) + " to " + std::to_string(to);
}

// The deltas that can be used, by where they start.
Records usable_deltas(const std::vector<SnapshotRecord>& snapshots, const ChainOptions& options) {
    Records deltas;
    for (const SnapshotRecord& record : snapshots) {
        if (record.kind == SnapshotKind::delta && !record.part &&
            !options.damaged.contains(record.key())) {
            deltas.push_back(&record);
        }
    }
    std::sort(deltas.begin(), deltas.end(), [](const auto* a, const auto* b) {
        return a->start_revision != b->start_revision ? a->start_revision < b->start_revision
                                                      : before(*a, *b);
    });
    return deltas;
}

std::int64_t base_revision(const SnapshotRecord& full, const ChainOptions& options) {
    const auto inside = options.base_revisions.find(full.key());
    return inside != options.base_revisions.end() ? inside->second : full.last_revision;
}

Chain link(const SnapshotRecord& full, const Records& deltas, const ChainOptions& options) {
    Chain chain{.full = full, .base_revision = base_revision(full, options)};
    chain.reaches = chain.base_revision;
    const std::int64_t wanted = options.to_revision.value_or(INT64_MAX);
    std::vector<bool> used(deltas.size(), false);
    std::size_t next = 0;              // the first delta that starts behind what is reached
    std::size_t best = deltas.size();  // of those before it, the one that goes furthest
    while (chain.reaches < wanted) {
        for (; next < deltas.size() && deltas[next]->start_revision - 1 <= chain.reaches; ++next) {
            if (best == deltas.size() ||
                deltas[next]->last_revision > deltas[best]->last_revision) {
                best = next;
            }
        }
        if (best == deltas.size() || deltas[best]->last_revision <= chain.reaches) {
            break;
        }
        used[best] = true;
        chain.deltas.push_back(*deltas[best]);
        chain.reaches = deltas[best]->last_revision;
    }
    for (std::size_t i = 0; i < deltas.size(); ++i) {
        const SnapshotRecord& delta = *deltas[i];
        if (used[i] || delta.last_revision <= chain.base_revision) {
            continue;
        }
        const bool behind_gap = delta.last_revision > chain.reaches && chain.reaches < wanted;
        (behind_gap ? chain.unreachable : chain.redundant).push_back(delta);
    }
    if (!chain.unreachable.empty()) {
        // Ordered by start, so the first one ends the gap.
        chain.gap = RevisionGap{chain.reaches + 1, chain.unreachable.front().start_revision - 1};
    }
    return chain;
}

// "<key>: <why>", once, and without advice: the caller has its own.
std::string named(const std::string& key, std::string_view why) {
    if (why.ends_with(kDamagedRemedy)) {
        why.remove_suffix(kDamagedRemedy.size());
    }
    return (why.starts_with(key) ? "" : key + ": ") + std::string(why);
}

// Why the newest full does not lead to the end.
std::string reason(const Chain& newest, const ChainOptions& options) {
    for (const auto& [key, why] : options.damaged) {
        const auto record = parse_snapshot_key(key);
        if (record && record.value().last_revision > newest.reaches) {
            return named(key, why);
        }
    }
    if (newest.gap) {
        return revisions(newest.gap->from, newest.gap->to) + " are in no snapshot, between " +
               (newest.deltas.empty() ? newest.full.key() : newest.deltas.back().key()) + " and " +
               newest.unreachable.front().key();
    }
    for (const SkippedKey& skipped : options.skipped) {
        if (skipped.last_revision > newest.reaches) {
            return named(skipped.key, skipped.reason);
        }
    }
    return "revisions after " + std::to_string(newest.reaches) + " are in no usable snapshot";
}

auto refused(std::string message) {
    return fail(Code::invalid, std::move(message));
}

Result<Chain> no_full(const std::vector<SnapshotRecord>& snapshots, const ChainOptions& options) {
    for (const SkippedKey& skipped : options.skipped) {
        if (skipped.last_revision > 0) {
            return refused("no full snapshot can be read: " + named(skipped.key, skipped.reason));
        }
    }
    if (snapshots.empty()) {
        return fail(Code::not_found, "there is no snapshot");
    }
    for (const auto& [key, why] : options.damaged) {
        const auto record = parse_snapshot_key(key);
        if (record && record.value().kind == SnapshotKind::full) {
            return refused("no full snapshot can be used: " + named(key, why));
        }
    }
    const std::string where =
        options.to_revision ? "at or below revision " + std::to_string(*options.to_revision) + " "
                            : "";
    return refused("there are deltas up to revision " +
                   std::to_string(snapshots.back().last_revision) + ", but no full snapshot " +
                   where + "to build on");
}

}  // namespace

Chain chain_from(const SnapshotRecord& full,
                 const std::vector<SnapshotRecord>& snapshots,
                 const ChainOptions& options) {
    return link(full, usable_deltas(snapshots, options), options);
}

Result<Chain> choose_chain(const std::vector<SnapshotRecord>& snapshots,
                           const ChainOptions& options) {
    std::int64_t end = 0;
    for (const SnapshotRecord& record : snapshots) {
        end = std::max(end, record.last_revision);
    }
    for (const SkippedKey& skipped : options.skipped) {
        end = std::max(end, skipped.last_revision);
    }
    const std::int64_t target = options.to_revision.value_or(end);
    if (!snapshots.empty() && target > end) {
        return refused("revision " + std::to_string(target) + " is beyond " + std::to_string(end) +
                       ", the newest in any snapshot");
    }
    const Records deltas = usable_deltas(snapshots, options);
    std::optional<Chain> newest, best;
    for (auto full = snapshots.rbegin(); full != snapshots.rend(); ++full) {
        if (full->kind != SnapshotKind::full || full->part ||
            options.damaged.contains(full->key()) || base_revision(*full, options) > target) {
            continue;
        }
        Chain chain = link(*full, deltas, options);
        if (chain.reaches >= target) {
            return chain;
        }
        if (!newest) {
            newest = chain;
        }
        if (!best || chain.reaches > best->reaches) {
            best = std::move(chain);
        }
    }
    if (!newest) {
        return no_full(snapshots, options);
    }
    return refused("revision " + std::to_string(target) + " cannot be restored: " +
                   reason(*newest, options) + "; --to-revision " + std::to_string(best->reaches) +
                   " restores what is whole, from " + best->full.key());
}

}  // namespace capstan::steward
