// The files below a folder as pages in the order of their keys.
#pragma once

#include "plugins/steward-bridge/store/store.hpp"

namespace capstan::steward::local {

// Memory: the names of one folder per level, and a page. What disappears meanwhile is left out, as
// are links, special files and unfinished files.
Result<void> list_files(int root,
                        const std::string& directory,
                        std::string_view prefix,
                        std::size_t page_keys,
                        const OnPage& on_page);

}  // namespace capstan::steward::local
