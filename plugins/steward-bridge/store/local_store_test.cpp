#include "plugins/steward-bridge/store/local_store.hpp"

#include "plugins/steward-bridge/store/local_files.hpp"
#include "plugins/steward-bridge/store/store_contract_test.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

namespace capstan::steward {
namespace {

namespace fs = std::filesystem;
using namespace testing;

class LocalStoreTest : public ::testing::Test {
protected:
    LocalStoreTest() {
        std::string name = (fs::temp_directory_path() / "capstan-store-XXXXXX").string();
        top = ::mkdtemp(name.data());
        directory = top + "/container";
        store = open();
    }
    ~LocalStoreTest() override { fs::remove_all(top); }

    std::unique_ptr<LocalStore> open() {
        auto opened = LocalStore::open_directory({directory, true});
        EXPECT_TRUE(opened) << opened.error().message;
        return opened ? std::move(opened).value() : nullptr;
    }
    void put_file(const std::string& path, std::string_view text) {
        fs::create_directories(fs::path(path).parent_path());
        std::ofstream(path) << text;
    }
    std::vector<std::string> unfinished() const {
        std::vector<std::string> names;
        for (const auto& entry : fs::directory_iterator(directory + "/.capstan-tmp")) {
            names.push_back(entry.path().filename());
        }
        return names;
    }

