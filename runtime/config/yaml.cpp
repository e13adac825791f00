#include "runtime/config/yaml.hpp"

#include "runtime/config/yaml_parser.hpp"
#include "runtime/obs/utf8.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

namespace capstan::config {

namespace {

// Line of the first byte that is not valid text for YAML, 0 when all is well.
int first_bad_line(std::string_view text) noexcept {
    int line = 1;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t length = obs::utf8_length(text, at);
        const auto c = static_cast<unsigned char>(text[at]);
        const bool control = c < 0x20 && c != '\n' && c != '\r' && c != '\t';
        if (length == 0 || control || c == 0x7F) {
            return line;
        }
        if (c == '\n') {
            ++line;
        }
        at += length;
    }
    return 0;
}

Result<std::string> read_file(const std::string& path, std::size_t bytes_max) {
    const auto refuse = [&path](int number) {
        const Code code = number == ENOENT   ? Code::not_found
                          : number == EACCES ? Code::forbidden
                                             : Code::unavailable;
        return fail(code, path + ": " + std::strerror(number));
    };
    const auto close = [](std::FILE* f) { std::fclose(f); };
    const std::unique_ptr<std::FILE, decltype(close)> file(std::fopen(path.c_str(), "re"), close);
    if (!file) {
        return refuse(errno);
    }
    std::string text;
    char buffer[16 * 1024];
    for (;;) {
        const std::size_t count = std::fread(buffer, 1, sizeof buffer, file.get());
        if (count == 0) {
            break;
        }
        text.append(buffer, count);
        // load() refuses it
        if (text.size() > bytes_max) {
            break;
        }
    }
    if (std::ferror(file.get()) != 0) {
        return refuse(errno);
    }
    return text;
}

}  // namespace

namespace {

Result<void> check_text(std::string_view text,
                        const std::string& file,
                        const LoadOptions& options) {
    if (text.size() > options.bytes_max) {
        return fail(Code::too_large,
                    file + ": larger than " + std::to_string(options.bytes_max) + " bytes");
    }
    if (const int line = first_bad_line(text); line != 0) {
        return fail(Code::invalid, file + ":" + std::to_string(line) + ": not UTF-8 text");
    }
    return ok();
}

std::string nothing_in(const std::string& file) {
    return file + ": the file holds nothing";
}

std::string second_in(const std::vector<Document>& documents) {
    return documents[1].file + ":" + std::to_string(documents[1].line) +
           ": a second document; only one is allowed here";
}

}  // namespace

Result<std::vector<Document>> load_all(std::string_view text,
                                       std::string file,
                                       const LoadOptions& options) {
    CAPSTAN_TRY(check_text(text, file, options));
    return parse_documents(text, file, options);
}

Result<Document> load(std::string_view text, std::string file, const LoadOptions& options) {
    CAPSTAN_TRY(auto documents, load_all(text, file, options));
    if (documents.empty()) {
        return fail(Code::invalid, nothing_in(file));
    }
    if (documents.size() > 1) {
        return fail(Code::invalid, second_in(documents));
    }
    return std::move(documents.front());
}

Result<Examined> examine_file(const std::string& path, const LoadOptions& options) {
    CAPSTAN_TRY(const auto text, read_file(path, options.bytes_max));
    CAPSTAN_TRY(check_text(text, path, options));
    Parsed parsed = parse_all(text, path, options);
    Examined examined;
    examined.problems = std::move(parsed.problems);
    if (parsed.documents.empty()) {
        if (examined.problems.empty()) {
            examined.problems.push_back(nothing_in(path));
        }
        examined.document.file = path;
        examined.document.value = json::object();
        examined.document.partial = true;
        return examined;
    }
    if (parsed.documents.size() > 1) {
        examined.problems.push_back(second_in(parsed.documents));
    }
    examined.document = std::move(parsed.documents.front());
    return examined;
}

Result<Document> load_file(const std::string& path, const LoadOptions& options) {
    CAPSTAN_TRY(const auto text, read_file(path, options.bytes_max));
    return load(text, path, options);
}

Result<std::vector<Document>> load_all_file(const std::string& path, const LoadOptions& options) {
    CAPSTAN_TRY(const auto text, read_file(path, options.bytes_max));
    return load_all(text, path, options);
}

}  // namespace capstan::config
