// What the tests of stores share.
#pragma once

#include "plugins/steward-bridge/store/store.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace capstan::steward::testing {

inline std::string read_all(Source& source, std::size_t piece = 1000) {
    std::string out;
    std::vector<std::uint8_t> buffer(piece);
    while (true) {
        const auto n = source.read(buffer);
        EXPECT_TRUE(n) << n.error().message;
        if (!n || n.value() == 0) {
            return out;
        }
        out.append(reinterpret_cast<const char*>(buffer.data()), n.value());
    }
}

inline std::vector<std::string> keys_of(ObjectStore& store,
                                        std::string_view prefix,
                                        const ListOptions& options = {}) {
    std::vector<std::string> keys;
    const auto all = list_all(store, prefix, options);
    EXPECT_TRUE(all) << all.error().message;
    for (const ObjectInfo& object : all ? all.value() : std::vector<ObjectInfo>()) {
        keys.push_back(object.key);
    }
    return keys;
}

// Bytes in which a piece in the wrong place shows: they repeat only after a prime number of them.
inline std::string pattern(std::size_t size, std::uint32_t seed = 1) {
    std::string block(std::min<std::size_t>(size, 65'537), '\0');
    std::uint32_t state = seed;
    for (char& c : block) {
        state = state * 1664525u + 1013904223u;
        c = static_cast<char>(state >> 24);
    }
    std::string out;
    while (out.size() < size) {
        out.append(block, 0, size - out.size());
    }
    return out;
}

#define STORE_OK(expression)                               \
    do {                                                   \
        const auto& outcome_ = (expression);               \
        ASSERT_TRUE(outcome_) << outcome_.error().message; \
    } while (false)

// Fails with `code`, and the message says `text`.
#define STORE_FAILS(expression, expected_code, expected_text)                      \
    do {                                                                           \
        const auto& outcome_ = (expression);                                       \
        ASSERT_FALSE(outcome_) << "it succeeded";                                  \
        EXPECT_EQ(to_string(outcome_.error().code), to_string(expected_code))      \
            << outcome_.error().message;                                           \
        EXPECT_NE(outcome_.error().message.find(expected_text), std::string::npos) \
            << outcome_.error().message;                                           \
    } while (false)

}  // namespace capstan::steward::testing
