// A configuration or manifest text as JSON plus where each member was written.
//
// Positions let every later error name file and line. Thread: values.
#pragma once

#include "capstan/error.hpp"
#include "capstan/json.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace capstan::config {

struct Document {
    std::string file;     // as shown in errors: "operator.yaml"
    int line{0};          // first line of the document, from 1; 0: unknown
    bool partial{false};  // the text breaks off; `value` holds what was complete before
    json::Value value;
    std::unordered_map<std::string, int> lines;  // RFC 6901 path of a member or item -> line

    // "file:line" of the nearest known ancestor-or-self of `path`, "file" when none is known.
    std::string position(std::string_view path) const;
};

// Takes JSON (a plugin manifest) into the same checks; positions are unknown.
Document from_json(json::Value value, std::string file);

inline constexpr std::size_t kProblemsMax = 50;  // further ones are counted, not kept

// One key a reader knows: for the reference.
struct FieldShape {
    std::string path;  // RFC 6901; free keys are NAME, items ITEM: "/plugins/NAME/path"
    std::string type;  // "text", "integer, 1 to 16", "one of: none, request, require"
};

// What is wrong with a document: everything at once, in the order found.
class Problems {
public:
    explicit Problems(const Document& document) : document_(document) {}  // borrowed

    void add(std::string_view path, std::string_view what);  // "file:12: /logging/level: what"
    bool empty() const noexcept { return texts_.empty(); }
    std::vector<std::string> texts() const;  // at most kProblemsMax, then "and n more"
    Error to_error() const;                  // invalid, one problem per line. Requires: not empty
    bool partial() const noexcept { return document_.partial; }

    // From here on readers look at every key they know, whether it is there or not, and note it.
    void record(std::vector<FieldShape>& shapes) noexcept { shapes_ = &shapes; }
    std::vector<FieldShape>* shapes() const noexcept { return shapes_; }

private:
    const Document& document_;
    std::vector<std::string> texts_;
    std::size_t dropped_{0};
    std::vector<FieldShape>* shapes_{nullptr};
};

// The candidate closest to `word` (case, typos, swapped letters), "" when none is close.
std::string_view nearest(std::string_view word, const std::vector<std::string_view>& candidates);

}  // namespace capstan::config
