// A copy of one resource of the embedded API server, kept by a watch of its own: what an actor of
// the simulated world sees, always at once. Thread: the loop's.
#pragma once

#include "capstan/json.hpp"
#include "capstan/object_ref.hpp"
#include "test/sim/api_handler.hpp"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace capstan::test {

class Mirror {
public:
    // shared: an object outlives a change while somebody looks at it
    using Objects = std::map<ObjectKey, std::shared_ptr<const json::Value>>;

    // `path`: "/api/v1/namespaces/ns/pods". Borrowed; both outlive *this.
    Mirror(net::Loop& loop, ApiHost& api, std::string path);
    ~Mirror();
    Mirror(const Mirror&) = delete;
    Mirror& operator=(const Mirror&) = delete;

    const Objects& all() const noexcept { return objects_; }
    const json::Value* find(const ObjectKey& key) const;
    std::vector<const json::Value*> controlled_by(const std::string& uid) const;
    std::uint64_t changes() const noexcept { return changes_; }  // so far

private:
    void open();
    void take(std::string_view lines);

    net::Loop& loop_;
    ApiHost& api_;
    const std::string path_;
    Objects objects_;
    std::unique_ptr<local::WatchHandle> watch_;
    std::shared_ptr<bool> alive_{std::make_shared<bool>(true)};  // seen by posted tasks
    std::uint64_t changes_{0};
};

}  // namespace capstan::test
