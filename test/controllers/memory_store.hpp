// Objects in memory with the rules of an API server that controllers rely on. Thread: one.
#pragma once

#include "capstan/json.hpp"
#include "capstan/object_ref.hpp"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::test {

class MemoryStore {
public:
    // As a user would: creates, or replaces all but what the server owns. Bumps generation
    // when the spec changes.
    void put(json::Value object);
    const json::Value* find(std::string_view group_kind, const ObjectKey& key) const;
    std::vector<const json::Value*> list(std::string_view group_kind,
                                         std::string_view ns,
                                         std::string_view selector) const;
    std::size_t size() const noexcept { return objects_.size(); }
    // Every object without what the server adds, sorted: equal worlds give equal text.
    std::string world() const;

    Result<void> create(const json::Value& object);
    // `before`: the manager's previous intent for this object and subresource, or null.
    Result<void> apply(const json::Value& intent,
                       std::string_view subresource,
                       const json::Value& before);
    Result<void> patch_json(std::string_view group_kind,
                            const ObjectKey& key,
                            const json::Value& operations);
    Result<void> remove(std::string_view group_kind,
                        const ObjectKey& key,
                        std::string_view uid,
                        std::string_view version);

private:
    using Key = std::pair<std::string, ObjectKey>;
    static Key key_of(const json::Value& object);
    void stamp(json::Value& object, bool is_new);
    void settle(const Key& key);  // a deleted object without finalizers goes

    std::map<Key, json::Value> objects_;
    std::int64_t version_{0};
};

// True when `object` has every field of `intent` with its value.
bool covers(const json::Value& object, const json::Value& intent);

}  // namespace capstan::test
