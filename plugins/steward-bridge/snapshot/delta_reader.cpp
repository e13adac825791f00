#include "plugins/steward-bridge/snapshot/delta_reader.hpp"

#include <string_view>

namespace capstan::steward {
namespace {

// Members already seen of one object; a second one could mean either.
class Seen {
public:
    bool first(DeltaScanner& scanner, unsigned member, std::string_view name) {
        const unsigned bit = 1u << member;
        if ((bits_ & bit) != 0) {
            return scanner.fail("member \"" + std::string(name) + "\" comes twice");
        }
        bits_ |= bit;
        return true;
    }

private:
    unsigned bits_{0};
};

bool read_integer_or_null(DeltaScanner& scanner, std::int64_t& value) {
    bool null = false;
    return scanner.take_null(null) && (null || scanner.read_integer(value));
}

bool read_base64_or_null(DeltaScanner& scanner, std::string& bytes) {
    bool null = false;
    return scanner.take_null(null) && (null || scanner.read_base64(bytes));
}

}  // namespace

DeltaReader::DeltaReader(Source& from, std::string object, DeltaRange range)
    : scanner_(from, std::move(object), kDeltaValueBytesMax), range_(range) {}

Result<bool> DeltaReader::next(DeltaEvent& event) {
    if (ended_) {
        return false;
    }
    bool more = true;
    bool fine = true;
    if (!begun_) {
        begun_ = true;
        bool empty = false;
        fine = scanner_.expect('[') && scanner_.take(']', empty);
        more = !empty;
    } else {
        fine = scanner_.take(',', more) && (more || scanner_.expect(']'));
    }
    fine = fine && (more ? read_event(event) && check(event) : check_end());
    if (!fine) {
        return capstan::fail(scanner_.error());
    }
    ended_ = !more;
    return more;
}

bool DeltaReader::read_event(DeltaEvent& event) {
    event.deleted = false;
    event.key.clear();
    event.value.clear();
    event.create_revision = event.mod_revision = event.version = event.lease = 0;
    event.leases.clear();
    Seen seen;
    return scanner_.read_object([&](std::string_view name) {
        if (name == "etcdEvent") {
            return seen.first(scanner_, 0, name) && read_etcd_event(event);
        }
        if (name == "leases") {
            return seen.first(scanner_, 1, name) && read_leases(event);
        }
        return scanner_.skip_value();  // the time among them
    });
}

bool DeltaReader::read_etcd_event(DeltaEvent& event) {
    Seen seen;
    return scanner_.read_object([&](std::string_view name) {
        if (name == "kv") {
            return seen.first(scanner_, 0, name) && read_key_value(event);
        }
        if (name == "type") {
            std::int64_t type = 0;
            if (!seen.first(scanner_, 1, name) || !read_integer_or_null(scanner_, type)) {
                return false;
            }
            event.deleted = type == 1;
            return type == 0 || type == 1 ||
                   scanner_.fail("there is an event of the unknown type " + std::to_string(type));
        }
        return scanner_.skip_value();  // prev_kv among them
    });
}

bool DeltaReader::read_key_value(DeltaEvent& event) {
    Seen seen;
    return scanner_.read_object([&](std::string_view name) {
        if (name == "key") {
            return seen.first(scanner_, 0, name) && read_base64_or_null(scanner_, event.key);
        }
        if (name == "value") {
            return seen.first(scanner_, 1, name) && read_base64_or_null(scanner_, event.value);
        }
        if (name == "create_revision") {
            return seen.first(scanner_, 2, name) &&
                   read_integer_or_null(scanner_, event.create_revision);
        }
        if (name == "mod_revision") {
            return seen.first(scanner_, 3, name) &&
                   read_integer_or_null(scanner_, event.mod_revision);
        }
        if (name == "version") {
            return seen.first(scanner_, 4, name) && read_integer_or_null(scanner_, event.version);
        }
        if (name == "lease") {
            return seen.first(scanner_, 5, name) && read_integer_or_null(scanner_, event.lease);
        }
        return scanner_.skip_value();
    });
}

bool DeltaReader::read_leases(DeltaEvent& event) {
    bool null = false;
    if (!scanner_.take_null(null) || null) {
        return null;
    }
    return scanner_.read_array([&] {
        if (event.leases.size() == kDeltaLeasesMax) {
            return scanner_.fail("an event has more leases than " +
                                 std::to_string(kDeltaLeasesMax));
        }
        DeltaLease lease;
        if (!read_lease(lease)) {
            return false;
        }
        event.leases.push_back(lease);
        return true;
    });
}

bool DeltaReader::read_lease(DeltaLease& lease) {
    Seen seen;
    return scanner_.read_object([&](std::string_view name) {
        if (name == "ID") {
            return seen.first(scanner_, 0, name) && scanner_.read_integer(lease.id);
        }
        if (name == "TTL") {
            return seen.first(scanner_, 1, name) && scanner_.read_integer(lease.ttl_seconds);
        }
        return scanner_.skip_value();
    });
}

bool DeltaReader::check(const DeltaEvent& event) {
    const std::int64_t revision = event.mod_revision;
    if (event.key.empty() || revision <= 0) {
        return scanner_.fail("an event without key or mod_revision ends");
    }
    if (!event.deleted &&
        (event.version <= 0 || event.create_revision <= 0 || event.create_revision > revision)) {
        return scanner_.fail("the put of revision " + std::to_string(revision) +
                             " has no version, or no create_revision up to it; it ends");
    }
    const std::int64_t expected = last_ == 0 ? range_.start : last_ + 1;
    if (last_ != 0 && revision < last_) {
        return scanner_.fail("revision " + std::to_string(revision) + " comes after " +
                             std::to_string(last_) + ", and revisions never fall; it ends");
    }
    if (expected != 0 && revision != expected && revision != last_) {
        return scanner_.fail("revision " + std::to_string(expected) + " is missing before " +
                             std::to_string(revision) + ", which ends");
    }
    if (range_.last != 0 && revision > range_.last) {
        return scanner_.fail("revision " + std::to_string(revision) + " is above " +
                             std::to_string(range_.last) + ", the last of its name; it ends");
    }
    last_ = revision;
    ++events_;
    return true;
}

bool DeltaReader::check_end() {
    if (!scanner_.expect_end()) {
        return false;
    }
    if (range_.start != 0 && events_ == 0) {
        return scanner_.fail("it holds no event, and ends");
    }
    return range_.last == 0 || last_ == range_.last ||
           scanner_.fail("its last revision is " + std::to_string(last_) + ", not " +
                         std::to_string(range_.last) + " as in its name; it ends");
}

}  // namespace capstan::steward
