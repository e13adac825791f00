// Certificates in files: what a mounted Secret, an editor or a broken tool does to them.
#include "runtime/net/certificate_watcher.hpp"
#include "runtime/net/pki.hpp"
#include "runtime/net/tls.hpp"
#include "runtime/obs/exposition.hpp"
#include "test/fakes/virtual_loop.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace capstan::net {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

Result<std::string> read_file(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    if (!in) {
        return fail(Code::not_found, path + " cannot be read");
    }
    return std::string{std::istreambuf_iterator<char>(in), {}};
}

class CertificateWatcherTest : public ::testing::Test {
protected:
    CertificateWatcherTest() {
        std::string pattern = (fs::temp_directory_path() / "capstan-tls-XXXXXX").string();
        root_ = ::mkdtemp(pattern.data());
        // As the kubelet mounts a Secret: files are links into a directory that is swapped whole.
        put("1", pair("one", 240h));
        fs::create_directory_symlink("1", root_ / "..data");
        for (const char* name : {"tls.crt", "tls.key", "ca.crt"}) {
            fs::create_symlink(fs::path("..data") / name, root_ / name);
        }
    }
    ~CertificateWatcherTest() override { fs::remove_all(root_); }

    KeyPair pair(const std::string& name, std::chrono::minutes lifetime) {
        const WallTime now = loop.wall_now();
        return issue_certificate(
                   ca,
                   {.common_name = name, .dns_names = {name + ".test"}, .server = true},
                   {now - 1h, now + lifetime})
            .value();
    }
    void write(const fs::path& path, const std::string& text) const {
        std::ofstream(root_ / path, std::ios::binary | std::ios::trunc) << text;
    }
    void put(const std::string& directory, const KeyPair& made) const {
        fs::create_directory(root_ / directory);
        write(directory + "/tls.crt", made.certificate_pem);
        write(directory + "/tls.key", made.key_pem);
        write(directory + "/ca.crt", ca.certificate_pem);
    }
    void swap_to(const std::string& directory) const {
        fs::create_directory_symlink(directory, root_ / "..new");
        fs::rename(root_ / "..new", root_ / "..data");
    }
    void watch() {
        CertificateWatcher::Options options;
        options.listener = "test";
        options.files = {root_ / "tls.crt", root_ / "tls.key", root_ / "ca.crt"};
        options.read = &read_file;
        options.health = &health;
        ServerTls first = read_server_tls(options.files, options.read).value();
        watcher.emplace(
            loop, metrics, log, std::move(options), first, [this](const ServerTls& tls) {
                const auto usable = TlsServer::create(
                    tls.certificate_pem, tls.key_pem, tls.client_ca_pem, ClientAuth::require);
                if (!usable) {
                    return Result<void>(fail(usable.error()));
                }
                applied.push_back(read_certificate(tls.certificate_pem).value().common_name);
                last_ca = tls.client_ca_pem;
                return Result<void>(ok());
            });
    }
    void turn() { loop.run_for(kCertificatePoll); }
    bool shows(const std::string& line) const {
        return metrics.render().find(line + "\n") != std::string::npos;
    }

    fs::path root_;
    test::VirtualLoop loop;
    const KeyPair ca{
        make_ca("ca", {loop.wall_now() - 1h, loop.wall_now() + std::chrono::hours(24 * 365)})
            .value()};
    obs::Metrics metrics;
    obs::Health health;
    obs::LogCapture lines;
    obs::Log log{loop, lines.sink()};
    std::vector<std::string> applied;
    std::string last_ca;
    std::optional<CertificateWatcher> watcher;
};

TEST_F(CertificateWatcherTest, FollowsASwappedLink) {
    watch();
    turn();
    EXPECT_TRUE(applied.empty()) << "the pair in use is no change";
    put("2", pair("two", 240h));
    swap_to("2");
    EXPECT_TRUE(applied.empty()) << "not before its turn";
    turn();
    EXPECT_EQ(applied, std::vector<std::string>{"two"});
    put("3", pair("three", 240h));
    swap_to("3");
    turn();
    EXPECT_EQ(applied, (std::vector<std::string>{"two", "three"}));
    EXPECT_TRUE(shows("certwatcher_read_certificate_total 3"));
    EXPECT_TRUE(shows("certwatcher_read_certificate_errors_total 0"));
}

TEST_F(CertificateWatcherTest, SameContentInNewFilesIsNoChange) {
    watch();
    fs::create_directory(root_ / "2");
    for (const char* name : {"tls.crt", "tls.key", "ca.crt"}) {
        fs::copy_file(root_ / "1" / name, root_ / "2" / name);
    }
    swap_to("2");
    turn();
    EXPECT_TRUE(applied.empty());
}

TEST_F(CertificateWatcherTest, KeepsTheOldPairWhileTheNewOneIsBroken) {
    watch();
    const KeyPair next = pair("next", 240h);
    write("1/tls.crt", next.certificate_pem);  // the key is still the old one's
    turn();
    write("1/tls.crt", "-----BEGIN CERTIFICATE-----\nnonsense");
    turn();
    write("1/tls.crt", "");
    turn();
    turn();
    EXPECT_TRUE(applied.empty());
    EXPECT_TRUE(shows("certwatcher_read_certificate_errors_total 4"));
    EXPECT_TRUE(lines.contains({"not reloaded", "do not match"}));
    EXPECT_EQ(lines.count("not reloaded"), 3u) << "once per problem, not once per look";
    write("1/tls.crt", next.certificate_pem);
    write("1/tls.key", next.key_pem);
    turn();
    EXPECT_EQ(applied, std::vector<std::string>{"next"});
    turn();
    EXPECT_TRUE(shows("certwatcher_read_certificate_errors_total 4"));
}

