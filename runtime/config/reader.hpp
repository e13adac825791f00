// Strict reading of a Document: unknown keys, wrong types and values out of range,
// all reported at once.
//
//     Problems problems(document);
//     Reader root(document.value, "", problems);
//     root.object("logging", [&](Reader& logging) {
//         logging.choice("level", level, {"debug", "info"});
//     });
//     root.finish();  // what was not asked for is unknown
//
// Absent and null members leave the output as it was (its default). Thread: one.
#pragma once

#include "capstan/json.hpp"
#include "runtime/config/document.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::config {

class Reader {
public:
    // Both borrowed. Not an object: a problem, and every member is absent.
    Reader(const json::Value& value, std::string path, Problems& problems);
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;

    void text(std::string_view key, std::string& out);
    void choice(std::string_view key,
                std::string& out,
                std::initializer_list<std::string_view> allowed);
    void boolean(std::string_view key, bool& out);
    void integer(std::string_view key,
                 std::int64_t min,
                 std::int64_t max,
                 const std::function<void(std::int64_t)>& take);
    template <class I>
    void integer(std::string_view key, I& out, std::int64_t min, std::int64_t max) {
        integer(key, min, max, [&out](std::int64_t value) { out = static_cast<I>(value); });
    }
    // Text with a unit ("15s", "1h30m"). A bare number is refused, except 0 where `min`
    // allows it; "" is refused.
    void duration(std::string_view key,
                  std::chrono::nanoseconds& out,
                  std::chrono::nanoseconds min,
                  std::chrono::nanoseconds max);
    void texts(std::string_view key, std::vector<std::string>& out);
    void free(std::string_view key, json::Value& out);  // an object that somebody else checks

    // A nested object with known keys; finished by this call.
    void object(std::string_view key, const std::function<void(Reader&)>& read);
    // A map: free keys, each value an object with known keys.
    void each(std::string_view key,
              const std::function<void(const std::string& name, Reader&)>& read);
    // A list of objects with known keys.
    void list(std::string_view key, const std::function<void(Reader&)>& read);
    // A map of booleans.
    void switches(std::string_view key,
                  const std::function<void(const std::string& name, bool on)>& take);

    // Requires the member to be present and not empty text.
    void require(std::string_view key);
    void problem(std::string_view key, std::string_view what);  // key "": the object itself
    bool has(std::string_view key) const noexcept;
    // Reports members nobody asked for, with the nearest known name.
    void finish();

private:
    const json::Value* take(std::string_view key,
                            std::string_view type);  // nullptr: absent or null
    std::string path_of(std::string_view key) const;
    void wrong_type(std::string_view key, std::string_view expected, const json::Value& found);

    const json::Value& value_;
    const std::string path_;
    Problems& problems_;
    std::vector<std::string> known_;
};

}  // namespace capstan::config
