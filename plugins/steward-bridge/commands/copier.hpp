// Copies one object from store to store, and looks at what is inside on the way. Thread: one.
#pragma once

#include "plugins/steward-bridge/commands/session.hpp"

#include <string>

namespace capstan::steward {

// Refers to the session and both stores.
class Copier {
public:
    Copier(Session& session, ObjectStore& from, ObjectStore& to)
        : session_(session), from_(from), to_(to) {}

    // What is damaged of it, "" when nothing is; then it is copied only with --accept-damaged.
    // Failures: of either store; the bytes differ.
    CommandResult<std::string> copy_one(const SnapshotRecord& record, const std::string& key);

private:
    Result<std::string> write_hashed(const SnapshotRecord& record,
                                     const std::string& key,
                                     std::string& damage);
    CommandResult<std::string> digest_of(const ObjectName& name, const std::string& what);

    Session& session_;
    ObjectStore& from_;
    ObjectStore& to_;
};

}  // namespace capstan::steward
