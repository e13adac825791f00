#include "runtime/kube/credentials.hpp"
#include "runtime/kube/kubeconfig.hpp"
#include "runtime/kube/status.hpp"
#include "test/fakes/virtual_loop.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace capstan::kube {
namespace {

using namespace std::chrono_literals;

struct Files {
    std::map<std::string, std::string> content;
    int reads{0};
    ReadFile reader() {
        return [this](const std::string& path) -> Result<std::string> {
            ++reads;
            const auto found = content.find(path);
            return found == content.end()
                       ? Result<std::string>(fail(Code::invalid, "cannot open " + path))
                       : found->second;
        };
    }
};

std::string kubeconfig(const std::string& cluster, const std::string& user) {
    return R"({"current-context":"c","contexts":[{"name":"c","context":{"cluster":"k","user":"u","namespace":"n"}}],
      "clusters":[{"name":"k","cluster":)" +
           cluster + R"(}],"users":[{"name":"u","user":)" + user + "}]}";
}

TEST(Kubeconfig, LoadsServerCertificatesAndToken) {
    Files files;
    files.content = {{"/d/ca.crt", "CA"}, {"/abs/key", "KEY"}, {"/d/tok", "T"}};
    const auto config = parse_kubeconfig(
        kubeconfig(
            R"({"server":"https://127.0.0.1:6443/","certificate-authority":"ca.crt","tls-server-name":"kube"})",
            R"({"client-certificate-data":"Q0VSVA==","client-key":"/abs/key","token":"t","tokenFile":"tok"})"),
        "/d",
        "",
        files.reader());
    ASSERT_TRUE(config) << config.error().message;
    EXPECT_EQ(config.value().http.endpoint, "https://127.0.0.1:6443");
    EXPECT_EQ(config.value().host, "127.0.0.1:6443");
    EXPECT_EQ(config.value().http.tls.ca_pem, "CA");
    EXPECT_EQ(config.value().http.tls.server_name, "kube");
    EXPECT_EQ(config.value().http.tls.certificate_pem, "CERT");
    EXPECT_EQ(config.value().http.tls.key_pem, "KEY");
    EXPECT_EQ(config.value().ns, "n");
    EXPECT_EQ(config.value().token, "t");
    EXPECT_EQ(config.value().token_file, "/d/tok");
}

TEST(Kubeconfig, IsYamlAsToolsWriteIt) {
    Files files;
    const auto config = parse_kubeconfig(R"(apiVersion: v1
kind: Config
current-context: kind-a
preferences: {}
contexts:
- context: {cluster: kind-a, user: kind-a}
  name: kind-a
clusters:
- cluster:
    certificate-authority-data: Q0E=
    server: https://[::1]:6443
  name: kind-a
users:
- name: kind-a
  user:
    token: 12345-text
)",
                                         "/d",
                                         "",
                                         files.reader());
    ASSERT_TRUE(config) << config.error().message;
    EXPECT_EQ(config.value().host, "[::1]:6443");
    EXPECT_EQ(config.value().http.tls.ca_pem, "CA");
    EXPECT_EQ(config.value().ns, "default");
    EXPECT_EQ(config.value().token, "12345-text");
    EXPECT_EQ(parse_kubeconfig("a: 1\na: 2\n", "/d").error().code, Code::invalid);
}

struct RefusalRow {
    const char* name;
    const char* cluster;
    const char* user;
    Code code;
    const char* message;
};

class KubeconfigRefuses : public testing::TestWithParam<RefusalRow> {};

TEST_P(KubeconfigRefuses, WithTheFieldNamed) {
    Files files;
    const auto config =
        parse_kubeconfig(kubeconfig(GetParam().cluster, GetParam().user), "/d", "", files.reader());
    ASSERT_FALSE(config);
    EXPECT_EQ(config.error().code, GetParam().code);
    EXPECT_EQ(config.error().message, GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Rows,
    KubeconfigRefuses,
    testing::Values(
        RefusalRow{
            "exec",
            R"({"server":"https://a"})",
            R"({"exec":{"command":"x"}})",
            Code::invalid,
            "kubeconfig user \"u\": exec.apiVersion is \"\"; client.authentication.k8s.io/v1 "
            "and v1beta1 are understood"},
        RefusalRow{"auth_provider",
                   R"({"server":"https://a"})",
                   R"({"auth-provider":{"name":"gcp"}})",
                   Code::unsupported,
                   "kubeconfig user \"u\": auth-provider was removed from Kubernetes in 1.26; use "
                   "exec, a client certificate, token or tokenFile"},
        RefusalRow{
            "no_server", "{}", "{}", Code::invalid, "kubeconfig cluster \"k\": server is missing"},
        RefusalRow{"proxy",
                   R"({"server":"https://a","proxy-url":"socks4://me:x@p"})",
                   "{}",
                   Code::invalid,
                   "kubeconfig cluster \"k\": proxy-url: a proxy is "
                   "SCHEME://[user:password@]host[:port]; there are http, https, socks5 and "
                   "socks5h"},
        RefusalRow{"path",
                   R"({"server":"https://a/b?c"})",
                   "{}",
                   Code::invalid,
                   "kubeconfig cluster \"k\": server has a path that cannot be part of a URL"},
        RefusalRow{"type_of_text",
                   R"({"server":["https://a"]})",
                   "{}",
                   Code::invalid,
                   "kubeconfig cluster \"k\": server must be text"},
        RefusalRow{"type_of_switch",
                   R"({"server":"https://a","insecure-skip-tls-verify":"yes"})",
                   "{}",
                   Code::invalid,
                   "kubeconfig cluster \"k\": insecure-skip-tls-verify must be true or false"},
        RefusalRow{"impersonation_of_nobody",
                   R"({"server":"https://a"})",
                   R"({"as-groups":["g"]})",
                   Code::invalid,
                   "kubeconfig user \"u\": as is needed for as-uid, as-groups and as-user-extra"},
        RefusalRow{
            "password_alone",
            R"({"server":"https://a"})",
            R"({"password":"p"})",
            Code::invalid,
            "kubeconfig user \"u\": username is needed with a password, and without a colon"},
        RefusalRow{"plain_password",
                   R"({"server":"http://a:1"})",
                   R"({"username":"n","password":"p"})",
                   Code::invalid,
                   "kubeconfig user \"u\": password is never sent over plain http to another "
                   "machine"},
        RefusalRow{"bad_base64",
                   R"({"server":"https://a","certificate-authority-data":"!!"})",
                   "{}",
                   Code::invalid,
                   "kubeconfig cluster \"k\": certificate-authority-data is not base64"},
        RefusalRow{
            "insecure_with_ca",
            R"({"server":"https://a","certificate-authority-data":"QUE=","insecure-skip-tls-verify":true})",
            "{}",
            Code::invalid,
            "kubeconfig cluster \"k\": insecure-skip-tls-verify cannot be combined with a "
            "certificate authority"},
        RefusalRow{"half_pair",
                   R"({"server":"https://a"})",
                   R"({"client-key-data":"QUE="})",
                   Code::invalid,
                   "kubeconfig user \"u\": client-certificate and client-key are needed together"},
        RefusalRow{"plain_token",
                   R"({"server":"http://a:1"})",
                   R"({"token":"t"})",
                   Code::invalid,
                   "kubeconfig user \"u\": token is never sent over plain http to another machine"},
        RefusalRow{"missing_token",
                   R"({"server":"https://a"})",
                   R"({"tokenFile":"tok","token":"t"})",
                   Code::invalid,
                   "kubeconfig user \"u\": tokenFile: cannot open /d/tok"},
        RefusalRow{"missing_file",
                   R"({"server":"https://a","certificate-authority":"ca"})",
                   "{}",
                   Code::invalid,
                   "kubeconfig cluster \"k\": certificate-authority: cannot open /d/ca"}),
    [](const auto& row) { return row.param.name; });

TEST(Kubeconfig, SaysWhichEntryIsMissing) {
    EXPECT_EQ(parse_kubeconfig("{}", "/").error().message,
              "kubeconfig: current-context is not set");
    EXPECT_EQ(parse_kubeconfig(kubeconfig("{}", "{}"), "/", "other").error().message,
              "kubeconfig context \"other\" is not defined; there is: c");
    EXPECT_EQ(parse_kubeconfig(R"({"contexts":{"c":{}}})", "/").error().message,
              "kubeconfig: contexts must be a list");
}

TEST(Kubeconfig, CarriesHeadersAndTheServersPath) {
    Files files;
    const auto config = parse_kubeconfig(
        kubeconfig(
            R"({"server":"https://rancher.test/k8s/clusters/c-1/","proxy-url":"http://me:x@p:3128"})",
            R"({"username":"n","password":"p","as":"boss","as-uid":"7","as-groups":["g1","g2"],)"
            R"("as-user-extra":{"a b":["1","2"]}})"),
        "/d",
        "",
        files.reader());
    ASSERT_TRUE(config) << config.error().message;
    EXPECT_EQ(config.value().http.endpoint, "https://rancher.test");
    EXPECT_EQ(config.value().base_path, "/k8s/clusters/c-1");
    EXPECT_EQ(config.value().http.proxy, "http://me:x@p:3128");
    const net::Headers expected = {{"Impersonate-User", "boss"},
                                   {"Impersonate-Uid", "7"},
                                   {"Impersonate-Group", "g1"},
                                   {"Impersonate-Group", "g2"},
                                   {"Impersonate-Extra-a%20b", "1"},
                                   {"Impersonate-Extra-a%20b", "2"},
                                   {"Authorization", "Basic bjpw"}};
    EXPECT_EQ(config.value().headers, expected);
    EXPECT_TRUE(parse_kubeconfig(
        kubeconfig(R"({"server":"http://127.0.0.1:1"})", R"({"token":"t"})"), "/d"))
        << "plain http to this machine is allowed";
}

TEST(Kubeconfig, RemembersTheFilesThatMayChange) {
    Files files;
    files.content = {{"/d/ca", "CA"}, {"/d/crt", "C"}, {"/d/key", "K"}};
    const char* cluster = R"({"server":"https://a","certificate-authority":"ca"})";
    const auto both =
        parse_kubeconfig(kubeconfig(cluster, R"({"client-certificate":"crt","client-key":"key"})"),
                         "/d",
                         "",
                         files.reader());
    ASSERT_TRUE(both);
    EXPECT_EQ(both.value().files.ca, "/d/ca");
    EXPECT_EQ(both.value().files.certificate, "/d/crt");
    EXPECT_EQ(both.value().files.key, "/d/key");
    const auto half = parse_kubeconfig(
        kubeconfig(cluster, R"({"client-certificate":"crt","client-key-data":"Sw=="})"),
        "/d",
        "",
        files.reader());
    ASSERT_TRUE(half);
    EXPECT_EQ(half.value().files.certificate, "") << "one without the other cannot change";
}

TEST(Kubeconfig, ExecPluginsAreTheLastChoice) {
    Files files;
    const std::string exec =
        R"("exec":{"apiVersion":"client.authentication.k8s.io/v1","command":"p",)"
        R"("interactiveMode":"Never","provideClusterInfo":true})";
    const std::string cluster =
        R"({"server":"https://a","certificate-authority-data":"QUE=","tls-server-name":"n",)"
        R"("extensions":[{"name":"client.authentication.k8s.io/exec","extension":{"audience":"x"}}]})";
    const auto config =
        parse_kubeconfig(kubeconfig(cluster, "{" + exec + "}"), "/d", "", files.reader());
    ASSERT_TRUE(config) << config.error().message;
    ASSERT_TRUE(config.value().exec);
    EXPECT_EQ(
        json::dump(config.value().exec->cluster),
        R"({"server":"https://a","tls-server-name":"n","certificate-authority-data":"QUE=","config":{"audience":"x"}})");
    const auto token = parse_kubeconfig(
        kubeconfig(cluster, R"({"token":"t",)" + exec + "}"), "/d", "", files.reader());
    ASSERT_TRUE(token);
    EXPECT_FALSE(token.value().exec);
}

TEST(Kubeconfig, APathListIsMergedFirstDefinitionWins) {
    Files files;
    files.content = {{"/a/one",
                      R"({"clusters":[{"name":"k","cluster":{"server":"https://first",)"
                      R"("certificate-authority":"ca"}}]})"},
                     {"/b/two",
                      "current-context: c\n"
                      "contexts: [{name: c, context: {cluster: k, user: u}}]\n"
                      "clusters: [{name: k, cluster: {server: https://second}}]\n"
                      "users: [{name: u, user: {tokenFile: t}}]\n"},
                     {"/b/bad", "a: [1"},
                     {"/a/ca", "CA"},
                     {"/b/t", "T"}};
    const auto config = load_kubeconfig("/none:/a/one::/b/two", "", files.reader());
    ASSERT_TRUE(config) << config.error().message;
    EXPECT_EQ(config.value().http.endpoint, "https://first");
    EXPECT_EQ(config.value().files.ca, "/a/ca") << "relative to the file it stands in";
    EXPECT_EQ(config.value().token_file, "/b/t");
    EXPECT_TRUE(load_kubeconfig("/a/one:/b/bad", "", files.reader())
                    .error()
                    .message.starts_with("/b/bad: "));
    EXPECT_EQ(load_kubeconfig("/none:/nothing", "", files.reader()).error().message,
              "cannot open /nothing");
    const auto other = load_kubeconfig("/b/two:/a/one", "", files.reader());
    ASSERT_TRUE(other);
    EXPECT_EQ(other.value().http.endpoint, "https://second");
}

struct CompressRow {
    const char* cluster;
    bool compress;
};

TEST(Kubeconfig, AsksOtherMachinesForGzipUnlessToldNotTo) {
    for (const CompressRow& row :
         {CompressRow{R"({"server":"https://api.test:6443"})", true},
          CompressRow{R"({"server":"https://api.test","disable-compression":false})", true},
          CompressRow{R"({"server":"https://api.test","disable-compression":true})", false},
          CompressRow{R"({"server":"https://127.0.0.1:6443"})", false},
          CompressRow{R"({"server":"https://localhost:6443"})", false}}) {
        const auto config = parse_kubeconfig(kubeconfig(row.cluster, "{}"), "/d");
        ASSERT_TRUE(config) << config.error().message;
        EXPECT_EQ(config.value().compress, row.compress) << row.cluster;
    }
}

TEST(Kubeconfig, TakesAProxyOfTheEnvironment) {
    const Environment environment = [](const std::string& name) -> std::optional<std::string> {
        return name == "HTTPS_PROXY" ? std::optional<std::string>("p:3128") : std::nullopt;
    };
    ConnectionConfig config;
    config.http.endpoint = "https://a";
    ASSERT_TRUE(use_environment_proxy(config, environment));
    EXPECT_EQ(config.http.proxy, "http://p:3128");
    config.http.proxy = "http://own:1";
    ASSERT_TRUE(use_environment_proxy(config, environment));
    EXPECT_EQ(config.http.proxy, "http://own:1");
}

TEST(InCluster, ReadsTheServiceAccount) {
    Files files;
    files.content = {{"/sa/ca.crt", "CA"}, {"/sa/namespace", "ns\n"}, {"/sa/token", "T"}};
    std::map<std::string, std::string> variables = {{"KUBERNETES_SERVICE_HOST", "fd00::1"},
                                                    {"KUBERNETES_SERVICE_PORT", "443"}};
    const Environment environment = [&](const std::string& name) -> std::optional<std::string> {
        const auto found = variables.find(name);
        return found == variables.end() ? std::nullopt : std::optional(found->second);
    };
    const auto config = load_in_cluster(environment, files.reader(), "/sa");
    ASSERT_TRUE(config) << config.error().message;
    EXPECT_EQ(config.value().http.endpoint, "https://[fd00::1]:443");
    EXPECT_FALSE(config.value().compress);
    EXPECT_EQ(config.value().ns, "ns");
    EXPECT_EQ(config.value().token_file, "/sa/token");
    EXPECT_EQ(config.value().files.ca, "/sa/ca.crt");
    files.content.erase("/sa/token");
    EXPECT_EQ(load_in_cluster(environment, files.reader(), "/sa").error().message,
              "the pod's service account: cannot open /sa/token");
    variables.erase("KUBERNETES_SERVICE_PORT");
    EXPECT_EQ(load_in_cluster(environment, files.reader(), "/sa").error().code, Code::not_found);
}

TEST(FileToken, IsReadAgainEachMinuteAndKeptWhenTheFileGoes) {
    test::VirtualLoop loop;
    Files files;
    files.content["/t"] = " one\n";
    const auto tokens = make_file_token(loop, "/t", "", files.reader());
    EXPECT_EQ(tokens->token().value(), "one");
    files.content["/t"] = "two";
    loop.run_for(59s);
    EXPECT_EQ(tokens->token().value(), "one");
    loop.run_for(1s);
    EXPECT_EQ(tokens->token().value(), "two");
    files.content.clear();
    loop.run_for(60s);
    EXPECT_EQ(tokens->token().value(), "two");
    files.content["/t"] = "\n";
    loop.run_for(60s);
    EXPECT_EQ(tokens->token().value(), "two");
    EXPECT_EQ(files.reads, 4);
}

TEST(FileToken, TellsEachTroubleOnceAndItsEnd) {
    test::VirtualLoop loop;
    Files files;
    files.content["/t"] = "one";
    std::vector<std::string> told;
    const auto tokens = make_file_token(loop, "/t", "", files.reader(), [&](const Error* problem) {
        told.push_back(problem == nullptr ? "good" : problem->message);
    });
    const auto look = [&] {
        const auto token = tokens->token();
        loop.run_for(60s);
        return token.has_value();
    };
    EXPECT_TRUE(look());
    files.content.clear();
    EXPECT_TRUE(look() && look() && look());
    EXPECT_EQ(tokens->trouble(), "cannot open /t");
    files.content["/t"] = "two";
    EXPECT_TRUE(look());
    EXPECT_EQ(tokens->trouble(), "");
    EXPECT_EQ(told, (std::vector<std::string>{"cannot open /t", "good"}));
}

TEST(FileToken, IsReadAtOnceWhenRefused) {
    test::VirtualLoop loop;
    Files files;
    files.content["/t"] = "one";
    const auto tokens = make_file_token(loop, "/t", "", files.reader());
    EXPECT_EQ(tokens->token().value(), "one");
    EXPECT_FALSE(tokens->refused("one"));
    files.content["/t"] = "two";
    EXPECT_TRUE(tokens->refused("one"));
    EXPECT_TRUE(tokens->refused("one"));  // renewed already
    EXPECT_EQ(tokens->token().value(), "two");
}

TEST(FileToken, ReportsWhyThereIsNone) {
    test::VirtualLoop loop;
    Files files;
    EXPECT_EQ(make_file_token(loop, "/t", "", files.reader())->token().error().message,
              "cannot open /t");
    files.content["/t"] = "a\r\nX-Evil: 1";
    EXPECT_EQ(make_file_token(loop, "/t", "", files.reader())->token().error().message,
              "token file /t holds no token");
    EXPECT_EQ(make_file_token(loop, "/u", "first", files.reader())->token().value(), "first");
}

struct StatusRow {
    const char* name;
    int status;
    const char* body;
    const char* retry_after;
    bool creating;
    Code code;
    int retry_after_ms;
};

class Statuses : public testing::TestWithParam<StatusRow> {};

TEST_P(Statuses, MapToCodes) {
    const StatusRow& row = GetParam();
    net::Headers headers;
    if (row.retry_after != nullptr) {
        headers.emplace_back("retry-after", row.retry_after);
    }
    const Error error = error_of_response(row.status, headers, row.body, row.creating);
    EXPECT_EQ(to_string(error.code), to_string(row.code));
    EXPECT_EQ(error.retry_after, std::chrono::milliseconds(row.retry_after_ms));
}

INSTANTIATE_TEST_SUITE_P(
    Rows,
    Statuses,
    testing::Values(
        StatusRow{"bad_request", 400, "", nullptr, false, Code::invalid, 0},
        StatusRow{"invalid",
                  422,
                  R"({"kind":"Status","reason":"Invalid","code":422})",
                  nullptr,
                  false,
                  Code::invalid,
                  0},
        StatusRow{"unauthorized", 401, "", nullptr, false, Code::forbidden, 0},
        StatusRow{"forbidden", 403, "", nullptr, false, Code::forbidden, 0},
        StatusRow{"not_found", 404, "404 page not found", nullptr, false, Code::not_found, 0},
        StatusRow{"exists",
                  409,
                  R"({"kind":"Status","reason":"AlreadyExists"})",
                  nullptr,
                  true,
                  Code::exists,
                  0},
        StatusRow{"conflict",
                  409,
                  R"({"kind":"Status","reason":"Conflict"})",
                  nullptr,
                  true,
                  Code::conflict,
                  0},
        StatusRow{"conflict_of_proxy", 409, "", nullptr, false, Code::conflict, 0},
        StatusRow{"exists_of_proxy", 409, "", nullptr, true, Code::exists, 0},
        StatusRow{"request_timeout", 408, "", nullptr, false, Code::unavailable, 0},
        StatusRow{"gone", 410, "", nullptr, false, Code::expired, 0},
        StatusRow{"too_large", 413, "", nullptr, false, Code::too_large, 0},
        StatusRow{"too_many", 429, "", "3", false, Code::overloaded, 3000},
        StatusRow{"too_many_silent", 429, "", nullptr, false, Code::overloaded, 0},
        StatusRow{"status_says_wait",
                  429,
                  R"({"kind":"Status","details":{"retryAfterSeconds":7}})",
                  "1",
                  false,
                  Code::overloaded,
                  7000},
        StatusRow{"retry_after_capped", 429, "", "999999999", false, Code::overloaded, 300000},
        StatusRow{"retry_after_negative", 429, "", "-5", false, Code::overloaded, 0},
        StatusRow{"unavailable", 503, "", nullptr, false, Code::unavailable, 0},
        StatusRow{"unavailable_wait", 503, "", "2", false, Code::overloaded, 2000},
        StatusRow{"internal", 500, "", nullptr, false, Code::unavailable, 0},
        StatusRow{"server_timeout",
                  500,
                  R"({"kind":"Status","reason":"ServerTimeout","details":{"retryAfterSeconds":1}})",
                  nullptr,
                  false,
                  Code::overloaded,
                  1000},
        StatusRow{"gateway_timeout", 504, "", nullptr, false, Code::timeout, 0}),
    [](const auto& row) { return row.param.name; });

TEST(Status, QuotesAndCutsServerText) {
    const Error error = error_of_response(
        422,
        {},
        R"({"kind":"Status","reason":"Invalid","message":"bad\nfield \u001b[31m"})",
        false);
    EXPECT_EQ(error.message, "422 Invalid: \"bad field  [31m\"");
    const std::string cut = quote_server_text(std::string(511, 'a') + "éz");
    EXPECT_EQ(cut, "\"" + std::string(511, 'a') + "…\"");
}

TEST(Status, A401IsNotCalledForbidden) {
    const Error plain = not_accepted(
        error_of_response(
            401,
            {},
            R"({"kind":"Status","reason":"Unauthorized","message":"Unauthorized","code":401})",
            false),
        "the token in /t");
    EXPECT_EQ(plain.message, "401 unauthenticated; the API server does not accept the token in /t");
    const Error outer = with_context(plain, "list leases");
    EXPECT_EQ(word_of(outer), "unauthenticated");
    EXPECT_EQ(refusal_text(outer, "list leases"),
              "unauthenticated: list leases; the API server does not accept the token in /t");
    EXPECT_EQ(error_of_response(401, {}, "token expired", false).message,
              "401 unauthenticated: \"token expired\"");
    const Error forbidden = error_of_response(403, {}, "no", false);
    EXPECT_EQ(word_of(forbidden), "forbidden");
    EXPECT_EQ(refusal_text(forbidden, "list leases"), "forbidden: list leases");
    EXPECT_EQ(not_accepted(forbidden, "the token in /t").message, forbidden.message);
}

TEST(Status, RecognisesALaggingServer) {
    const Error error = error_of_response(
        504,
        {},
        R"({"kind":"Status","reason":"Timeout","details":{"causes":[{"reason":"ResourceVersionTooLarge"}],"retryAfterSeconds":1}})",
        false);
    EXPECT_TRUE(is_too_large_resource_version(error));
    EXPECT_EQ(error.code, Code::timeout);
    EXPECT_FALSE(is_too_large_resource_version(error_of_response(504, {}, "", false)));
}

}  // namespace
}  // namespace capstan::kube
