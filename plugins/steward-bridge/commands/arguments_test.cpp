#include "plugins/steward-bridge/commands/arguments.hpp"

#include <gtest/gtest.h>

#include <sstream>

namespace capstan::steward {
namespace {

ParsedArguments parse(const std::string& line) {
    std::istringstream words(line);
    std::vector<std::string> args;
    for (std::string word; words >> word;) {
        args.push_back(word);
    }
    return parse_backup_arguments(args);
}

const std::string kStore = " --provider Local --container /b --prefix main";

struct MistakeRow {
    const char* name;
    std::string line;
    const char* says;
};
class Mistakes : public testing::TestWithParam<MistakeRow> {};

TEST_P(Mistakes, AreUsageAndNamed) {
    const ParsedArguments parsed = parse(GetParam().line);
    EXPECT_FALSE(parsed.arguments);
    EXPECT_EQ(parsed.exit_code, 2);
    EXPECT_NE(parsed.text.find(GetParam().says), std::string::npos) << parsed.text;
}

INSTANTIATE_TEST_SUITE_P(
    BackupArguments,
    Mistakes,
    testing::Values(
        MistakeRow{"no_command", "", "subcommand is required"},
        MistakeRow{"misspelt_command", "lst" + kStore, "did you mean \"list\"?"},
        MistakeRow{"other_command", "frobnicate", "unknown command \"frobnicate\"; `capstan"},
        MistakeRow{"no_provider", "list --container /b", "--provider is required"},
        MistakeRow{"unknown_option", "list" + kStore + " --prefxi a", "--prefxi"},
        MistakeRow{"output", "list" + kStore + " -o yaml", "there are table and json"},
        MistakeRow{"revision",
                   "verify" + kStore + " --to-revision 0",
                   "--to-revision: Value 0 not in range 1 to 9223372036854775807"},
        MistakeRow{"two_points",
                   "verify" + kStore + " --to-revision 5 --to-time 2026-11-30T12:00:00Z",
                   "excludes"},
        MistakeRow{"time", "verify" + kStore + " --to-time yesterday", "2026-11-30T12:00:00Z"},
        MistakeRow{"no_data_dir", "restore" + kStore, "--data-dir is required"},
        MistakeRow{"quota", "restore" + kStore + " --data-dir d --quota 8GB", "or 8Gi"},
        MistakeRow{
            "large_quota", "restore" + kStore + " --data-dir d --quota 99999999999999Ti", "or 8Gi"},
        MistakeRow{"foreign_url",
                   "restore" + kStore +
                       " --data-dir d --name a --initial-cluster a=http://a:2380 "
                       "--initial-advertise-peer-urls http://b:2380",
                   "http://b:2380 is not that of member a"},
        MistakeRow{"compression",
                   "compact" + kStore + " --compression zip",
                   "there are gzip, zlib, lzw and none"},
        MistakeRow{"retention", "explain" + kStore + " --retention all", "exponential and limit"},
        MistakeRow{"duration", "explain" + kStore + " --delta-retention 5", "as 1h30m"},
        MistakeRow{"max_backups",
                   "explain" + kStore + " --max-backups 0",
                   "--max-backups: Value 0 not in range 1 to 9223372036854775807"},
        MistakeRow{"copy_no_backups",
                   "copy" + kStore + " --to-prefix p --max-backups 0",
                   "--max-backups: Value 0 not in range 1 to 9223372036854775807"},
        MistakeRow{"copy_negative_backups",
                   "copy" + kStore + " --to-prefix p --max-backups -1",
                   "--max-backups: Value -1 not in range 1 to 9223372036854775807"},
        MistakeRow{"dump_table", "dump" + kStore + " -o table", "-o table: dump prints json only"}),
    [](const auto& row) { return row.param.name; });

TEST(BackupArguments, HelpIsNoMistake) {
    const ParsedArguments all = parse("--help");
    EXPECT_EQ(all.exit_code, 0);
    EXPECT_NE(all.text.find("Exit codes: 0 whole"), std::string::npos);
    for (const char* command :
         {"list", "explain", "verify", "restore", "compact", "copy", "dump", "check"}) {
        EXPECT_NE(all.text.find(std::string("\n  ") + command), std::string::npos) << command;
        const ParsedArguments one = parse(std::string(command) + " --help");
        EXPECT_EQ(one.exit_code, 0) << command;
        EXPECT_NE(one.text.find(std::string("  capstan backup ") + command), std::string::npos)
            << "there is an example: " << one.text;
        EXPECT_NE(one.text.find("--provider"), std::string::npos);
    }
}

TEST(BackupArguments, StoreOptionsAreTheSameEverywhere) {
    const auto parsed = parse(
        "list --provider S3 --container b --prefix /a/main/ --endpoint https://e:1 --region eu-1 "
        "--ca-file ca.pem --path-style -o json --quiet");
    ASSERT_TRUE(parsed.arguments) << parsed.text;
    const StoreArguments& store = parsed.arguments->store;
    EXPECT_EQ(store.provider + " " + store.container + " " + store.prefix + " " + store.endpoint +
                  " " + store.region + " " + store.ca_file,
              "S3 b a/main https://e:1 eu-1 ca.pem");
    EXPECT_TRUE(store.path_style);
    EXPECT_TRUE(parsed.arguments->as_json);
    EXPECT_EQ(parsed.arguments->progress, false);
}

TEST(BackupArguments, CopyHasASecondStore) {
    const auto parsed = parse("copy" + kStore +
                              " --to-provider S3 --to-container t --to-prefix p/ "
                              "--to-region r --max-backups 2 --dry-run --progress");
    ASSERT_TRUE(parsed.arguments) << parsed.text;
    EXPECT_EQ(parsed.arguments->store.container, "/b");
    EXPECT_EQ(parsed.arguments->to.container, "t");
    EXPECT_EQ(parsed.arguments->to.prefix, "p");
    EXPECT_EQ(parsed.arguments->to.region, "r");
    EXPECT_EQ(parsed.arguments->max_backups, 2);
    EXPECT_TRUE(parsed.arguments->dry_run);
    EXPECT_EQ(parsed.arguments->progress, true);
}

TEST(BackupArguments, DumpTakesTheOutputItHas) {
    EXPECT_TRUE(parse("dump" + kStore + " -o json").arguments);
    EXPECT_TRUE(parse("dump" + kStore).arguments);
    EXPECT_FALSE(parse("list" + kStore).arguments->as_json);
}

TEST(BackupArguments, AClusterOfOneIsMadeUp) {
    EXPECT_EQ(parse("restore" + kStore + " --data-dir d").arguments->initial_cluster,
              "default=http://localhost:2380");
    EXPECT_EQ(parse("restore" + kStore +
                    " --data-dir d --name a --initial-advertise-peer-urls http://x:1,http://y:2")
                  .arguments->initial_cluster,
              "a=http://x:1,a=http://y:2");
    const auto both = parse("restore" + kStore +
                            " --data-dir d --name b --initial-cluster a=http://x:1,b=http://y:2 "
                            "--initial-advertise-peer-urls http://y:2 --quota 512Mi");
    ASSERT_TRUE(both.arguments) << both.text;
    EXPECT_EQ(both.arguments->initial_cluster, "a=http://x:1,b=http://y:2");
    EXPECT_EQ(both.arguments->quota_bytes, std::uint64_t{512} << 20);
}

TEST(BackupArguments, ExplainTakesThePeersWordsToo) {
    const auto limit = parse("explain" + kStore + " --retention LimitBased --max-backups 3");
    ASSERT_TRUE(limit.arguments) << limit.text;
    EXPECT_EQ(limit.arguments->retention.policy, RetentionPolicy::limit_based);
    EXPECT_EQ(limit.arguments->retention.max_backups, 3);
    const auto other =
        parse("explain" + kStore + " --delta-retention 1h30m --at 2026-11-30T12:00:00Z");
    EXPECT_EQ(other.arguments->retention.policy, RetentionPolicy::exponential);
    EXPECT_EQ(other.arguments->retention.delta_retention, std::chrono::minutes(90));
    EXPECT_TRUE(other.arguments->at);
}

TEST(NearestWord, IsNearOrNothing) {
    EXPECT_EQ(nearest_word("resotre", {"list", "restore"}), "restore");
    EXPECT_EQ(nearest_word("main", {"etcd-events", "main-1"}), "main-1");
    EXPECT_EQ(nearest_word("xyz", {"list", "restore"}), "");
}

}  // namespace
}  // namespace capstan::steward
