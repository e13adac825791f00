#include "runtime/kube/credentials.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

namespace capstan::kube {
namespace {

constexpr std::size_t kFileBytesMax = 1024 * 1024;

class FixedToken final : public TokenSource {
public:
    explicit FixedToken(std::string token) : token_(std::move(token)) {}
    Result<std::string> token() override { return token_; }
    bool refused(const std::string&) override { return false; }

private:
    const std::string token_;
};

class FileToken final : public TokenSource {
public:
    FileToken(
        const Clock& clock, std::string path, std::string first, ReadFile read, TokenTold told)
        : clock_(clock),
          path_(std::move(path)),
          read_(std::move(read)),
          told_(std::move(told)),
          token_(std::move(first)) {}

    Result<std::string> token() override {
        if (!fresh_until_ || clock_.now() >= *fresh_until_) {
            refresh();
        }
        if (token_.empty()) {
            return fail(problem_);
        }
        return token_;
    }
    bool refused(const std::string& used) override {
        // Another call may have renewed it already; else look at the file, whatever its age.
        if (token_ == used) {
            refresh();
        }
        return token_ != used && !token_.empty();
    }
    std::string trouble() const override { return trouble_; }

private:
    void refresh() {
        fresh_until_ = clock_.now() + kTokenTtl;
        Result<std::string> token = read_token(path_, read_);
        if (token) {
            token_ = std::move(token).value();
        } else {
            problem_ = token.error();  // the older token stays
        }
        const std::string before =
            std::exchange(trouble_, token ? std::string() : problem_.message);
        if (told_ && trouble_ != before) {
            told_(token ? nullptr : &problem_);
        }
    }

    const Clock& clock_;
    const std::string path_;
    const ReadFile read_;
    const TokenTold told_;
    std::string token_;
    std::string trouble_;
    std::optional<MonotonicTime> fresh_until_;
    Error problem_{Code::invalid, "token file not read yet", {}};
};

}  // namespace

bool TokenSource::ready(std::function<void()>) {
    return true;
}

std::unique_ptr<TokenSource> make_fixed_token(std::string token) {
    return std::make_unique<FixedToken>(std::move(token));
}

std::unique_ptr<TokenSource> make_file_token(
    const Clock& clock, std::string path, std::string first, ReadFile read, TokenTold told) {
    return std::make_unique<FileToken>(
        clock, std::move(path), std::move(first), std::move(read), std::move(told));
}

Result<std::string> read_token(const std::string& path, const ReadFile& read) {
    CAPSTAN_TRY(const std::string text, read(path));
    std::string_view token = text;
    constexpr std::string_view kSpace = " \t\r\n";
    token.remove_prefix(std::min(token.find_first_not_of(kSpace), token.size()));
    token = token.substr(0, token.find_last_not_of(kSpace) + 1);
    // A control character would let the file write headers.
    const bool plain =
        token.find_first_of(std::string_view("\r\n\0 ", 4)) == std::string_view::npos;
    if (token.empty() || token.size() > kTokenBytesMax || !plain) {
        return fail(Code::invalid, "token file " + path + " holds no token");
    }
    return std::string(token);
}

Result<std::string> read_small_file(const std::string& path) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rbe"),
                                                               &std::fclose);
    if (!file) {
        return fail(Code::invalid, "cannot open " + path + ": " + std::strerror(errno));
    }
    std::string text(kFileBytesMax + 1, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), file.get()));
    if (std::ferror(file.get()) != 0) {
        return fail(Code::invalid, "cannot read " + path);
    }
    if (text.size() > kFileBytesMax) {
        return fail(Code::too_large, path + " is over 1 MiB");
    }
    return text;
}

}  // namespace capstan::kube
