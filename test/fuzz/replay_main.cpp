// Runs a fuzz target over every file of the directories given: the corpus as a test, in any build.
//
// Each file is run whole and also cut short at a few places, as a stream that ends early would be.
#include "test/fuzz/fuzz.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace {

void run(const std::string& bytes, std::size_t size) {
    // A copy of exactly this size: reading behind its end is seen by the address sanitizer.
    const std::vector<std::uint8_t> exact(bytes.begin(),
                                          bytes.begin() + static_cast<std::ptrdiff_t>(size));
    LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

}  // namespace

int main(int argc, char** argv) {
    std::vector<std::filesystem::path> files;
    for (int i = 1; i < argc; ++i) {
        for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
            files.push_back(entry.path());
        }
    }
    std::sort(files.begin(), files.end());
    for (const auto& path : files) {
        std::fprintf(stderr, "%s\n", path.c_str());  // the last line names what crashed
        std::ifstream in(path, std::ios::binary);
        const std::string bytes{std::istreambuf_iterator<char>(in), {}};
        for (const std::size_t part : {4, 3, 2, 1}) {
            run(bytes, bytes.size() * part / 4);
        }
    }
    std::printf("%zu inputs\n", files.size());
    return files.empty() ? 1 : 0;
}
