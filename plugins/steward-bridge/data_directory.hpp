// Is there an etcd data directory here, and does it look whole?
//
// Looks only; never writes. A running etcd holds the database's lock, so this is called while none
// runs. Format of the meta page: bbolt's page.go and bucket.go (facts), checksum FNV-1a 64.
#pragma once

#include <string>

namespace capstan::steward {

struct DataDirectory {
    enum class State { missing, valid, invalid };
    State state{State::missing};
    std::string reason;  // for invalid: one sentence
};

// missing: no directory, or one without anything of etcd's in it. invalid: parts are missing,
// unreadable, or neither meta page of the database is intact.
DataDirectory inspect_data_directory(const std::string& path);

}  // namespace capstan::steward
