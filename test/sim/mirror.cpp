#include "test/sim/mirror.hpp"

#include "runtime/local/node/objects.hpp"

namespace capstan::test {

Mirror::Mirror(net::Loop& loop, ApiHost& api, std::string path)
    : loop_(loop), api_(api), path_(std::move(path)) {
    open();
}

Mirror::~Mirror() = default;

void Mirror::open() {
    objects_.clear();
    local::ApiRequest request;
    request.target = path_ + "?watch=true";
    request.accept = "application/json";
    request.user = {"actor", {"system:masters"}};
    local::WatchSink sink;
    sink.on_lines = [this](std::string_view lines) { take(lines); };
    sink.on_end = [this, alive = std::weak_ptr<bool>(alive_)] {
        loop_.post([this, alive] {
            if (!alive.expired()) {
                watch_.reset();
                open();
            }
        });
    };
    local::WatchStart started = api_.server().open_watch(request, std::move(sink));
    CAPSTAN_CHECK(started.handle != nullptr, path_ + ": " + started.refused.body);
    watch_ = std::move(started.handle);
}

void Mirror::take(std::string_view lines) {
    while (!lines.empty()) {
        const std::string_view line = lines.substr(0, lines.find('\n'));
        lines.remove_prefix(std::min(lines.size(), line.size() + 1));
        auto event = json::parse(line);
        CAPSTAN_CHECK(event.has_value(), std::string(line));
        const std::string_view type = json::View(event.value())["type"].string_or("");
        json::Value* object = event.value().find("object");
        if (object == nullptr || type == "BOOKMARK" || type == "ERROR") {
            continue;
        }
        ++changes_;
        const ObjectKey key = local::key_of(*object);
        if (type == "DELETED") {
            objects_.erase(key);
        } else {
            objects_[key] = std::make_shared<const json::Value>(std::move(*object));
        }
    }
}

const json::Value* Mirror::find(const ObjectKey& key) const {
    const auto found = objects_.find(key);
    return found == objects_.end() ? nullptr : found->second.get();
}

std::vector<const json::Value*> Mirror::controlled_by(const std::string& uid) const {
    std::vector<const json::Value*> out;
    for (const auto& [key, object] : objects_) {
        if (local::controller_uid(*object) == uid) {
            out.push_back(object.get());
        }
    }
    return out;
}

}  // namespace capstan::test
