#include "runtime/config/document.hpp"

#include <algorithm>

namespace capstan::config {

namespace {

constexpr std::size_t kWordBytesMax = 64;  // longer words are not compared

char lower(char c) noexcept {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// Edit distance with swaps of neighbours (optimal string alignment), case ignored.
std::size_t distance(std::string_view a, std::string_view b) {
    std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
    for (std::size_t i = 0; i <= a.size(); ++i) {
        d[i][0] = i;
    }
    for (std::size_t j = 0; j <= b.size(); ++j) {
        d[0][j] = j;
    }
    for (std::size_t i = 1; i <= a.size(); ++i) {
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t cost = lower(a[i - 1]) == lower(b[j - 1]) ? 0 : 1;
            d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + cost});
            const bool swapped = i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
                                 lower(a[i - 2]) == lower(b[j - 1]);
            if (swapped) {
                d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
            }
        }
    }
    return d[a.size()][b.size()];
}

}  // namespace

std::string Document::position(std::string_view path) const {
    std::string_view at = path;
    while (!at.empty()) {
        if (const auto it = lines.find(std::string(at)); it != lines.end()) {
            return file + ":" + std::to_string(it->second);
        }
        at = at.substr(0, at.rfind('/'));
    }
    return line > 0 ? file + ":" + std::to_string(line) : file;
}

Document from_json(json::Value value, std::string file) {
    Document document;
    document.file = std::move(file);
    document.value = std::move(value);
    return document;
}

void Problems::add(std::string_view path, std::string_view what) {
    if (texts_.size() >= kProblemsMax) {
        ++dropped_;
        return;
    }
    std::string text = document_.position(path) + ": ";
    if (!path.empty()) {
        text.append(path).append(": ");
    }
    texts_.push_back(std::move(text.append(what)));
}

std::vector<std::string> Problems::texts() const {
    std::vector<std::string> all = texts_;
    if (dropped_ != 0) {
        all.push_back("and " + std::to_string(dropped_) + " more");
    }
    return all;
}

Error Problems::to_error() const {
    std::string message;
    for (const std::string& text : texts()) {
        message += message.empty() ? "" : "\n";
        message += text;
    }
    return Error{Code::invalid, std::move(message), std::chrono::milliseconds{0}};
}

std::string_view nearest(std::string_view word, const std::vector<std::string_view>& candidates) {
    std::string_view best;
    std::size_t best_distance = std::max<std::size_t>(2, word.size() / 3) + 1;
    if (word.size() > kWordBytesMax) {
        return best;
    }
    for (const std::string_view candidate : candidates) {
        if (candidate.size() > kWordBytesMax) {
            continue;
        }
        const std::size_t found = distance(word, candidate);
        // A word that shares no letter with the candidate is no typo of it.
        if (found < best_distance && found < std::max(word.size(), candidate.size())) {
            best = candidate;
            best_distance = found;
        }
    }
    return best;
}

}  // namespace capstan::config
