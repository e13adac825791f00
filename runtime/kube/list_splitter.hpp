// Cuts the JSON of a list answer into its items while it arrives, in any chunks. What is not in
// `items` is kept as text and parsed at the end, wherever the server put it.
// Each byte is looked at once and copied at most once. Thread: owning thread.
#pragma once

#include "capstan/error.hpp"
#include "capstan/json.hpp"

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace capstan::kube {

inline constexpr std::size_t kListItemBytesMax = 32u * 1024 * 1024;
inline constexpr std::size_t kListHeadBytesMax = 1024 * 1024;

class ListSplitter {
public:
    // Calls `item` with each element of `items`; the view dies when it returns, and returning false
    // stops: the rest of `bytes` is dropped. Errors: invalid (no list), too_large; the splitter
    // must not be fed again then.
    Result<void> feed(std::string_view bytes, const std::function<bool(std::string_view)>& item);
    // The list without its items, when all of it has come. Errors: unavailable (cut off), invalid.
    Result<json::Value> finish() const;

private:
    enum class In { head, items };

    bool in_text(char c) noexcept;
    bool opens_items() const noexcept;
    Result<void> head(char c);

    In in_{In::head};
    std::size_t depth_{0};  // of what is open; in items: within the element
    bool text_{false};      // inside a string
    bool escaped_{false};   // the byte after a backslash
    std::string head_;
    std::string item_;  // an element that began in an earlier chunk
};

}  // namespace capstan::kube
