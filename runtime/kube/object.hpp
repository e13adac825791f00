// One API object as the host keeps it: a single reference-counted block of compact JSON with a
// parsed header.
//
// Everything handed out by the client and the cache is an ObjectPtr: immutable, shared, never
// copied. Values come out of it by pointer lookup on the bytes (cheap, no allocation) or by parse()
// (a full tree). Thread: any.
#pragma once

#include "capstan/error.hpp"
#include "capstan/json.hpp"
#include "capstan/object_ref.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::kube {

// etcd stores ~1.5 MiB; JSON is 2-3 times that
inline constexpr std::size_t kObjectBytesMax = 64u * 1024 * 1024;

// Pieces of an object, for a tree of no more than these.
class Parts {
public:
    // RFC 6901 pointers; what is below the second token comes along. "" is everything.
    static Parts of(const std::vector<std::string>& pointers);

private:
    friend class Object;
    struct Member {
        std::string key;
        std::vector<std::string> inner;  // empty: the whole member
    };
    std::vector<Member> members_;
    bool all_{false};
};

class Object;
using ObjectPtr = std::shared_ptr<const Object>;

// What to drop while decoding. Dropped bytes never reach the store.
struct Projection {
    bool drop_managed_fields{true};
    bool drop_last_applied{true};  // annotation kubectl.kubernetes.io/last-applied-configuration
    // Pointers to keep, e.g. "/spec/replicas"; empty keeps everything. apiVersion, kind and
    // metadata always stay. A step through an array keeps the whole array. One or two tokens
    // without "~" are the quick way (compact_copy.hpp).
    std::vector<std::string> keep;

    static Projection none() { return {false, false, {}}; }
    auto operator<=>(const Projection&) const = default;
};

class Object {
public:
    // Takes the tree apart and stores what the projection leaves. `gvk` fills apiVersion and kind
    // where the server left them out (items of built-in lists). Errors: invalid (no object, no
    // metadata.name), too_large.
    static Result<ObjectPtr> make(json::Value value,
                                  const Projection& projection = {},
                                  const GroupVersionKind* gvk = nullptr);
    // The same from text, which is copied in one pass when it is of the usual form
    // (compact_copy.hpp).
    static Result<ObjectPtr> decode(std::string_view text,
                                    const Projection& projection = {},
                                    const GroupVersionKind* gvk = nullptr);

    // The quick half of decode(); nullptr: not of the usual form, or in error.
    static ObjectPtr decode_usual(std::string_view text,
                                  const Projection& projection,
                                  const GroupVersionKind* gvk);

    Object(const Object&) = delete;
    Object& operator=(const Object&) = delete;

    // All views live as long as the object.
    std::string_view bytes() const noexcept { return {data(), size_}; }  // compact JSON
    std::string_view api_version() const noexcept { return at(api_version_); }
    std::string_view kind() const noexcept { return at(kind_); }
    std::string_view ns() const noexcept { return at(ns_); }
    std::string_view name() const noexcept { return at(name_); }
    std::string_view uid() const noexcept { return at(uid_); }
    std::string_view resource_version() const noexcept { return at(resource_version_); }
    std::int64_t generation() const noexcept { return generation_; }
    bool deleting() const noexcept { return deleting_; }  // has a deletionTimestamp
    bool projected() const noexcept {
        return projected_;
    }  // a keep list was applied: not fit for a full write
    // The owner reference with controller: true; empty when there is none.
    std::string_view controller_uid() const noexcept { return at(controller_uid_); }
    std::string_view controller_name() const noexcept { return at(controller_name_); }
    std::string_view controller_kind() const noexcept { return at(controller_kind_); }
    std::string_view controller_api_version() const noexcept { return at(controller_api_version_); }
    ObjectKey key() const { return {std::string(ns()), std::string(name())}; }

    // Raw JSON text at an RFC 6901 pointer, found without parsing; nullopt when absent. "" is the
    // whole object.
    std::optional<std::string_view> field(std::string_view pointer) const noexcept;
    // The string at a pointer, unescaped; nullopt when absent or of another kind.
    std::optional<std::string> string_field(std::string_view pointer) const;
    // Every string reached by a pointer in which "*" stands for each element of an array or each
    // member's value.
    std::vector<std::string> string_fields(std::string_view pattern) const;
    std::optional<std::string> label(std::string_view key) const;
    std::optional<std::string> annotation(std::string_view key) const;
    std::vector<std::pair<std::string, std::string>> labels() const;

    json::Value parse() const;  // the full tree; never fails, the bytes are ours
    // The tree of `parts`, which may hold more than asked for; the rest of the text is skipped.
    json::Value parse(const Parts& parts) const;
    std::size_t memory() const noexcept { return sizeof(Object) + size_; }

private:
    struct Span {
        std::uint32_t offset{0};
        std::uint32_t length{0};
    };
    Object() noexcept = default;
    const char* data() const noexcept { return reinterpret_cast<const char*>(this + 1); }
    std::string_view at(Span span) const noexcept { return {data() + span.offset, span.length}; }
    static Result<ObjectPtr> store(std::string_view text, bool projected);
    bool read_header() noexcept;  // false: a header string is missing or of the wrong kind

    std::uint32_t size_{0};
    Span api_version_, kind_, ns_, name_, uid_, resource_version_;
    Span controller_uid_, controller_name_, controller_kind_, controller_api_version_;
    std::int64_t generation_{0};
    bool deleting_{false};
    bool projected_{false};
};

// Order of two resource versions of the same resource (apimachinery's rule): decimal integers of
// any length. nullopt when one of them is not comparable ("", "0", leading zeros, not digits).
std::optional<int> compare_resource_versions(std::string_view a, std::string_view b) noexcept;

}  // namespace capstan::kube
