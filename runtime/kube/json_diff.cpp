#include "runtime/kube/json_diff.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace capstan::kube {
namespace {

class Differ {
public:
    // Depth is bounded by the parser's limit.
    void compare(const json::Value& from, const json::Value& to, const std::string& path) {
        if (from.is_object() && to.is_object()) {
            compare_objects(*from.if_object(), *to.if_object(), from, to, path);
        } else if (from.is_array() && to.is_array()) {
            compare_arrays(*from.if_array(), *to.if_array(), path);
        } else if (!(from == to)) {
            emit("replace", path, &to);
        }
    }
    json::Value take() { return std::move(operations_); }

private:
    void compare_objects(const json::Object& old_members,
                         const json::Object& new_members,
                         const json::Value& from,
                         const json::Value& to,
                         const std::string& path) {
        const auto below = [&path](const std::string& key) {
            return path + "/" + json::escape_pointer_token(key);
        };
        for (const json::Member& member : old_members) {
            if (const json::Value* kept = to.find(member.key)) {
                compare(member.value, *kept, below(member.key));
            } else {
                emit("remove", below(member.key), nullptr);
            }
        }
        for (const json::Member& member : new_members) {
            if (from.find(member.key) == nullptr) {
                emit("add", below(member.key), &member.value);
            }
        }
    }

    void compare_arrays(const json::Array& from, const json::Array& to, const std::string& path) {
        const std::size_t shorter = std::min(from.size(), to.size());
        std::size_t begin = 0;
        while (begin < shorter && from[begin] == to[begin]) {
            ++begin;
        }
        std::size_t end = 0;
        while (end < shorter - begin && from[from.size() - 1 - end] == to[to.size() - 1 - end]) {
            ++end;
        }
        const std::size_t from_end = from.size() - end, to_end = to.size() - end;
        const std::size_t pairs = std::min(from_end, to_end);
        const auto item = [&path](std::size_t i) { return path + "/" + std::to_string(i); };
        for (std::size_t i = begin; i < pairs; ++i) {
            compare(from[i], to[i], item(i));
        }
        for (std::size_t i = from_end; i > pairs; --i) {  // from the back: indexes stay true
            emit("remove", item(i - 1), nullptr);
        }
        for (std::size_t i = pairs; i < to_end; ++i) {
            emit("add", item(i), &to[i]);
        }
    }

    void emit(const char* operation, const std::string& path, const json::Value* value) {
        json::Value made = {{"op", operation}, {"path", path}};
        if (value != nullptr) {
            made.set("value", *value);
        }
        operations_.push_back(std::move(made));
    }

    json::Value operations_ = json::list();
};

}  // namespace

json::Value json_diff(const json::Value& from, const json::Value& to) {
    Differ differ;
    differ.compare(from, to, "");
    return differ.take();
}

}  // namespace capstan::kube
