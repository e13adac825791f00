#include "plugins/steward-bridge/store/store.hpp"

#include <algorithm>

namespace capstan::steward {
namespace {

class Check {
public:
    Check(ObjectStore& store, std::string_view prefix, std::string_view token)
        : store_(store),
          folder_((prefix.empty() ? "" : std::string(prefix) + "/") + "capstan"),
          key_(folder_ + "/check-" + std::string(token)),
          fence_(key_ + "-fence"),
          content_("written by a check of this store, " + std::string(token) + "\n") {}

    StoreCheck run() {
        if (step("write", write_object(store_, key_, content_))) {
            step("list", list());
            read();
            step("fence", fence());
        }
        // Also after a failed write: its answer may have been lost on the way.
        step("delete", remove());
        return std::move(out_);
    }

private:
    bool step(const char* name, const Result<void>& result) {
        out_.steps.push_back({name, result ? "" : result.error().message});
        return result.has_value();
    }

    Result<void> list() {
        bool found = false;
        const auto look = [&](std::span<const ObjectInfo> page) -> Result<bool> {
            found = found || std::any_of(page.begin(), page.end(), [&](const ObjectInfo& object) {
                        return object.key == key_ && object.bytes == content_.size();
                    });
            return !found;
        };
        CAPSTAN_TRY(store_.list(folder_, {}, look));
        if (!found) {
            return fail(Code::unavailable,
                        key_ +
                            " was written but is not listed, so backups would not be found; use "
                            "a store that lists what it has confirmed");
        }
        return ok();
    }

    void read() {
        const auto bytes = read_object(store_, {key_}, kFenceBytesMax);
        if (!step("read", bytes ? Result<void>(ok()) : Result<void>(fail(bytes.error())))) {
            return;
        }
        Result<void> same = ok();
        if (bytes.value() != content_) {
            same = fail(Code::invalid,
                        key_ +
                            " reads back as other bytes than were written; something between "
                            "here and the store changes data");
        }
        step("compare", same);
    }

    // A store that ignores the condition lets two stewards write the same delta.
    Result<void> fence() {
        CAPSTAN_TRY(const std::string etag, store_.put_if_absent(fence_, "one"));
        const auto second = store_.put_if_absent(fence_, "two");
        if (second || second.error().code != Code::exists) {
            return second ? ignored("created twice under the condition that it is absent")
                          : Result<void>(fail(second.error()));
        }
        CAPSTAN_TRY(store_.put_if_match(fence_, "three", etag));
        const auto stale = store_.put_if_match(fence_, "four", etag);
        if (stale || stale.error().code != Code::conflict) {
            return stale ? ignored("replaced under the etag of an older content")
                         : Result<void>(fail(stale.error()));
        }
        return ok();
    }
    Result<void> ignored(const char* what) const {
        return fail(Code::unsupported,
                    fence_ + " could be " + what +
                        "; this store does not honour conditional writes, without which two "
                        "stewards could write one delta: use a store that has them");
    }

    Result<void> remove() {
        for (const std::string& key : {key_, fence_}) {
            // Where there are versions, each of the two writes left one.
            for (int writes = 0; writes < 2; ++writes) {
                const auto info = store_.stat({key});
                if (!info && info.error().code == Code::not_found) {
                    break;
                }
                const std::string version = info ? info.value().version : "";
                CAPSTAN_TRY(store_.remove({key, version}));
            }
        }
        return ok();
    }

    ObjectStore& store_;
    const std::string folder_, key_, fence_, content_;
    StoreCheck out_;
};

}  // namespace

bool StoreCheck::ok() const noexcept {
    return std::all_of(
        steps.begin(), steps.end(), [](const CheckStep& step) { return step.problem.empty(); });
}

StoreCheck check_store(ObjectStore& store, std::string_view prefix, std::string_view token) {
    return Check(store, prefix, token).run();
}

}  // namespace capstan::steward
