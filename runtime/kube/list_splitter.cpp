#include "runtime/kube/list_splitter.hpp"

#include "runtime/kube/json_scan.hpp"

namespace capstan::kube {

// Inside of a string: true until its end.
bool ListSplitter::in_text(char c) noexcept {
    if (escaped_) {
        escaped_ = false;
    } else if (c == '\\') {
        escaped_ = true;
    } else if (c == '"') {
        text_ = false;
    }
    return text_;
}

// An array begins: is it the value of the member "items" of the list?
bool ListSplitter::opens_items() const noexcept {
    std::string_view before = head_;
    for (const std::string_view expected : {":", "\"items\""}) {
        const std::size_t end = before.find_last_not_of(" \t\r\n");
        before = before.substr(0, end == std::string_view::npos ? 0 : end + 1);
        if (depth_ != 1 || !before.ends_with(expected)) {
            return false;
        }
        before.remove_suffix(expected.size());
    }
    return !before.ends_with('\\');
}

Result<void> ListSplitter::head(char c) {
    if (head_.size() >= kListHeadBytesMax) {
        return fail(
            Code::too_large,
            "a list whose metadata is over " + std::to_string(kListHeadBytesMax) + " bytes");
    }
    if (!text_ && c == '[' && opens_items()) {
        in_ = In::items;
        depth_ = 0;
    } else if (text_) {
        in_text(c);
    } else if (c == '"') {
        text_ = true;
    } else if (c == '{' || c == '[') {
        ++depth_;
    } else if (c == '}' || c == ']') {
        if (depth_ == 0) {
            return fail(Code::invalid, "answer of the server is no list");
        }
        --depth_;
    }
    head_ += c;
    return ok();
}

Result<void> ListSplitter::feed(std::string_view bytes,
                                const std::function<bool(std::string_view)>& item) {
    const char* at = bytes.data();
    const char* const end = at + bytes.size();
    const char* begin = at;  // of the element, as far as it is in this chunk
    while (at < end) {
        if (in_ == In::head) {
            CAPSTAN_TRY(head(*at++));
            begin = at;
            continue;
        }
        if (text_) {
            if (!escaped_) {
                at = scan::plain_end(at, end);
            }
            if (at < end) {
                in_text(*at++);
            }
            continue;
        }
        const char c = *at++;
        if (depth_ == 0) {  // between elements
            begin = at - 1;
            if (c == '{') {
                depth_ = 1;
            } else if (c == ']') {
                head_ += c;
                in_ = In::head;
                depth_ = 1;
            } else if (c != ',' && c != ' ' && c != '\n' && c != '\r' && c != '\t') {
                return fail(Code::invalid, "an item of the server's list is no object");
            }
            continue;
        }
        if (c == '"') {
            text_ = true;
        } else if (c == '{' || c == '[') {
            ++depth_;
        } else if ((c == '}' || c == ']') && --depth_ == 0) {
            const std::string_view piece(begin, static_cast<std::size_t>(at - begin));
            bool go_on = true;
            if (item_.empty()) {
                go_on = item(piece);
            } else {
                item_.append(piece);
                // freed before the next one grows
                const std::string whole = std::exchange(item_, {});
                go_on = item(whole);
            }
            if (!go_on) {
                return ok();
            }
        }
    }
    if (in_ == In::items && depth_ > 0) {
        item_.append(begin, static_cast<std::size_t>(end - begin));
        if (item_.size() > kListItemBytesMax) {
            return fail(
                Code::too_large,
                "an item of a list is over " + std::to_string(kListItemBytesMax) + " bytes");
        }
    }
    return ok();
}

Result<json::Value> ListSplitter::finish() const {
    const bool whole =
        in_ == In::head && depth_ == 0 && !text_ && head_.find('{') != std::string::npos;
    if (!whole) {
        return fail(Code::unavailable, "the server's list is cut off");
    }
    CAPSTAN_TRY(json::Value list, json::parse(head_, {.bytes_max = kListHeadBytesMax}));
    // "\u0069tems": items that were not seen as such must not pass for none.
    if (!json::View(list)["items"].array().empty()) {
        return fail(Code::invalid, "the server's list has items under an escaped key");
    }
    return list;
}

}  // namespace capstan::kube