TEST_F(CertificateWatcherTest, AnEmptyFileIsNoPlainListener) {
    const CertificateFiles files = {root_ / "tls.crt", root_ / "tls.key", root_ / "ca.crt"};
    for (const char* name : {"tls.crt", "tls.key", "ca.crt"}) {
        const std::string before = read_file(root_ / name).value();
        write(name, "\n");
        const auto tls = read_server_tls(files, &read_file);
        ASSERT_FALSE(tls) << name;
        EXPECT_EQ(tls.error().code, Code::invalid);
        EXPECT_NE(tls.error().message.find(name), std::string::npos) << tls.error().message;
        write(name, before);
    }
    EXPECT_TRUE(read_server_tls(files, &read_file));
}

TEST_F(CertificateWatcherTest, APairThatHasEndedReplacesNoValidOne) {
    watch();
    put("2", pair("ended", 1h));
    loop.jump_wall(2h);
    swap_to("2");
    turn();
    EXPECT_TRUE(applied.empty());
    EXPECT_TRUE(lines.contains({"not reloaded", "ended at"}));
    put("3", pair("fresh", 48h));
    swap_to("3");
    turn();
    EXPECT_EQ(applied, std::vector<std::string>{"fresh"});
}

TEST_F(CertificateWatcherTest, APairThatHasEndedBeforeTheStartIsLoudUntilItIsReplaced) {
    put("1", pair("ended", -1min));
    watch();
    const std::string file = (root_ / "tls.crt").string();
    ASSERT_EQ(health.reasons().size(), 1u);
    EXPECT_EQ(health.reasons()[0],
              "certificate/test: " + file + " has ended at " + to_rfc3339(loop.wall_now() - 1min) +
                  "; remedy: put a new pair into its files");
    EXPECT_TRUE(lines.contains({"\"error\"", "the certificate has ended", file}));
    loop.run_for(5min);
    EXPECT_EQ(lines.count("has ended"), 1u) << "said once";
    put("2", pair("fresh", 48h));
    swap_to("2");
    turn();
    EXPECT_EQ(applied, std::vector<std::string>{"fresh"});
    EXPECT_TRUE(health.is_ready());
    loop.jump_wall(49h);
    turn();
    EXPECT_FALSE(health.is_ready()) << "and when it ends in use";
    EXPECT_EQ(lines.count("has ended"), 2u);
}

TEST_F(CertificateWatcherTest, ACertificateWithoutNamesIsRefusedWithTheReason) {
    watch();
    const WallTime now = loop.wall_now();
    put("2",
        issue_certificate(
            ca, {.common_name = "only-a-common-name", .server = true}, {now, now + 1h})
            .value());
    swap_to("2");
    const ServerTls tls =
        read_server_tls({root_ / "tls.crt", root_ / "tls.key", ""}, &read_file).value();
    const auto checked = check_server_tls(tls, "/c.pem");
    ASSERT_FALSE(checked);
    EXPECT_EQ(checked.error().code, Code::invalid);
    EXPECT_TRUE(checked.error().message.starts_with(
        "/c.pem names no host: it has no subject alternative name"))
        << checked.error().message;
    turn();
    EXPECT_TRUE(applied.empty());
    EXPECT_TRUE(lines.contains({"not reloaded", "names no host"}));
}

TEST_F(CertificateWatcherTest, OutlivesDeletionAndReturn) {
    watch();
    fs::remove(root_ / "tls.crt");
    fs::remove(root_ / "..data");
    turn();
    turn();
    EXPECT_TRUE(applied.empty());
    EXPECT_TRUE(shows("certwatcher_read_certificate_errors_total 2"));
    EXPECT_TRUE(lines.contains({"not reloaded", "tls.crt"})) << "the file is named";
    const KeyPair back = pair("back", 240h);
    put("2", back);
    fs::create_directory_symlink("2", root_ / "..data");
    write("tls.crt", back.certificate_pem);  // a plain file this time
    turn();
    EXPECT_EQ(applied, std::vector<std::string>{"back"});
}

TEST_F(CertificateWatcherTest, FollowsTheClientsCaAlone) {
    watch();
    const KeyPair other = make_ca("other", {loop.wall_now() - 1h, loop.wall_now() + 240h}).value();
    write("1/ca.crt", ca.certificate_pem + other.certificate_pem);
    turn();
    EXPECT_EQ(applied, std::vector<std::string>{"one"});
    EXPECT_EQ(last_ca, ca.certificate_pem + other.certificate_pem);
}

TEST_F(CertificateWatcherTest, ShowsAndAnnouncesTheEnd) {
    write("1/tls.crt", "");
    put("1", pair("long", kExpiryWarning + 1h));
    watch();
    const auto seconds = [](WallTime time) {
        return obs::number(static_cast<double>(
            std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count()));
    };
    const std::string series = "capstan_certificate_expiry_timestamp_seconds{listener=\"test\"} ";
    EXPECT_TRUE(shows(series + seconds(loop.wall_now() + kExpiryWarning + 1h))) << metrics.render();
    EXPECT_EQ(lines.count("ends soon"), 0u);
    loop.jump_wall(2h);
    loop.run_for(1min);
    EXPECT_EQ(lines.count("ends soon"), 1u);
    put("2", pair("fresh", 24h * 90));
    swap_to("2");
    const WallTime made = loop.wall_now();
    loop.run_for(1min);
    EXPECT_EQ(lines.count("ends soon"), 1u);
    EXPECT_TRUE(shows(series + seconds(made + 24h * 90))) << metrics.render();
}

}  // namespace
}  // namespace capstan::net
