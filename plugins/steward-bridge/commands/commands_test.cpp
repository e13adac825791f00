// Commands under the fake host, on directories. With the real program: test/e2e/backup_cli_test.py.
#include "plugins/steward-bridge/commands/backup_command.hpp"
#include "plugins/steward-bridge/commands/report.hpp"

#include "capstan/testing/fake_cli.hpp"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace capstan::steward {
namespace {

namespace fs = std::filesystem;
using testing::CommandInput;
using testing::CommandOutput;
using testing::FakeHost;

Result<void> make_plugin(Setup& setup) {
    add_command(setup, "backup", &run_backup_command);
    return ok();
}
const capstan_plugin* entry(const capstan_host* host) noexcept {
    return detail::plugin_entry(host, &make_plugin, "backup.example.com", "1.0.0", "");
}

std::string content_of(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

class BackupCommand : public ::testing::Test {
protected:
    BackupCommand() {
        std::string pattern = (fs::temp_directory_path() / "capstan-commands-XXXXXX").string();
        directory_ = ::mkdtemp(pattern.data());
        fs::create_directories(directory_ / "tmp");
        const char* given = std::getenv("CAPSTAN_TEST_DATA");
        data_ = given == nullptr ? "test/data" : given;
    }
    ~BackupCommand() override {
        std::error_code ignored;
        fs::remove_all(directory_, ignored);
    }

    CommandOutput run(std::vector<std::string> args, std::uint32_t terminals = 0) {
        CommandInput input;
        input.args = std::move(args);
        input.environment["TMPDIR"] = (directory_ / "tmp").string();
        input.terminals = terminals;
        CommandOutput said = testing::run_command(host_, &entry, "backup", input);
        EXPECT_EQ(said.rc, CAPSTAN_OK);
        EXPECT_TRUE(fs::is_empty(directory_ / "tmp")) << "something was left";
        return said;
    }
    // A command on the prefix `set` of the copied data.
    CommandOutput on(const std::string& command,
                     const std::string& set,
                     std::vector<std::string> more = {}) {
        std::vector<std::string> args{
            command, "--provider", "Local", "--container", backups().string(), "--prefix", set};
        args.insert(args.end(), more.begin(), more.end());
        return run(std::move(args));
    }
    void take(const std::string& set) {
        fs::create_directories(backups());
        const fs::path name = fs::path(set).filename();
        fs::copy(data_ / set, backups() / name, fs::copy_options::recursive);
    }
    fs::path backups() const { return directory_ / "backups"; }
    std::vector<std::string> entries(const fs::path& path) const {
        std::vector<std::string> names;
        for (const auto& each : fs::directory_iterator(path)) {
            names.push_back(each.path().filename().string());
        }
        std::sort(names.begin(), names.end());
        return names;
    }

    FakeHost host_;
    fs::path directory_, data_;
};

json::Value parsed(const CommandOutput& said) {
    auto value = json::parse(said.out);
    EXPECT_TRUE(value) << said.out << said.err;
    return value ? std::move(value).value() : json::Value();
}

TEST_F(BackupCommand, ListTellsSnapshotsAndWhatIsNone) {
    take("backups-malformed/stray-files");
    const CommandOutput text = on("list", "stray-files");
    EXPECT_EQ(text.exit_code, 0);
    EXPECT_NE(text.out.find("can be restored up to revision 74"), std::string::npos) << text.out;
    EXPECT_NE(text.err.find("passed over: stray-files/"), std::string::npos) << text.err;
    const json::Value listed = parsed(on("list", "stray-files", {"-o", "json"}));
    EXPECT_EQ(json::View(listed)["restorable"]["revision"].int_or(0), 74);
    EXPECT_FALSE(json::View(listed)["skipped"].array().empty());
}

TEST_F(BackupCommand, AGapIsToldByNamesAlone) {
    take("backups-malformed/delta-missing-middle");
    const CommandOutput said = on("list", "delta-missing-middle");
    EXPECT_EQ(said.exit_code, 0) << "it lists what is there; verify judges";
    EXPECT_NE(said.out.find("They cannot all be restored"), std::string::npos);
    EXPECT_NE(said.out.find("revisions 42 to 60"), std::string::npos);
    EXPECT_EQ(on("verify", "delta-missing-middle").exit_code, 6);
}

TEST_F(BackupCommand, AMissingPrefixNamesThoseThatAreNear) {
    take("backups/gzip-members");
    take("backups/zlib");
    const CommandOutput near = on("verify", "gzip-member");
    EXPECT_EQ(near.exit_code, 6);
    EXPECT_NE(near.err.find("did you mean --prefix gzip-members?"), std::string::npos) << near.err;
    const CommandOutput far = on("list", "somewhere-else");
    EXPECT_EQ(far.exit_code, 6);
    EXPECT_NE(far.err.find("there are snapshots with prefix gzip-members, prefix zlib"),
              std::string::npos)
        << far.err;
    // The container is no prefix: what lies deeper is another backup.
    EXPECT_NE(on("list", "").err.find("there is no snapshot with no prefix"), std::string::npos);
}

TEST_F(BackupCommand, AMissingContainerIsUsage) {
    const CommandOutput said = on("list", "main");
    EXPECT_EQ(said.exit_code, 2);
    EXPECT_NE(said.err.find("backups"), std::string::npos);
    EXPECT_FALSE(fs::exists(backups())) << "looking makes no directory";
    EXPECT_EQ(run({"list", "--provider", "GCS", "--container", "b"}).exit_code, 2);
    EXPECT_EQ(run({"list", "--provider", "Local"}).exit_code, 2);
}

TEST_F(BackupCommand, VerifyAllJudgesEachObject) {
    take("backups-malformed/newest-full-corrupt-chain-complete");
    const CommandOutput chain = on("verify", "newest-full-corrupt-chain-complete");
    EXPECT_EQ(chain.exit_code, 0) << chain.err;
    EXPECT_NE(chain.err.find("warning: "), std::string::npos);
    const CommandOutput all = on("verify", "newest-full-corrupt-chain-complete", {"--all"});
    EXPECT_EQ(all.exit_code, 6);
    EXPECT_NE(all.out.find("whole"), std::string::npos);
    EXPECT_NE(all.out.find("is damaged"), std::string::npos);
    EXPECT_NE(all.out.find("can be restored, but of all objects 1 is damaged"), std::string::npos)
        << all.out;
    EXPECT_EQ(all.err, chain.err);
}

TEST_F(BackupCommand, VerifyAllJudgesWhetherObjectsMakeABackup) {
    for (const char* set : {"delta-missing-middle", "delta-missing-first", "deltas-without-base"}) {
        take("backups-malformed/" + std::string(set));
        const CommandOutput chain = on("verify", set), all = on("verify", set, {"--all"});
        EXPECT_EQ(all.exit_code, 6) << set;
        EXPECT_EQ(all.err, chain.err) << set;
        EXPECT_NE(all.out.find("  whole\n"), std::string::npos) << all.out;
        EXPECT_EQ(all.out.find("state:"), std::string::npos) << all.out;
        const CommandOutput as_json = on("verify", set, {"--all", "-o", "json"});
        EXPECT_EQ(as_json.exit_code, 6) << set;
        const json::Value said = parsed(as_json);
        EXPECT_NE(chain.err.find(json::View(said)["problem"].string_or("-")), std::string::npos);
    }
    take("backups/gzip-members");
    const CommandOutput whole = on("verify", "gzip-members", {"--all"});
    EXPECT_EQ(whole.exit_code, 0) << whole.err;
    EXPECT_NE(whole.out.find("state:    whole\n"), std::string::npos) << whole.out;
    const json::Value said = parsed(on("verify", "gzip-members", {"--all", "-o", "json"}));
    EXPECT_EQ(json::View(said)["restorable"]["revision"].int_or(0), 41);
}

TEST_F(BackupCommand, RestoreNeverReplacesSilently) {
    take("backups/gzip-members");
    const std::string data = (directory_ / "data").string();
    const CommandOutput made = on("restore", "gzip-members", {"--data-dir", data});
    EXPECT_EQ(made.exit_code, 0) << made.err;
    EXPECT_TRUE(fs::exists(directory_ / "data/member/snap/db"));
    std::ofstream(directory_ / "data/mine") << "precious";
    std::ofstream(directory_ / "data/member/capstan-member") << "shop/main-0\n";
    const CommandOutput refused = on("restore", "gzip-members", {"--data-dir", data + "/"});
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_NE(refused.err.find("is not empty"), std::string::npos);
    const CommandOutput forced = on("restore", "gzip-members", {"--data-dir", data, "--force"});
    EXPECT_EQ(forced.exit_code, 0) << forced.err;
    EXPECT_FALSE(fs::exists(directory_ / "data/mine"));
    EXPECT_EQ(content_of(directory_ / "data/member/capstan-member"), "shop/main-0\n")
        << "the place stays that member's";
    const auto names = entries(directory_);
    const auto aside = std::find_if(names.begin(), names.end(), [](const std::string& name) {
        return name.starts_with("data.before-");
    });
    ASSERT_NE(aside, names.end());
    EXPECT_EQ(content_of(directory_ / *aside / "mine"), "precious");
    EXPECT_NE(forced.out.find(*aside), std::string::npos);
    EXPECT_EQ(names.size(), 5u) << "backups, tmp, data, its guard and what was there";
}

TEST_F(BackupCommand, ARestoreLeavesTheDirectoryOfARunningEtcdAlone) {
    take("backups/gzip-members");
    const std::string data = (directory_ / "data").string();
    ASSERT_EQ(on("restore", "gzip-members", {"--data-dir", data}).exit_code, 0);
    const int fd = ::open((data + "/member/snap/db").c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_EQ(::flock(fd, LOCK_EX | LOCK_NB), 0);
    const CommandOutput said = on("restore", "gzip-members", {"--data-dir", data, "--force"});
    EXPECT_EQ(said.exit_code, 2);
    EXPECT_NE(said.err.find("stop it first"), std::string::npos) << said.err;
    EXPECT_EQ(entries(directory_), (std::vector<std::string>{"backups", "data", "tmp"}));
    ::close(fd);
    EXPECT_EQ(on("restore", "gzip-members", {"--data-dir", data, "--force"}).exit_code, 0);
}

TEST_F(BackupCommand, AFailedRestoreTouchesNothing) {
    take("backups-malformed/full-bit-flip");
    fs::create_directories(directory_ / "data");
    std::ofstream(directory_ / "data/mine") << "precious";
    const CommandOutput said =
        on("restore", "full-bit-flip", {"--data-dir", (directory_ / "data").string(), "--force"});
    EXPECT_EQ(said.exit_code, 6);
    EXPECT_EQ(entries(directory_), (std::vector<std::string>{"backups", "data", "tmp"}));
    EXPECT_EQ(content_of(directory_ / "data/mine"), "precious");
}

TEST_F(BackupCommand, CancelledLeavesNothing) {
    take("backups/gzip-members");
    host_.cancel();
    const std::vector<std::vector<std::string>> commands{
        {"verify"},
        {"restore", "--data-dir", (directory_ / "data").string()},
        {"compact"},
        {"dump", "--file", (directory_ / "keys").string()},
        {"copy", "--to-container", (directory_ / "backups").string(), "--to-prefix", "other"}};
    const std::string before = on("list", "gzip-members").out;
    for (const auto& words : commands) {
        const CommandOutput said = on(words[0], "gzip-members", {words.begin() + 1, words.end()});
        EXPECT_EQ(said.exit_code, 1) << words[0];
        EXPECT_NE(said.err.find("interrupted"), std::string::npos) << said.err;
    }
    EXPECT_EQ(entries(directory_), (std::vector<std::string>{"backups", "tmp"}));
    EXPECT_EQ(on("list", "gzip-members").out, before);
    EXPECT_EQ(on("list", "other").exit_code, 6);
}

TEST_F(BackupCommand, CompactNamesTheNewFullAndReadsItBack) {
    take("backups/mixed-compression");
    const CommandOutput dry = on("compact", "mixed-compression", {"--dry-run", "-o", "json"});
    EXPECT_EQ(dry.exit_code, 0) << dry.err;
    const std::size_t before = entries(backups() / "mixed-compression/v2").size();
    const json::Value made =
        parsed(on("compact", "mixed-compression", {"-o", "json", "--compression", "zlib"}));
    const std::string object{json::View(made)["object"].string_or("")};
    EXPECT_TRUE(object.starts_with("mixed-compression/v2/Full-00000000-00000098-")) << object;
    EXPECT_TRUE(object.ends_with(".zlib"));
    EXPECT_EQ(entries(backups() / "mixed-compression/v2").size(), before + 1);
    const json::Value verified = parsed(on("verify", "mixed-compression", {"-o", "json"}));
    EXPECT_EQ(json::View(verified)["full"].string_or(""), object);
    EXPECT_EQ(json::View(verified)["revision"].int_or(0), 98);
    EXPECT_EQ(json::View(verified)["deltas"].array().size(), 0u);
}

TEST_F(BackupCommand, CopyGoesOnWhereItWas) {
    take("backups/final-then-deltas");
    const std::vector<std::string> to{
        "--to-container", (directory_ / "other/place").string(), "--to-prefix", "p", "-o", "json"};
    std::vector<std::string> dry = to;
    dry.push_back("--dry-run");
    const CommandOutput would = on("copy", "final-then-deltas", dry);
    EXPECT_EQ(would.exit_code, 0) << would.err;
    EXPECT_NE(would.err.find("other/place is not there; a copy makes it"), std::string::npos);
    const json::Value planned = parsed(would);
    for (const json::Value& each : json::View(planned)["objects"].array()) {
        EXPECT_EQ(json::View(each)["state"].string_or(""), "would be copied");
    }
    EXPECT_FALSE(fs::exists(directory_ / "other")) << "a dry run makes no directory";
    const json::Value first = parsed(on("copy", "final-then-deltas", to));
    const auto& copied = json::View(first)["objects"].array();
    ASSERT_FALSE(copied.empty());
    for (const json::Value& each : copied) {
        EXPECT_EQ(json::View(each)["state"].string_or(""), "copied");
        EXPECT_EQ(json::View(each)["to"].string_or("").find(".final"), std::string_view::npos);
        EXPECT_EQ(content_of(backups() / std::string(json::View(each)["from"].string_or(""))),
                  content_of(directory_ / "other/place" /
                             std::string(json::View(each)["to"].string_or(""))));
    }
    const json::Value second = parsed(on("copy", "final-then-deltas", to));
    for (const json::Value& each : json::View(second)["objects"].array()) {
        EXPECT_EQ(json::View(each)["state"].string_or(""), "there already");
    }
    const std::string changed(json::View(copied.front())["to"].string_or(""));
    std::ofstream(directory_ / "other/place" / changed, std::ios::app) << "x";
    const CommandOutput differs = on("copy", "final-then-deltas", to);
    EXPECT_EQ(differs.exit_code, 6);
    EXPECT_NE(differs.err.find(changed), std::string::npos);
    EXPECT_EQ(on("copy",
                 "final-then-deltas",
                 {"--to-container", backups().string(), "--to-prefix", "final-then-deltas"})
                  .exit_code,
              2);
    EXPECT_EQ(on("copy", "final-then-deltas").exit_code, 2);
}

TEST_F(BackupCommand, ADryCopyTellsWhatACopyCouldNotMake) {
    take("backups/gzip-members");
    std::ofstream(directory_ / "file") << "x";
    for (const char* place : {"file", "file/place"}) {
        const CommandOutput said =
            on("copy",
               "gzip-members",
               {"--to-container", (directory_ / place).string(), "--to-prefix", "p", "--dry-run"});
        EXPECT_NE(said.exit_code, 0) << place;
        EXPECT_NE(said.err.find("file"), std::string::npos) << said.err;
    }
}

TEST_F(BackupCommand, CopyTellsWhatIsDamagedAndLeavesIt) {
    const std::string set = "newest-full-corrupt-chain-complete";
    const std::string object = set + "/v2/Full-00000000-00000053-1796006411.gz";
    take("backups-malformed/" + set);
    const fs::path target = directory_ / "other";
    const std::vector<std::string> to{"--to-container", target.string(), "--to-prefix", set};
    for (int run = 0; run < 2; ++run) {
        const CommandOutput said = on("copy", set, to);
        EXPECT_EQ(said.exit_code, 6) << "also when all the rest is there";
        EXPECT_NE(said.err.find("not copied: " + object + " is damaged: "), std::string::npos)
            << said.err;
        EXPECT_NE(said.err.find("1 object is damaged and was not copied; --accept-damaged"),
                  std::string::npos)
            << said.err;
        EXPECT_NE(said.out.find("damaged, not copied"), std::string::npos) << said.out;
        EXPECT_FALSE(fs::exists(target / object));
    }
    EXPECT_EQ(entries(target / set / "v2").size() + 1, entries(backups() / set / "v2").size());
    std::vector<std::string> all = to;
    all.insert(all.end(), {"--accept-damaged", "-o", "json"});
    const CommandOutput taken = on("copy", set, all);
    EXPECT_EQ(taken.exit_code, 0) << taken.err;
    EXPECT_NE(taken.err.find("warning: " + object + " is damaged: "), std::string::npos)
        << taken.err;
    EXPECT_EQ(content_of(target / object), content_of(backups() / object));
    std::size_t copied = 0;
    const json::Value told = parsed(taken);
    for (const json::Value& each : json::View(told)["objects"].array()) {
        const bool damaged = json::View(each)["problem"].string_or("") != "";
        EXPECT_EQ(damaged, json::View(each)["from"].string_or("") == object);
        copied += json::View(each)["state"].string_or("") == "copied" ? 1 : 0;
    }
    EXPECT_EQ(copied, 1u);
}

TEST_F(BackupCommand, CopyTellsWhatIsMissing) {
    take("backups-malformed/delta-missing-middle");
    const std::vector<std::string> to{
        "--to-container", (directory_ / "other").string(), "--to-prefix", "p"};
    const CommandOutput said = on("copy", "delta-missing-middle", to);
    EXPECT_EQ(said.exit_code, 6);
    EXPECT_NE(said.err.find("revisions 42 to 60"), std::string::npos) << said.err;
    EXPECT_EQ(entries(directory_ / "other/p/v2").size(), 3u) << "what is there is copied";
    std::vector<std::string> all = to;
    all.push_back("--accept-damaged");
    const CommandOutput accepted = on("copy", "delta-missing-middle", all);
    EXPECT_EQ(accepted.exit_code, 0);
    EXPECT_NE(accepted.err.find("warning: the backup cannot all be restored: "), std::string::npos);
}

TEST_F(BackupCommand, CompactTellsWhenThereIsNothingToDo) {
    take("backups/empty");
    const fs::path objects = backups() / "empty/v2";
    const std::vector<std::string> before = entries(objects);
    for (const char* dry : {"--quiet", "--dry-run"}) {
        const CommandOutput said = on("compact", "empty", {dry});
        EXPECT_EQ(said.exit_code, 0) << said.err;
        EXPECT_NE(said.err.find("nothing to compact: no delta follows empty/v2/" + before[0]),
                  std::string::npos)
            << said.err;
        EXPECT_NE(said.out.find(before[0] + ", nothing to compact"), std::string::npos) << said.out;
        EXPECT_EQ(entries(objects), before);
    }
    EXPECT_EQ(on("compact", "empty", {"--compression", "zlib"}).exit_code, 0);
    EXPECT_EQ(entries(objects).size(), before.size() + 1);
}

TEST_F(BackupCommand, ExplainNamesARuleForEveryObject) {
    take("backups/several-fulls");
    const json::Value said = parsed(on(
        "explain", "several-fulls", {"-o", "json", "--retention", "limit", "--max-backups", "1"}));
    const auto& objects = json::View(said)["objects"].array();
    EXPECT_EQ(objects.size(),
              entries(backups() / "several-fulls/v2").size() +
                  entries(backups() / "several-fulls").size() - 1)
        << "README and expected.json are foreign";
    bool deletes = false, keeps = false;
    for (const json::Value& object : objects) {
        EXPECT_NE(json::View(object)["rule"].string_or(""), "");
        EXPECT_NE(json::View(object)["reason"].string_or(""), "");
        deletes = deletes || json::View(object)["do"].string_or("") == "delete";
        keeps = keeps || json::View(object)["rule"].string_or("") == "newest";
    }
    EXPECT_TRUE(deletes && keeps);
    EXPECT_NE(on("explain", "several-fulls").out.find("BECAUSE"), std::string::npos);
}

// A second life under the same prefix: sixty-deltas was set back before zlib's data was written.
class SetBackCommand : public BackupCommand {
protected:
    SetBackCommand() {
        take("backups/sixty-deltas");  // all of second 17960061xx
        const fs::path main = backups() / "sixty-deltas";
        fs::create_directories(main / "capstan");
        std::ofstream(main / ("capstan/" + present_)) << "{}\n";
        for (const auto& entry : fs::directory_iterator(data_ / "backups/zlib/v2")) {
            std::string name = entry.path().filename().string();
            const std::size_t second = name.rfind('-') + 1;
            name.replace(second, 10, std::to_string(std::stoll(name.substr(second, 10)) + 10'000));
            fs::copy(entry.path(), main / "v2" / name);
        }
    }
    const std::string present_{"history-56-1796010000"};
};

TEST_F(SetBackCommand, EveryReaderTakesThePresentHistory) {
    const json::Value listed = parsed(on("list", "sixty-deltas", {"-o", "json"}));
    EXPECT_EQ(json::View(listed)["restorable"]["revision"].int_or(0), 135);
    ASSERT_EQ(json::View(listed)["histories"].array().size(), 2u);
    const std::string text = on("list", "sixty-deltas").out;
    for (const char* part : {"History first, until the cluster was set back at 2026-11-30T",
                             "With --history first it can be restored up to revision ",
                             "History history-56-1796010000, the present one:",
                             "By their names they can be restored up to revision 135"}) {
        EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
    }
    const CommandOutput verified = on("verify", "sixty-deltas");
    EXPECT_EQ(verified.exit_code, 0) << verified.err;
    EXPECT_NE(verified.out.find("history:  " + present_), std::string::npos) << verified.out;
    const std::string expected = content_of(data_ / "backups/zlib/expected.json");
    EXPECT_EQ(json::parse(on("dump", "sixty-deltas").out).value(), json::parse(expected).value());
    EXPECT_EQ(json::parse(on("dump", "sixty-deltas", {"--history", "first"}).out).value(),
              json::parse(content_of(data_ / "backups/sixty-deltas/expected.json")).value());
    const json::Value made = parsed(on("compact", "sixty-deltas", {"-o", "json"}));
    EXPECT_EQ(json::View(made)["revision"].int_or(0), 135);
    EXPECT_EQ(json::parse(on("dump", "sixty-deltas").out).value(), json::parse(expected).value())
        << "and goes on being the present one";
}

TEST_F(SetBackCommand, ARevisionOfBothHistoriesHasToBeNamed) {
    const CommandOutput refused = on("verify", "sixty-deltas", {"--to-revision", "100"});
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_NE(refused.err.find("--history: first (until "), std::string::npos) << refused.err;
    EXPECT_NE(refused.err.find(present_), std::string::npos) << refused.err;
    EXPECT_EQ(
        on("verify", "sixty-deltas", {"--to-revision", "100", "--history", "first"}).exit_code, 0);
    EXPECT_EQ(
        on("verify", "sixty-deltas", {"--to-revision", "100", "--history", present_}).exit_code, 0);
    EXPECT_EQ(on("verify", "sixty-deltas", {"--history", "second"}).exit_code, 2);
}

TEST_F(SetBackCommand, AnEarlierHistoryIsCompactedWithinItself) {
    const json::Value made =
        parsed(on("compact", "sixty-deltas", {"-o", "json", "--history", "first"}));
    EXPECT_EQ(json::View(made)["history"].string_or(""), "first");
    const json::Value listed = parsed(on("list", "sixty-deltas", {"-o", "json"}));
    EXPECT_EQ(json::View(listed)["restorable"]["revision"].int_or(0), 135);
    const json::Value verified =
        parsed(on("verify", "sixty-deltas", {"-o", "json", "--history", "first"}));
    EXPECT_EQ(json::View(verified)["full"].string_or(""), json::View(made)["object"].string_or(""));
}

TEST_F(SetBackCommand, ACopyHasBothHistories) {
    const std::vector<std::string> to{
        "--to-container", (directory_ / "other").string(), "--to-prefix", "p"};
    EXPECT_EQ(on("copy", "sixty-deltas", to).exit_code, 0);
    EXPECT_TRUE(fs::exists(directory_ / "other/p/capstan" / present_));
    const CommandOutput again = on("copy", "sixty-deltas", to);
    EXPECT_EQ(again.out.find("  copied"), std::string::npos) << again.out;
    const CommandOutput dumped = run({"dump",
                                      "--provider",
                                      "Local",
                                      "--container",
                                      (directory_ / "other").string(),
                                      "--prefix",
                                      "p"});
    EXPECT_EQ(json::parse(dumped.out).value(),
              json::parse(content_of(data_ / "backups/zlib/expected.json")).value());
    fs::remove_all(directory_ / "other");
    std::vector<std::string> newest = to;
    newest.insert(newest.end(), {"--max-backups", "1", "-o", "json"});
    const json::Value copied = parsed(on("copy", "sixty-deltas", newest));
    EXPECT_EQ(json::View(copied)["objects"].array().size(), 5u)
        << "the mark, and the set of the present history";
}

TEST_F(SetBackCommand, ExplainKeepsWhatARollbackGaveUp) {
    const json::Value said =
        parsed(on("explain", "sixty-deltas", {"-o", "json", "--at", "2026-12-10T00:00:00Z"}));
    std::size_t abandoned = 0, newest = 0, marks = 0;
    for (const json::Value& object : json::View(said)["objects"].array()) {
        const std::string_view rule = json::View(object)["rule"].string_or("");
        abandoned += rule == "abandoned" ? 1 : 0;
        newest += rule == "newest" ? 1 : 0;
        marks += rule == "history" ? 1 : 0;
        EXPECT_EQ(json::View(object)["do"].string_or(""), "keep");
    }
    EXPECT_EQ(newest, 4u);
    EXPECT_GT(abandoned, 50u);
    EXPECT_EQ(marks, 1u);
}

// Two fulls of another tool, a day apart, the later one with less, and nothing says why.
TEST_F(BackupCommand, NamesThatContradictEachOtherAreRefused) {
    take("backups/zlib");
    const fs::path objects = backups() / "zlib/v2";
    fs::copy(data_ / "backups/sixty-deltas/v2/Full-00000000-00000020-1796006164.gz",
             objects / "Full-00000000-00000020-1796096164.gz");
    for (const char* command : {"verify", "dump", "compact"}) {
        const CommandOutput refused = on(command, "zlib");
        EXPECT_EQ(refused.exit_code, 6) << command;
        EXPECT_NE(refused.err.find("--history Full-00000000-00000020-1796096164.gz"),
                  std::string::npos)
            << refused.err;
        EXPECT_NE(refused.err.find("Incr-00000135-00000135"), std::string::npos) << refused.err;
    }
    EXPECT_NE(on("list", "zlib").out.find("They cannot all be restored"), std::string::npos);
    const json::Value newer = parsed(
        on("verify", "zlib", {"-o", "json", "--history", "Full-00000000-00000020-1796096164.gz"}));
    EXPECT_EQ(json::View(newer)["revision"].int_or(0), 20);
    const json::Value higher = parsed(on("verify", "zlib", {"-o", "json", "--by-revision"}));
    EXPECT_EQ(json::View(higher)["revision"].int_or(0), 135);
}

TEST_F(BackupCommand, CheckSaysEachStep) {
    fs::create_directories(backups());
    const CommandOutput said = on("check", "main");
    EXPECT_EQ(said.exit_code, 0) << said.out;
    for (const char* step : {"write", "list", "read", "compare", "fence", "delete"}) {
        EXPECT_NE(said.out.find(std::string(step) + " "), std::string::npos) << step;
    }
    EXPECT_FALSE(fs::exists(backups() / "main/v2"));
}

TEST_F(BackupCommand, DumpReplacesNoFileSilently) {
    take("backups/gzip-members");
    const std::string file = (directory_ / "keys.json").string();
    EXPECT_EQ(on("dump", "gzip-members", {"--file", file}).exit_code, 0);
    const std::string to_stdout = on("dump", "gzip-members").out;
    EXPECT_EQ(content_of(file), to_stdout);
    EXPECT_EQ(on("dump", "gzip-members", {"--file", file}).exit_code, 2);
    EXPECT_EQ(on("dump", "gzip-members", {"--file", file, "--force"}).exit_code, 0);
    EXPECT_EQ(entries(directory_), (std::vector<std::string>{"backups", "keys.json", "tmp"}));
}

TEST_F(BackupCommand, OutputThatFailsIsAFailure) {
    take("backups/gzip-members");
    for (std::size_t k = 1;; ++k) {
        host_.clear_calls();
        host_.fail_call(k, CAPSTAN_E_UNAVAIL, true);
        const CommandOutput said = on("dump", "gzip-members");
        if (host_.calls().size() < k) {
            break;
        }
        EXPECT_NE(said.exit_code, 0) << k;
    }
}

TEST_F(BackupCommand, ProgressIsForTerminals) {
    take("backups/gzip-members");
    EXPECT_EQ(on("verify", "gzip-members").err, "");
    EXPECT_NE(on("verify", "gzip-members", {"--progress"}).err.find("reading object 1"),
              std::string::npos);
    const std::vector<std::string> args{"verify",
                                        "--provider",
                                        "Local",
                                        "--container",
                                        backups().string(),
                                        "--prefix",
                                        "gzip-members"};
    const CommandOutput said = run(args, 1U << CAPSTAN_STDERR);
    EXPECT_EQ(said.err.front(), '\r');
    EXPECT_TRUE(said.err.ends_with("\r\x1b[K")) << "the line is taken off";
}

TEST(Report, TableHasNoTrailingBlanks) {
    EXPECT_EQ(table_text({{"A", "B"}, {"long", ""}, {"x", "y"}}), "A     B\nlong\nx     y\n");
}

}  // namespace
}  // namespace capstan::steward
