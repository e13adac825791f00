// For tests: a store in memory that fails, or damages, on demand.
#pragma once

#include "plugins/steward-bridge/store/store.hpp"
#include "plugins/steward-bridge/stream/testing_streams.hpp"

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace capstan::steward {

class FaultyStore final : public ObjectStore {
public:
    Result<void> list(std::string_view prefix,
                      const ListOptions& options,
                      const OnPage& on_page) override {
        ++lists;
        if (fail_list) {
            return fail(*fail_list);
        }
        std::vector<ObjectInfo> page;
        for (const auto& [key, object] : objects_) {
            const bool shown = options.include_excluded || !excluded.contains(key);
            if (shown && (prefix.empty() || key.starts_with(std::string(prefix) + "/"))) {
                page.push_back(info_of(key, object));
            }
        }
        CAPSTAN_TRY(on_page(page));
        return ok();
    }
    Result<std::unique_ptr<Source>> open(const ObjectName& name, std::uint64_t offset) override {
        if (fail_open) {
            return fail(*fail_open);
        }
        const auto found = objects_.find(name.key);
        if (found == objects_.end()) {
            return fail(Code::not_found, name.key + " is not there");
        }
        std::string bytes = found->second.bytes.substr(offset);
        if (flip_byte_at < bytes.size()) {
            bytes[flip_byte_at] = static_cast<char>(~bytes[flip_byte_at]);
        }
        return std::unique_ptr<Source>(std::make_unique<TextSource>(std::move(bytes), 4000));
    }
    Result<std::unique_ptr<Sink>> create(const std::string& key, const CreateOptions&) override {
        return std::unique_ptr<Sink>(std::make_unique<ObjectSink>(*this, key));
    }
    Result<std::string> put_if_absent(const std::string& key, std::string_view bytes) override {
        if (objects_.contains(key)) {
            return fail(Code::exists, key + " is there");
        }
        return put(key, std::string(bytes));
    }
    Result<std::string> put_if_match(const std::string& key,
                                     std::string_view bytes,
                                     const std::string& etag) override {
        const auto found = objects_.find(key);
        if (found == objects_.end() || found->second.etag != etag) {
            return fail(found == objects_.end() ? Code::not_found : Code::conflict, key);
        }
        return put(key, std::string(bytes));
    }
    Result<ObjectInfo> stat(const ObjectName& name) override {
        const auto found = objects_.find(name.key);
        if (found == objects_.end()) {
            return fail(Code::not_found, name.key + " is not there");
        }
        return info_of(name.key, found->second);
    }
    Result<void> remove(const ObjectName& name) override {
        if (fail_remove && fail_remove(name.key)) {
            return fail(Code::forbidden, name.key + " cannot be removed");
        }
        if (versioned && name.version.empty()) {
            ++markers;
            return ok();
        }
        objects_.erase(name.key);
        return ok();
    }
    Result<std::size_t> remove_unfinished(std::string_view prefix, WallTime) override {
        uploads_below.emplace_back(prefix);
        return std::size_t{1};
    }
    Result<std::optional<std::chrono::days>> default_retention() override {
        return std::optional<std::chrono::days>();
    }
    std::string describe() const override { return "memory"; }

    std::size_t flip_byte_at{~std::size_t{0}};  // of whatever is read
    std::optional<Error> fail_finish, fail_list, fail_open;
    bool damage_writes{false};
    bool versioned{false};  // what is removed without its version stays, under a marker
    int markers{0};
    std::optional<WallTime> locked_until;  // of everything
    std::set<std::string> excluded;        // keys
    std::vector<std::string> uploads_below;
    std::function<bool(const std::string& key)> fail_remove;
    std::function<void(const std::string& key)> on_finish;  // before it appears
    int lists{0};

private:
    struct Object {
        std::string bytes, etag;
    };
    class ObjectSink final : public Sink {
    public:
        ObjectSink(FaultyStore& store, std::string key) : store_(store), key_(std::move(key)) {}
        Result<void> write(std::span<const std::uint8_t> bytes) override {
            bytes_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
            return ok();
        }
        Result<void> finish() override {
            if (store_.on_finish) {
                store_.on_finish(key_);
            }
            if (store_.fail_finish) {
                return fail(*store_.fail_finish);
            }
            if (store_.damage_writes) {
                bytes_[bytes_.size() / 2] = static_cast<char>(~bytes_[bytes_.size() / 2]);
            }
            store_.put(key_, std::move(bytes_));
            return ok();
        }

    private:
        FaultyStore& store_;
        const std::string key_;
        std::string bytes_;
    };

    ObjectInfo info_of(const std::string& key, const Object& object) const {
        ObjectInfo info;
        info.version = versioned ? "version-" + object.etag : "";
        info.locked_until = locked_until;
        info.key = key;
        info.bytes = object.bytes.size();
        info.etag = object.etag;
        return info;
    }
    std::string put(const std::string& key, std::string bytes) {
        objects_[key] = {std::move(bytes), std::to_string(++writes_)};
        return objects_[key].etag;
    }

    std::map<std::string, Object> objects_;
    int writes_{0};
};

inline std::vector<std::string> testing_keys(ObjectStore& store) {
    std::vector<std::string> keys;
    const std::vector<ObjectInfo> all = list_all(store, "").value();
    for (const ObjectInfo& info : all) {
        keys.push_back(info.key);
    }
    return keys;
}

}  // namespace capstan::steward
