// Is there an etcd data directory here, is it whole, and whose is it?
//
// Looks only; never writes. A running etcd holds the database's lock; such a directory is `in_use`
// and nothing in it is judged. What the system does not let be read (EIO, EACCES, EMFILE, …) is
// `unreadable`, neither damaged nor missing: the next look may see all of it. Thread: any.
#pragma once

#include "capstan/error.hpp"

#include <cstdint>
#include <string>

namespace capstan::steward {

struct DataDirectory {
    enum class State : std::uint8_t { missing, valid, invalid, in_use, unreadable };
    State state{State::missing};
    std::string reason;        // for invalid, in_use and unreadable: one sentence
    bool damaged{false};       // invalid because content contradicts itself, not because parts lack
    std::string member_id;     // as the log says, lower-case hex; "": not known
    std::string cluster_id;    // likewise
    std::int64_t revision{0};  // of the database; 0: not known
};

enum class Depth : std::uint8_t {
    // Parts, meta pages, the newest revision, the last file of the log, and that log, .snap files
    // and database fit each other.
    sanity,
    // Also every page, key and value of the database and every record of the log that counts.
    full,
};

// missing: no directory, or one without anything of etcd's in it.
DataDirectory inspect_data_directory(const std::string& path, Depth depth);

// Has another process the database open for writing? Errors: unavailable (cannot be told).
Result<bool> is_in_use(const std::string& path);

// What changes when somebody writes to the directory: two equal ones need no second look.
std::string fingerprint_of(const std::string& path);

}  // namespace capstan::steward
