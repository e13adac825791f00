// For tests: one change of a good manifest and what must be said about it.
#pragma once

#include "runtime/plugin/manifest.hpp"

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <string_view>

namespace capstan::plugin {

struct ManifestRow {
    const char* name;
    const char* cut;   // text of the manifest
    const char* with;  // what replaces it
    const char* problem;
};
inline std::ostream& operator<<(std::ostream& out, const ManifestRow& row) {
    return out << row.name;
}

inline void expect_refused(std::string_view manifest, const ManifestRow& row) {
    std::string text(manifest);
    const std::size_t at = text.find(row.cut);
    ASSERT_NE(at, std::string::npos);
    text.replace(at, std::string_view(row.cut).size(), row.with);
    Problems problems;
    EXPECT_FALSE(parse_manifest(text, {}, problems));
    ASSERT_FALSE(problems.empty());
    EXPECT_EQ(problems.lines().front(), row.problem);
}

}  // namespace capstan::plugin
