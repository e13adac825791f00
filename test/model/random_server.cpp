#include "test/model/random_server.hpp"

#include <algorithm>
#include <vector>

namespace capstan::model {
namespace {

constexpr std::size_t kLogMax = 512;  // older events are compacted by themselves

}  // namespace

RandomServer::RandomServer(Random& random) : random_(random) {}

const ObjectKey& RandomServer::key(std::size_t index) {
    static const std::vector<ObjectKey> keys = [] {
        std::vector<ObjectKey> made;
        for (std::size_t i = 0; i < kNames; ++i) {
            made.push_back({"ns", std::string(1, static_cast<char>('a' + i))});
        }
        return made;
    }();
    return keys[index];
}

std::size_t RandomServer::index_of(std::string_view name) {
    return static_cast<std::size_t>(name.front() - 'a');
}

ObjectPtr RandomServer::fresh(std::size_t index, const std::string& uid) {
    std::string text = R"({"apiVersion":"v1","kind":"Thing","metadata":{"name":")";
    text += key(index).name;
    text += R"(","namespace":"ns","uid":")";
    text += uid;
    text += R"(","resourceVersion":")";
    text += std::to_string(++now_.rv);
    text += R"("}})";
    return kube::Object::decode(text, kube::Projection::none()).value();
}

const Change& RandomServer::write(std::size_t index) {
    ObjectPtr& object = now_.objects[index];
    Change change;
    if (!object) {
        object = fresh(index, "u" + std::to_string(++uids_));
        change.object = object;
    } else if (random_() % 4 == 0) {
        change.removed = true;
        change.object = fresh(index, std::string(object->uid()));
        object = nullptr;
    } else {
        object = fresh(index, std::string(object->uid()));
        change.object = object;
    }
    change.rv = now_.rv;
    log_.push_back(std::move(change));
    if (log_.size() > kLogMax) {
        compacted_ = std::max(compacted_, log_.front().rv);
        log_.pop_front();
        ++log_begin_;
    }
    if (++writes_ % kPastEvery == 0) {
        past_.push_back(now_);
        if (past_.size() > kPastMax) {
            past_.pop_front();
        }
    }
    return log_.back();
}

bool RandomServer::set_back(std::uint64_t rv) {
    if (past_.empty() || past_.front().rv >= rv) {
        return false;
    }
    now_ = past_.front();
    past_.clear();
    log_begin_ += log_.size();
    log_.clear();
    compacted_ = now_.rv;
    frozen_ = true;
    return true;
}

const Snapshot& RandomServer::any_past() {
    return past_.empty() ? now_ : past_[random_() % past_.size()];
}

std::uint64_t RandomServer::first_event_after(std::uint64_t rv) const {
    const auto found = std::upper_bound(
        log_.begin(), log_.end(), rv, [](std::uint64_t a, const Change& b) { return a < b.rv; });
    return log_begin_ + static_cast<std::uint64_t>(found - log_.begin());
}

const Change* RandomServer::event(std::uint64_t number) const {
    return number < log_begin_ || number >= end_of_events() ? nullptr : &log_[number - log_begin_];
}

}  // namespace capstan::model
