// Records of the snapshot and the log, and the small file helpers around them. Used
// by persistence.cpp only.
#pragma once

#include "runtime/local/apiserver/store.hpp"

#include "capstan/error.hpp"
#include "capstan/json.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::local {

void append_record(std::string& out, std::string_view json);

struct RecordCursor {
    std::string_view bytes;
    std::uint64_t offset{0};  // of the next record

    bool at_end() const noexcept { return offset == bytes.size(); }
    // The next record's JSON; nullopt when what follows is not a whole, undamaged record.
    std::optional<std::string_view> next();
};

// {"r":12,"c":[{"s":"pods","k":"ns/a","v":12,"o":{…}},{"s":"pods","k":"ns/b","v":11}]}:
// no "o" is a delete.
std::string change_record(const std::vector<Change>& changes);
Result<void> replay_record(std::string_view record, Store& store);

Result<std::string> read_whole_file(const std::string& path);  // not_found when absent
Result<void> write_all(int fd, std::string_view bytes, const std::string& path);
Error errno_error(const std::string& what);

}  // namespace capstan::local
