// A disk that gets full while a database is restored.
#include "plugins/steward-bridge/restore/directory_objects.hpp"
#include "plugins/steward-bridge/restore/restoration.hpp"
#include "plugins/steward-bridge/restore/testing_backup.hpp"

#include <gtest/gtest.h>

#include <sys/resource.h>

#include <csignal>
#include <filesystem>

namespace capstan::steward {
namespace {

// No file of this process becomes larger.
class SmallFiles {
public:
    explicit SmallFiles(rlim_t bytes) {
        ::getrlimit(RLIMIT_FSIZE, &before_);
        const rlimit small{bytes, before_.rlim_max};
        ::setrlimit(RLIMIT_FSIZE, &small);
    }
    ~SmallFiles() {
        ::setrlimit(RLIMIT_FSIZE, &before_);
        std::signal(SIGXFSZ, signal_);
    }
    SmallFiles(const SmallFiles&) = delete;
    SmallFiles& operator=(const SmallFiles&) = delete;

private:
    void (*const signal_)(int){std::signal(SIGXFSZ, SIG_IGN)};
    rlimit before_{};
};

// The new database is larger than all before it, so that is where it happens.
TEST(FullDisk, IsNoFaultOfASnapshot) {
    TestDirectory directory;
    TestStore store(directory.path("store"));
    store.add_full(1, {{"key", {}}, {"meta", {}}});
    DeltaEvent large{false, "y", std::string(std::size_t{4} << 20, 'y'), 2, 2, 1, 0, {}};
    store.add_delta({large}, Compression::gzip);
    RestoreOptions options;
    options.work_directory = directory.path("work");
    DirectoryObjects objects(directory.path("store"));
    const SnapshotListing listing = objects.list().value();
    const NewCluster cluster = make_cluster("a", "a=http://a:1", "token").value();
    TestingDigests digests;
    const auto restore_to = [&](const std::string& data) {
        return restore(listing, objects, digests, cluster, directory.path(data), options);
    };
    {
        const SmallFiles limit(rlim_t{1} << 20);
        const auto full = restore_to("full");
        ASSERT_FALSE(full);
        EXPECT_EQ(full.error().code, Code::overloaded);
        EXPECT_TRUE(full.error().message.starts_with("cannot write ")) << full.error().message;
        EXPECT_FALSE(std::filesystem::exists(directory.path("full")));
    }
    EXPECT_TRUE(restore_to("data"));
}

}  // namespace
}  // namespace capstan::steward