    std::string top, directory;
    std::unique_ptr<LocalStore> store;
};

TEST_F(LocalStoreTest, DoesWhatEveryStoreDoes) {
    expect_store_contract(*store);
}

TEST_F(LocalStoreTest, FencesLetOneIn) {
    expect_fences(*store);
}

TEST_F(LocalStoreTest, NothingIsSeenBeforeItIsFinished) {
    expect_nothing_half_written(*store, 100'000);
    EXPECT_EQ(unfinished(), std::vector<std::string>());
}

TEST_F(LocalStoreTest, CheckFindsNothingAndLeavesNothing) {
    const StoreCheck check = check_store(*store, "p", "token1");
    for (const CheckStep& step : check.steps) {
        EXPECT_EQ(step.problem, "") << step.name;
    }
    EXPECT_EQ(check.steps.size(), 6u);
    EXPECT_EQ(keys_of(*store, ""), std::vector<std::string>());
}

TEST_F(LocalStoreTest, OnlyTheOwnerMayRead) {
    const mode_t before = ::umask(0);
    STORE_OK(write_object(*store, "p/v2/a", "x"));
    ::umask(before);
    struct stat info {};
    for (const auto& [path, mode] : {std::pair{"", 0700},
                                     {"/p", 0700},
                                     {"/p/v2", 0700},
                                     {"/p/v2/a", 0600},
                                     {"/.capstan-tmp", 0700}}) {
        ASSERT_EQ(::stat((directory + path).c_str(), &info), 0) << path;
        EXPECT_EQ(info.st_mode & 0777u, static_cast<unsigned>(mode)) << path;
    }
}

TEST_F(LocalStoreTest, LinksLeadNowhere) {
    put_file(top + "/secret", "s");
    fs::create_directories(directory + "/p");
    fs::create_symlink(top + "/secret", directory + "/p/file");
    fs::create_directory_symlink(top, directory + "/p/folder");
    EXPECT_EQ(keys_of(*store, ""), std::vector<std::string>());
    STORE_FAILS(store->open({"p/file"}, 0), Code::invalid, "link");
    STORE_FAILS(store->open({"p/folder/secret"}, 0), Code::invalid, "link");
    STORE_FAILS(write_object(*store, "p/folder/new", "x"), Code::invalid, "link");
    STORE_FAILS(store->remove({"p/folder/secret"}), Code::invalid, "link");
    // A link in the place of an object is replaced, not followed.
    STORE_OK(write_object(*store, "p/file", "mine"));
    EXPECT_EQ(read_object(*store, {"p/file"}, 10).value(), "mine");
    std::string secret;
    std::ifstream(top + "/secret") >> secret;
    EXPECT_EQ(secret, "s");
}

TEST_F(LocalStoreTest, SpecialFilesAreNoObjects) {
    fs::create_directories(directory + "/p/folder");
    ASSERT_EQ(::mkfifo((directory + "/p/pipe").c_str(), 0600), 0);
    EXPECT_EQ(keys_of(*store, "p"), std::vector<std::string>());
    STORE_FAILS(store->open({"p/pipe"}, 0), Code::invalid, "plain files");
    STORE_FAILS(store->open({"p/folder"}, 0), Code::invalid, "plain files");
}

TEST_F(LocalStoreTest, LeftoversOfTheDeadGoThoseOfTheLivingStay) {
    auto sink = store->create("p/v2/a", {});
    STORE_OK(sink);
    STORE_OK(sink.value()->write(bytes_of("alive")));
    put_file(directory + "/.capstan-tmp/part.1.0", "left by a process that died");
    const auto second = open();
    EXPECT_EQ(unfinished().size(), 1u);
    STORE_OK(sink.value()->finish());
    EXPECT_EQ(read_object(*second, {"p/v2/a"}, 10).value(), "alive");
    EXPECT_EQ(unfinished().size(), 0u);
}

TEST_F(LocalStoreTest, FailedWriteIsNeverPublished) {
    // A limit of this process stands for a full disk: write(2) fails in the middle of the object.
    const auto old_action = std::signal(SIGXFSZ, SIG_IGN);
    rlimit before{};
    ::getrlimit(RLIMIT_FSIZE, &before);
    const rlimit small{8192, before.rlim_max};
    STORE_OK(write_object(*store, "p/v2/a", "old"));
    {
        auto sink = store->create("p/v2/a", {});
        STORE_OK(sink);
        ::setrlimit(RLIMIT_FSIZE, &small);
        const auto written = sink.value()->write(bytes_of(pattern(20'000)));
        ::setrlimit(RLIMIT_FSIZE, &before);
        STORE_FAILS(written, Code::too_large, "size limit");
        STORE_OK(sink.value()->write(bytes_of("more")));
        STORE_FAILS(sink.value()->finish(), Code::unavailable, "p/v2/a");
    }
    std::signal(SIGXFSZ, old_action);
    EXPECT_EQ(read_object(*store, {"p/v2/a"}, 10).value(), "old");
    EXPECT_EQ(unfinished(), std::vector<std::string>());
}

TEST_F(LocalStoreTest, FolderThatIsRemovedMeanwhileIsMadeAgain) {
    STORE_OK(write_object(*store, "p/v2/a", "old"));
    auto sink = store->create("p/v2/b", {});
    STORE_OK(sink);
    STORE_OK(store->remove({"p/v2/a"}));
    EXPECT_FALSE(fs::exists(directory + "/p/v2")) << "an empty folder goes";
    STORE_OK(sink.value()->finish());
    EXPECT_EQ(keys_of(*store, "p"), std::vector<std::string>{"p/v2/b"});
}

TEST_F(LocalStoreTest, WritersSurviveOthersThatRemoveTheirFolder) {
    const auto write_and_remove = [this](const std::string& key) {
        const auto own = open();
        for (int i = 0; i < 100; ++i) {
            const auto written = write_object(*own, key, "x");
            EXPECT_TRUE(written) << written.error().message;
            EXPECT_TRUE(own->remove({key}));
        }
    };
    std::thread other(write_and_remove, "p/v1/Backup-1/a");
    write_and_remove("p/v1/Backup-1/b");
    other.join();
    EXPECT_EQ(keys_of(*store, ""), std::vector<std::string>());
}

TEST_F(LocalStoreTest, TwoReplacersDoNotBothWin) {
    const auto etag = store->put_if_absent("f", "a");
    STORE_OK(etag);
    const auto lock = local::lock_replacing(::open(directory.c_str(), O_RDONLY), directory);
    STORE_OK(lock);
    STORE_FAILS(store->put_if_match("f", "b", etag.value()), Code::conflict, "another process");
}

TEST_F(LocalStoreTest, ReaderKeepsWhatItOpened) {
    STORE_OK(write_object(*store, "a", "old content"));
    const auto source = store->open({"a"}, 0);
    STORE_OK(source);
    STORE_OK(write_object(*store, "a", "new"));
    EXPECT_EQ(read_all(*source.value(), 4), "old content");
}

TEST_F(LocalStoreTest, ListingStopsWhenTold) {
    for (const char* key : {"a/1", "a/2", "b/1", "c"}) {
        STORE_OK(write_object(*store, key, "x"));
    }
    int pages = 0;
    const auto once = [&](std::span<const ObjectInfo> page) -> Result<bool> {
        ++pages;
        EXPECT_EQ(page.size(), 1u);
        return pages < 2;
    };
    ListOptions options;
    options.page_keys = 1;
    STORE_OK(store->list("", options, once));
    EXPECT_EQ(pages, 2);
}

TEST(LocalStoreOpening, SaysWhatIsWrongWithTheDirectory) {
    STORE_FAILS(LocalStore::open_directory({"", true}), Code::invalid, "none is named");
    STORE_FAILS(
        LocalStore::open_directory({"/nonexistent/x", false}), Code::not_found, "/nonexistent/x");
    STORE_FAILS(LocalStore::open_directory({"/dev/null", false}), Code::invalid, "no directory");
}

TEST(LocalFiles, ErrorsNameTheRemedy) {
    struct Row {
        int number;
        Code code;
        const char* remedy;
    };
    for (const Row& row : {Row{ENOSPC, Code::overloaded, "free space"},
                           {EDQUOT, Code::overloaded, "quota"},
                           {EROFS, Code::forbidden, "mount it writable"},
                           {EACCES, Code::forbidden, "needs the right"},
                           {ENOENT, Code::not_found, "no such"},
                           {EIO, Code::unavailable, "check the disk"}}) {
        const Error error = local::file_error(row.number, "write /b/x");
        EXPECT_EQ(error.code, row.code) << row.number;
        EXPECT_NE(error.message.find("write /b/x"), std::string::npos) << error.message;
        EXPECT_NE(error.message.find(row.remedy), std::string::npos) << error.message;
    }
}

TEST(LocalFiles, AFullDiskIsToldWithItsBytes) {
    const FileDescriptor root(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const std::string said = local::file_error(ENOSPC, "write /b/x", root.get()).message;
    struct statvfs info {};
    ASSERT_EQ(::fstatvfs(root.get(), &info), 0);
    EXPECT_TRUE(said.starts_with("write /b/x: the disk of the backup store is full, ")) << said;
    EXPECT_NE(said.find(" of " + std::to_string(info.f_blocks * info.f_frsize) + " bytes are free"),
              std::string::npos)
        << said;
}

}  // namespace
}  // namespace capstan::steward
