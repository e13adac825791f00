// Whose data is on this volume: this member's, an earlier life's of it, or somebody else's.
//
// Two witnesses: the ids in the log, and a note of the member's name that lies beside the data and
// goes where the data goes. etcd-backup-restore's `safe_guard` (the namespace, beside the data
// directory) counts as well.
#pragma once

#include "plugins/steward-bridge/data/data_directory.hpp"

#include "capstan/error.hpp"
#include "capstan/object_ref.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace capstan::steward {

enum class DataOwner : std::uint8_t {
    unknown,  // nothing speaks for or against this member
    mine,
    earlier_life,  // of this member, before the cluster removed it
    foreign,
};

struct OwnerFacts {
    std::string note, safe_guard;           // as read; "" when there is none
    std::string record_id, record_cluster;  // status.id and clusterID of the EtcdMember, "" unknown
    bool list_known{false};                 // the running cluster has answered
    std::string cluster_id;                 // its id
    std::string own_id;                     // this member's in it; "": not listed
    std::vector<std::string> other_ids;
};

struct OwnerVerdict {
    DataOwner owner{DataOwner::unknown};
    std::string volume_id;  // for foreign: what the data says of itself
    std::string message;    // likewise, one sentence
};

OwnerVerdict judge_owner(const DataDirectory& data, const OwnerFacts& facts, const ObjectKey& me);

struct OwnerNotes {
    std::string note, safe_guard;
};
// Errors: what the system says of a note that is there, or may be.
Result<OwnerNotes> read_owner_notes(const std::string& data_directory);
// Makes the note and, where it lacks, the safe_guard. Errors: of reading them; unavailable.
Result<void> write_owner_notes(const std::string& data_directory, const ObjectKey& me);

// Can something be written beside the data directory? Error: what the system says; its message ends
// with the path.
Result<void> check_writable(const std::string& data_directory);

}  // namespace capstan::steward
