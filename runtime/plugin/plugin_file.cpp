#include "runtime/plugin/plugin_file.hpp"

#include <openssl/evp.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <functional>

namespace capstan::plugin {

namespace {

constexpr std::size_t kChunkBytes = 64 * 1024;

auto broken(std::string_view what) {
    return fail(Code::unavailable, std::string(what) + ": " + std::strerror(errno));
}

class Sha256 {
public:
    Sha256() : context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
        CAPSTAN_CHECK(
            context_ != nullptr && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1,
            "no sha256");
    }
    void add(std::span<const std::byte> bytes) {
        CAPSTAN_CHECK(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1,
                      "sha256 update");
    }
    std::string hex() {
        std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
        unsigned int length = 0;
        CAPSTAN_CHECK(EVP_DigestFinal_ex(context_.get(), digest.data(), &length) == 1,
                      "sha256 final");
        std::string text;
        for (unsigned int i = 0; i < length; ++i) {
            constexpr char kDigits[] = "0123456789abcdef";
            text += kDigits[digest[i] >> 4U];
            text += kDigits[digest[i] & 15U];
        }
        return text;
    }

private:
    std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

Result<void> for_each_chunk(const PluginFile& file,
                            const std::function<Result<void>(std::span<const std::byte>)>& use) {
    std::vector<std::byte> chunk(kChunkBytes);
    for (std::uint64_t at = 0; at < file.size();) {
        const auto length =
            static_cast<std::size_t>(std::min<std::uint64_t>(kChunkBytes, file.size() - at));
        const std::span<std::byte> part(chunk.data(), length);
        CAPSTAN_TRY(file.read_at(at, part));
        CAPSTAN_TRY(use(part));
        at += length;
    }
    return ok();
}

Result<void> write_all(int descriptor, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
        if (written < 0 && errno != EINTR) {
            return broken("cannot write the private copy");
        }
        bytes = bytes.subspan(static_cast<std::size_t>(std::max<ssize_t>(written, 0)));
    }
    return ok();
}

}  // namespace

Result<std::unique_ptr<PluginFile>> PluginFile::open(const std::string& path) {
    // O_NONBLOCK: opening a FIFO must not wait for a writer.
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) {
        if (errno == ENOENT) {
            return fail(Code::not_found, "does not exist");
        }
        if (errno == ELOOP) {
            return fail(Code::invalid, "is a symbolic link; give the path of the file itself");
        }
        return broken("cannot be opened");
    }
    struct stat status {};
    if (::fstat(descriptor, &status) != 0) {
        ::close(descriptor);
        return broken("cannot be examined");
    }
    if (!S_ISREG(status.st_mode)) {
        ::close(descriptor);
        return fail(Code::invalid, "is not a regular file");
    }
    const auto size = static_cast<std::uint64_t>(status.st_size);
    // The constructor is private, so make_unique cannot call it.
    // tidy: allow new
    return std::unique_ptr<PluginFile>(new PluginFile(descriptor, size, status.st_mode));
}

PluginFile::~PluginFile() {
    ::close(descriptor_);
}

Result<void> PluginFile::read_at(std::uint64_t offset, std::span<std::byte> out) const {
    while (!out.empty()) {
        const ssize_t count =
            ::pread(descriptor_, out.data(), out.size(), static_cast<off_t>(offset));
        if (count < 0) {
            if (errno == EINTR) {
                continue;
            }
            return broken("cannot be read");
        }
        if (count == 0) {
            return fail(Code::invalid, "became shorter while it was read");
        }
        offset += static_cast<std::uint64_t>(count);
        out = out.subspan(static_cast<std::size_t>(count));
    }
    return ok();
}

Result<std::string> PluginFile::sha256_hex() const {
    Sha256 digest;
    CAPSTAN_TRY(for_each_chunk(*this, [&digest](std::span<const std::byte> bytes) -> Result<void> {
        digest.add(bytes);
        return ok();
    }));
    return digest.hex();
}

Result<std::string> PluginFile::copy_to(const std::string& path) const {
    const std::string temporary = path + ".tmp";
    const int out =
        ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0500);
    if (out < 0) {
        return broken("cannot write the private copy " + temporary);
    }
    Sha256 digest;
    Result<void> copied =
        for_each_chunk(*this, [&](std::span<const std::byte> bytes) -> Result<void> {
            digest.add(bytes);
            return write_all(out, bytes);
        });
    if (copied && ::fsync(out) != 0) {
        copied = broken("cannot write the private copy " + temporary);
    }
    ::close(out);
    if (copied && ::rename(temporary.c_str(), path.c_str()) != 0) {
        copied = broken("cannot rename the private copy to " + path);
    }
    if (!copied) {
        ::unlink(temporary.c_str());
        return fail(copied.error());
    }
    return digest.hex();
}

std::vector<std::string> permission_problems(const PluginFile& file, const std::string& path) {
    std::vector<std::string> problems;
    if ((file.mode() & S_IWOTH) != 0) {
        problems.emplace_back("is writable by everyone; chmod o-w it");
    }
    const std::size_t slash = path.rfind('/');
    const std::string directory =
        slash == std::string::npos ? "." : (slash == 0 ? "/" : path.substr(0, slash));
    struct stat status {};
    if (::stat(directory.c_str(), &status) != 0) {
        problems.push_back("lies in " + directory + ", which cannot be examined");
    } else if ((status.st_mode & S_IWOTH) != 0) {
        problems.push_back("lies in " + directory +
                           ", which is writable by everyone; chmod o-w it");
    }
    return problems;
}

}  // namespace capstan::plugin
