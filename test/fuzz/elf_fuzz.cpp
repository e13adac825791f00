// Bytes that claim to be a plugin: the reader stays inside them and inside its limits.
#include "runtime/plugin/elf_reader.hpp"
#include "runtime/plugin/manifest.hpp"
#include "test/fuzz/fuzz.hpp"

#include <algorithm>
#include <string>
#include <string_view>

namespace capstan::plugin {
namespace {

using fuzz::require;

class MemorySource final : public ByteSource {
public:
    explicit MemorySource(std::string_view bytes) : bytes_(bytes) {}
    std::uint64_t size() const noexcept override { return bytes_.size(); }
    Result<void> read_at(std::uint64_t offset, std::span<std::byte> out) const override {
        require(offset <= bytes_.size() && out.size() <= bytes_.size() - offset,
                "reads stay inside the file");
        std::copy_n(bytes_.data() + offset, out.size(), reinterpret_cast<char*>(out.data()));
        return ok();
    }

private:
    std::string_view bytes_;
};

}  // namespace
}  // namespace capstan::plugin

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace capstan::plugin;
    using capstan::fuzz::require;
    const auto facts = read_elf(MemorySource({reinterpret_cast<const char*>(data), size}));
    if (!facts) {
        require(!facts.error().message.empty(), "a refusal says why");
        return 0;
    }
    const ElfFacts& found = facts.value();
    require(found.manifest.size() <= kNoteBytesMax, "the note is limited");
    require(found.needed.size() <= kNeededMax, "so are the libraries needed");
    require(found.exports.size() <= 64, "so are the exports kept");
    require(std::is_sorted(found.exports.begin(), found.exports.end()), "which are sorted");
    for (const std::string& reason : refuse_reasons(found)) {
        require(!reason.empty(), "a reason has a text");
    }
    Problems problems;
    (void)parse_manifest(found.manifest, {}, problems);
    return 0;
}
