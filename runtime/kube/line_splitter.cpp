#include "runtime/kube/line_splitter.hpp"

#include <string>

namespace capstan::kube {
namespace {

bool is_blank(std::string_view text) noexcept {
    return text.find_first_not_of(" \t\r") == std::string_view::npos;
}

}  // namespace

Result<void> LineSplitter::feed(std::string_view bytes,
                                const std::function<bool(std::string_view)>& line) {
    while (!bytes.empty()) {
        // Only the new bytes are searched: what is buffered holds no line end.
        const std::size_t end = bytes.find('\n');
        const bool complete = end != std::string_view::npos;
        const std::string_view piece = bytes.substr(0, end);
        if (buffer_.size() + piece.size() > line_bytes_max_) {
            buffer_ = {};
            return fail(Code::too_large,
                        "a watch event is over " + std::to_string(line_bytes_max_) + " bytes");
        }
        bytes.remove_prefix(complete ? end + 1 : piece.size());
        if (!complete) {
            buffer_.append(piece);
            break;
        }
        bool go_on = true;
        if (buffer_.empty()) {
            go_on = is_blank(piece) || line(piece);
        } else {
            buffer_.append(piece);
            // freed before the next one grows
            const std::string whole = std::exchange(buffer_, {});
            go_on = is_blank(whole) || line(whole);
        }
        if (!go_on) {
            break;
        }
    }
    return ok();
}

}  // namespace capstan::kube
