// YAML in: strict, YAML 1.2 core, as json::Value with lines.
//
// Refused, with file and line and all at once where the text still parses: duplicate keys, anchors
// and aliases, tags other than !!str, keys that are not scalars, integers with a leading zero (YAML
// 1.1 and 1.2 disagree on 010), .inf and .nan, invalid UTF-8, too deep or too large texts. Plain
// scalars get their type from resolve_plain().
#pragma once

#include "capstan/error.hpp"
#include "capstan/json.hpp"
#include "runtime/config/document.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::config {

struct LoadOptions {
    std::size_t bytes_max{8u * 1024 * 1024};  // the largest known CRD bundle is below 2 MiB
    // nesting of maps and sequences; below yaml-cpp's own guard
    std::size_t depth_max{100};
    std::size_t nodes_max{1'000'000};
    std::size_t documents_max{1'000};
};

// One document. Errors: invalid (also for none, or more than one), too_large.
Result<Document> load(std::string_view text, std::string file, const LoadOptions& options = {});
// Every document that is not empty, in order.
Result<std::vector<Document>> load_all(std::string_view text,
                                       std::string file,
                                       const LoadOptions& options = {});
// The same from a path; Document::file is the path. Errors also: not_found, forbidden,
// unavailable (unreadable).
Result<Document> load_file(const std::string& path, const LoadOptions& options = {});
Result<std::vector<Document>> load_all_file(const std::string& path,
                                            const LoadOptions& options = {});

// One document as far as it can be read, and all that is wrong with the text: one fault does not
// hide the others. Of duplicate keys the first counts; behind a fault of syntax nothing is read.
struct Examined {
    Document document;  // an empty map, `partial`, when nothing can be read
    std::vector<std::string> problems;
};
// Errors: those of load_file where there is no text at all.
Result<Examined> examine_file(const std::string& path, const LoadOptions& options = {});

// The value of a plain scalar by the YAML 1.2 core schema: null, ~, "", true/True/TRUE, false…,
// decimal, 0o and 0x integers, floats; everything else (yes, on, 1_000, 0b1, 12:30) is text.
// Integers beyond int64 become real.
// Errors: invalid (leading zero, .inf, .nan).
Result<json::Value> resolve_plain(std::string_view text);

// Block style, members in order; strings quoted where a YAML 1.1 or 1.2 reader could take
// them for something else.
std::string to_yaml(const json::Value& value);

}  // namespace capstan::config
