#include "runtime/cli/text_table.hpp"

#include <algorithm>

namespace capstan::cli {

std::string text_table(const std::vector<std::vector<std::string>>& rows,
                       const std::set<std::size_t>& right) {
    std::vector<std::size_t> widths;
    for (const auto& row : rows) {
        widths.resize(std::max(widths.size(), row.size()));
        for (std::size_t i = 0; i < row.size(); ++i) {
            widths[i] = std::max(widths[i], row[i].size());
        }
    }
    std::string out;
    for (const auto& row : rows) {
        std::string line;
        for (std::size_t i = 0; i < row.size(); ++i) {
            const std::size_t blanks = widths[i] - row[i].size();
            const bool before = right.contains(i);
            line.append(before ? blanks : 0, ' ');
            line += row[i];
            if (i + 1 < row.size()) {
                line.append((before ? 0 : blanks) + 2, ' ');
            }
        }
        line.erase(line.find_last_not_of(' ') + 1);
        out += line + "\n";
    }
    return out;
}

std::string duration_text(double seconds) {
    constexpr long kMinute = 60, kHour = 60 * kMinute, kDay = 24 * kHour;
    if (!(seconds > 0)) {
        return "0s";
    }
    if (seconds < 1) {
        return std::to_string(static_cast<long>(seconds * 1000)) + "ms";
    }
    const long whole = static_cast<long>(std::min(seconds, 1e12));
    if (whole < 10) {
        const long tenths = static_cast<long>(seconds * 10) % 10;
        return std::to_string(whole) + (tenths == 0 ? "" : "." + std::to_string(tenths)) + "s";
    }
    if (whole < kMinute) {
        return std::to_string(whole) + "s";
    }
    const auto two = [whole](long unit, const char* name, long smaller, const char* smaller_name) {
        return std::to_string(whole / unit) + name + std::to_string(whole % unit / smaller) +
               smaller_name;
    };
    return whole < kHour  ? two(kMinute, "m", 1, "s")
           : whole < kDay ? two(kHour, "h", kMinute, "m")
                          : two(kDay, "d", kHour, "h");
}

std::vector<std::vector<std::string>> table_rows(const json::Value& table,
                                                 bool wide,
                                                 bool with_namespace) {
    const json::View view(table);
    std::vector<std::size_t> shown;
    std::vector<std::vector<std::string>> rows(1);
    if (with_namespace) {
        rows[0].push_back("NAMESPACE");
    }
    for (std::size_t i = 0; i < view["columnDefinitions"].array().size(); ++i) {
        const json::View column = view["columnDefinitions"][i];
        if (wide || column["priority"].int_or(0) == 0) {
            shown.push_back(i);
            std::string name(column["name"].string_or(""));
            for (char& c : name) {
                c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
            }
            rows[0].push_back(std::move(name));
        }
    }
    for (const json::Value& row : view["rows"].array()) {
        const json::View described(row);
        std::vector<std::string> texts;
        if (with_namespace) {
            texts.emplace_back(described["object"]["metadata"]["namespace"].string_or(""));
        }
        for (const std::size_t i : shown) {
            const json::View cell = described["cells"][i];
            const std::string* text = cell.present() ? cell.value()->if_string() : nullptr;
            texts.push_back(text != nullptr  ? *text
                            : cell.present() ? json::dump(*cell.value())
                                             : "<none>");
        }
        rows.push_back(std::move(texts));
    }
    return rows;
}

}  // namespace capstan::cli
