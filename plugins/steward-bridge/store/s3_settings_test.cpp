#include "plugins/steward-bridge/store/s3_settings.hpp"

#include "plugins/steward-bridge/store/encoding.hpp"
#include "plugins/steward-bridge/store/fake_s3.hpp"
#include "plugins/steward-bridge/store/s3_access.hpp"
#include "plugins/steward-bridge/store/store_config.hpp"
#include "plugins/steward-bridge/store/store_testing.hpp"
#include "plugins/steward-bridge/stream/testing_digest.hpp"

#include <filesystem>
#include <fstream>

namespace capstan::steward {
namespace {

using namespace testing;
using namespace std::chrono_literals;

class S3SettingsTest : public ::testing::Test {
protected:
    S3SettingsTest() {
        std::string name =
            (std::filesystem::temp_directory_path() / "capstan-settings-XXXXXX").string();
        directory = ::mkdtemp(name.data());
    }
    ~S3SettingsTest() override { std::filesystem::remove_all(directory); }
    std::string put(const std::string& name, const std::string& text) {
        std::ofstream(directory + "/" + name) << text;
        return directory + "/" + name;
    }
    Environment environment() {
        return [this](const std::string& name) { return variables[name]; };
    }
    Result<S3Settings> load(std::string_view prefix = "") {
        return load_s3_settings(environment(), prefix);
    }

    std::string directory;
    std::map<std::string, std::string> variables;
};

TEST_F(S3SettingsTest, DirectoryHasAFilePerField) {
    for (const auto& [name, text] :
         std::map<std::string, std::string>{{"region", "eu-1\n"},
                                            {"accessKeyID", "key\r\n"},
                                            {"secretAccessKey", " se cret \n\n"},
                                            {"endpoint", "https://files:9000\n"},
                                            {"s3ForcePathStyle", "T\n"},
                                            {"insecureSkipVerify", "1"},
                                            {"requestChecksumCalculation", "When_Required"},
                                            {"bucketName", "ignored"},
                                            {"..data", "no field"}}) {
        put(name, text);
    }
    variables["AWS_APPLICATION_CREDENTIALS"] = directory;
    variables["AWS_ACCESS_KEY_ID"] = "not this one";
    const auto got = load();
    STORE_OK(got);
    const S3Settings& settings = got.value();
    EXPECT_EQ(settings.region, "eu-1");
    EXPECT_EQ(settings.keys, (Credentials{"key", "se cret", ""}));
    EXPECT_EQ(settings.endpoint, "https://files:9000");
    EXPECT_TRUE(settings.path_style);
    EXPECT_TRUE(settings.insecure);
    EXPECT_EQ(settings.origin, "directory " + directory);
    // Trusted roots win over no verification.
    put("trustedCaCert", "-----BEGIN CERTIFICATE-----\n");
    EXPECT_FALSE(load().value().insecure);
    EXPECT_EQ(load().value().ca_pem, "-----BEGIN CERTIFICATE-----");
}

TEST_F(S3SettingsTest, JsonFileOfADirectoryWinsOverItsFields) {
    put("region", "eu-1");
    put("a.json", R"({"region":"eu-2","accessKeyID":"k","secretAccessKey":"s\n",
                      "s3ForcePathStyle":true,"insecureSkipVerify":false,"trustedCaCert":null})");
    put("b.json", "not looked at");
    variables["AWS_APPLICATION_CREDENTIALS"] = directory;
    const auto got = load();
    STORE_OK(got);
    EXPECT_EQ(got.value().region, "eu-2");
    EXPECT_EQ(got.value().keys.secret_key, "s");
    EXPECT_TRUE(got.value().path_style);
    EXPECT_EQ(got.value().origin, "file " + directory + "/a.json");
}

TEST_F(S3SettingsTest, JsonVariableWinsAndRolesHaveTheirOwnVariables) {
    variables["AWS_APPLICATION_CREDENTIALS"] = "/nonexistent";
    variables["AWS_APPLICATION_CREDENTIALS_JSON"] =
        put("one.json", R"({"region":"r1","accessKeyID":"k","secretAccessKey":"s"})");
    variables["SOURCE_AWS_APPLICATION_CREDENTIALS_JSON"] =
        put("two.json", R"({"roleARN":"arn:r","tokenPath":"/t"})");
    variables["AWS_REGION"] = "from-environment";
    EXPECT_EQ(load().value().region, "r1");
    const auto source = load("SOURCE_");
    STORE_OK(source);
    EXPECT_EQ(source.value().role_arn, "arn:r");
    EXPECT_EQ(source.value().token_path, "/t");
    EXPECT_EQ(source.value().region, "from-environment");
    STORE_FAILS(load("SECONDARY_"), Code::invalid, "no access key and no role");
}

TEST_F(S3SettingsTest, VariablesOfAwsServeWhenNothingElseIsSet) {
    variables = {{"AWS_DEFAULT_REGION", "r"},
                 {"AWS_ROLE_ARN", "arn:x"},
                 {"AWS_WEB_IDENTITY_TOKEN_FILE", "/token"},
                 {"AWS_ENDPOINT_URL_S3", "https://s3.test"},
                 {"AWS_ROLE_SESSION_NAME", "me"}};
    const auto got = load();
    STORE_OK(got);
    EXPECT_EQ(got.value().role_arn + got.value().token_path + got.value().session_name,
              "arn:x/tokenme");
    EXPECT_EQ(got.value().endpoint, "https://s3.test");
    variables["AWS_ACCESS_KEY_ID"] = "k";
    STORE_FAILS(load(), Code::invalid, "without its secret key");
    variables["AWS_SECRET_ACCESS_KEY"] = "s";
    variables["AWS_SESSION_TOKEN"] = "t";
    EXPECT_EQ(load().value().keys, (Credentials{"k", "s", "t"}));
}

struct BadField {
    std::string name, field, text, says;
};
class S3SettingsRefusals : public S3SettingsTest, public ::testing::WithParamInterface<BadField> {};

TEST_P(S3SettingsRefusals, NameFileAndField) {
    put("region", "eu-1");
    put("accessKeyID", "key");
    put("secretAccessKey", "a-secret-that-stays-here");
    variables["AWS_APPLICATION_CREDENTIALS"] = directory;
    put(GetParam().field, GetParam().text);
    const auto got = load();
    STORE_FAILS(got, Code::invalid, GetParam().says);
    EXPECT_NE(got.error().message.find(directory), std::string::npos) << got.error().message;
    EXPECT_EQ(got.error().message.find("a-secret"), std::string::npos) << got.error().message;
}

INSTANTIATE_TEST_SUITE_P(
    Fields,
    S3SettingsRefusals,
    ::testing::Values(
        BadField{"region", "region", "\n", "\"region\" is missing"},
        BadField{"secret", "secretAccessKey", "", "are needed"},
        BadField{"flag", "s3ForcePathStyle", "yes", "neither true nor false"},
        BadField{"checksum", "responseChecksumValidation", "always", "when_supported"},
        BadField{"sse_alone", "sseCustomerKey", "x", "go together"},
        BadField{"json", "x.json", "{\"accessKeyID\": \"a-secret", "not a JSON object"},
        BadField{"json_number", "x.json", R"({"region":1})", "\"region\" is no text"}),
    [](const auto& row) { return row.param.name; });

// Nobody who reads a condition has the pod's directories and variables.
TEST_F(S3SettingsTest, AStewardInAPodNamesTheSecretAndItsKeys) {
    constexpr const char* kField = "spec.backup.store.secretRef of Etcd shop/main";
    variables["CAPSTAN_ETCD_NAME"] = "main";
    variables["POD_NAMESPACE"] = "shop";
    variables["AWS_APPLICATION_CREDENTIALS"] = directory;
    const auto refused = [&](const std::string& what) {
        const auto got = load();
        ASSERT_FALSE(got);
        const std::string& said = got.error().message;
        EXPECT_NE(said.find(kField), std::string::npos) << said;
        EXPECT_NE(said.find(what), std::string::npos) << said;
        EXPECT_EQ(said.find(directory), std::string::npos) << said;
        EXPECT_EQ(said.find("AWS_"), std::string::npos) << said;
    };
    refused("the key \"region\" is missing");
    put("region", "eu-1");
    put("accessKeyID", "key");
    refused("the keys \"accessKeyID\" and \"secretAccessKey\"");
    put("secretAccessKey", "secret");
    STORE_OK(load());
    EXPECT_EQ(load().value().origin, std::string("the Secret in ") + kField);
    variables["AWS_APPLICATION_CREDENTIALS"] = directory + "/none";
    refused("is not mounted");
    variables.erase("AWS_APPLICATION_CREDENTIALS");
    refused("set the key \"region\"");
    variables["AWS_REGION"] = "eu-1";
    refused("name a Secret with the keys");
}

TEST_F(S3SettingsTest, CustomersKeyIsTakenAsItIsOrInBase64) {
    put("region", "eu-1");
    put("accessKeyID", "key");
    put("secretAccessKey", "s");
    put("sseCustomerAlgorithm", "AES256");
    variables["AWS_APPLICATION_CREDENTIALS"] = directory;
    const std::string key = "0123456789abcdef0123456789abcdef";
    for (const std::string& written : {key, to_base64(key) + "\n"}) {
        put("sseCustomerKey", written);
        EXPECT_EQ(load().value().sse_key, key);
    }
    put("sseCustomerKey", "short");
    STORE_FAILS(load(), Code::invalid, "32 bytes");
    put("sseCustomerKey", key);
    put("sseCustomerAlgorithm", "DES");
    STORE_FAILS(load(), Code::invalid, "AES256");
}

TEST_F(S3SettingsTest, MissingPlacesAreNamed) {
    variables["AWS_APPLICATION_CREDENTIALS"] = directory + "/none";
    STORE_FAILS(load(), Code::not_found, directory + "/none");
    variables["AWS_APPLICATION_CREDENTIALS_JSON"] = directory + "/none.json";
    STORE_FAILS(load(), Code::not_found, "none.json");
}

struct AddressRow {
    std::string name, endpoint, bucket;
    bool path_style;
    std::string expected;  // base + path; "!…": refused
};
class S3Addresses : public ::testing::TestWithParam<AddressRow> {};

TEST_P(S3Addresses, AreThoseOfAwsOrTheEndpoints) {
    S3Settings settings;
    settings.region = GetParam().name == "china" ? "cn-north-1" : "eu-1";
    settings.endpoint = GetParam().endpoint;
    settings.path_style = GetParam().path_style;
    const auto got = address_of(settings, GetParam().bucket);
    if (GetParam().expected.starts_with('!')) {
        STORE_FAILS(got, Code::invalid, GetParam().expected.substr(1));
        return;
    }
    STORE_OK(got);
    EXPECT_EQ(got.value().base + got.value().path_prefix, GetParam().expected);
    EXPECT_EQ(got.value().base.substr(got.value().base.find("://") + 3), got.value().host);
}

INSTANTIATE_TEST_SUITE_P(
    Rows,
    S3Addresses,
    ::testing::Values(
        AddressRow{"aws", "", "bkt", false, "https://bkt.s3.eu-1.amazonaws.com"},
        AddressRow{"aws_path", "", "bkt", true, "https://s3.eu-1.amazonaws.com/bkt"},
        AddressRow{"china", "", "bkt", false, "https://bkt.s3.cn-north-1.amazonaws.com.cn"},
        AddressRow{"dots", "", "b.k", false, "https://s3.eu-1.amazonaws.com/b.k"},
        AddressRow{"dots_plain", "http://s", "b.k", false, "http://b.k.s"},
        AddressRow{"upper", "", "Bkt", false, "https://s3.eu-1.amazonaws.com/Bkt"},
        AddressRow{"override", "https://s3.test:9000/", "bkt", false, "https://bkt.s3.test:9000"},
        AddressRow{"usual_port", "https://s3.test:443", "bkt", false, "https://bkt.s3.test"},
        AddressRow{"other_usual_port", "http://s3.test:443", "b", false, "http://b.s3.test:443"},
        AddressRow{"below_a_path", "https://s3.test/x/", "bkt", true, "https://s3.test/x/bkt"},
        AddressRow{"ip", "http://127.0.0.1:1", "bkt", false, "http://127.0.0.1:1/bkt"},
        AddressRow{"ipv6", "http://[::1]:1", "bkt", false, "http://[::1]:1/bkt"},
        AddressRow{"no_scheme", "s3.test", "bkt", false, "!no http or https URL"},
        AddressRow{"ftp", "ftp://s3.test", "bkt", false, "!no http or https URL"},
        AddressRow{"user", "https://u:p@s3.test", "bkt", false, "!more than host"},
        AddressRow{"query", "https://s3.test?x", "bkt", false, "!more than host"},
        AddressRow{"no_host", "https:///x", "bkt", false, "!no host"},
        AddressRow{"bucket_slash", "", "a/b", false, "!no bucket's name"},
        AddressRow{"bucket_empty", "", "", false, "!no bucket's name"}),
    [](const auto& row) { return row.param.name; });

// STS as another endpoint: answers are planned.
class StsTransport final : public Transport {
public:
    class Exchange final : public HttpExchange {
    public:
        Exchange(StsTransport& sts, int status, std::string body)
            : sts_(sts), status_(status), body_(std::move(body)) {}
        Result<void> write(std::string_view bytes) override {
            sts_.bodies.emplace_back(bytes);
            return ok();
        }
        Result<HttpHead> head() override { return HttpHead{status_, {}}; }
        Result<std::size_t> read(std::span<char> into) override {
            const std::size_t n = std::min(into.size(), body_.size());
            std::copy_n(body_.begin(), n, into.begin());
            body_.erase(0, n);
            return n;
        }

    private:
        StsTransport& sts_;
        const int status_;
        std::string body_;
    };
    Result<std::unique_ptr<HttpExchange>> open(const HttpRequest& request, std::int64_t) override {
        urls.push_back(request.url);
        tls = request.tls;
        if (answers.empty()) {
            return fail(Code::unavailable, "connection refused");
        }
        auto [status, body] = answers.front();
        answers.erase(answers.begin());
        return std::unique_ptr<HttpExchange>(
            std::make_unique<Exchange>(*this, status, std::move(body)));
    }
    HttpTls tls;  // of the last request
    void give(const std::string& key, WallTime until) {
        answers.emplace_back(
            200,
            "<AssumeRoleWithWebIdentityResponse "
            "xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">"
            "<AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>" +
                key +
                "</AccessKeyId><SecretAccessKey>secret</SecretAccessKey><SessionToken>token-" +
                key + "</SessionToken><Expiration>" + to_rfc3339(until) +
                "</Expiration></Credentials></AssumeRoleWithWebIdentityResult>"
                "</AssumeRoleWithWebIdentityResponse>");
    }
    std::vector<std::pair<int, std::string>> answers;
    std::vector<std::string> urls, bodies;
};

class WebIdentity : public S3SettingsTest {
protected:
    WebIdentity() {
        put("region", "eu-1");
        put("roleARN", "arn:aws:iam::1:role/etcd\n");
        put("token", "header.payload+\n");
        variables["AWS_APPLICATION_CREDENTIALS"] = directory;
    }
    Result<S3Access> open() {
        return S3Access::open({environment(), "", "", digests, sts, pace}, "bkt");
    }
    TestingDigests digests;
    FakePace pace;
    StsTransport sts;
};

TEST_F(WebIdentity, WhatACommandLineSaysWins) {
    const std::string ca = put("ca.pem", "roots");
    std::ofstream(directory + "/insecureSkipVerify") << "true";
    S3Parts parts{environment(), "", "https://s3.test", digests, sts, pace, {"eu-9", ca, true}};
    const auto access = S3Access::open(parts, "bkt");
    STORE_OK(access);
    EXPECT_EQ(access.value().settings().region, "eu-9");
    EXPECT_EQ(access.value().tls().ca_pem, "roots");
    EXPECT_FALSE(access.value().tls().insecure) << "roots that are named are obeyed";
    EXPECT_EQ(access.value().address().path_prefix, "/bkt");
    parts.overrides.ca_file = directory + "/none";
    STORE_FAILS(S3Access::open(parts, "bkt"), Code::not_found, "none");
}

TEST_F(WebIdentity, IsAskedOnceAndBeforeTheKeysEnd) {
    auto access = open();
    STORE_OK(access);
    sts.give("one", pace.now + 1h);
    EXPECT_EQ(access.value().credentials().value(), (Credentials{"one", "secret", "token-one"}));
    pace.now += 54min;
    EXPECT_EQ(access.value().credentials().value().access_key, "one");
    EXPECT_EQ(sts.urls, std::vector<std::string>{"https://sts.eu-1.amazonaws.com/"});
    EXPECT_EQ(sts.bodies[0],
              "Action=AssumeRoleWithWebIdentity&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fetcd&"
              "RoleSessionName=capstan-steward&Version=2011-06-15&"
              "WebIdentityToken=header.payload%2B");
    put("token", "rotated");
    pace.now += 2min;
    sts.give("two", pace.now + 1h);
    EXPECT_EQ(access.value().credentials().value().access_key, "two");
    EXPECT_TRUE(sts.bodies[1].ends_with("WebIdentityToken=rotated"));
    // Refused by the store: asked again at once.
    EXPECT_TRUE(access.value().renew());
    sts.give("three", pace.now + 1h);
    EXPECT_EQ(access.value().credentials().value().access_key, "three");
}

// The web identity token goes to nobody whose certificate is not verified.
TEST_F(WebIdentity, WhatIsSaidOfTheStoresCertificateIsNotSaidOfSts) {
    put("insecureSkipVerify", "true");
    auto access = open();
    STORE_OK(access);
    sts.give("one", pace.now + 1h);
    STORE_OK(access.value().credentials());
    EXPECT_TRUE(access.value().tls().insecure);
    EXPECT_FALSE(sts.tls.insecure);
    std::filesystem::remove(directory + "/insecureSkipVerify");
    put("trustedCaCert", "roots");
    access.value().renew();
    sts.give("two", pace.now + 1h);
    STORE_OK(access.value().credentials());
    EXPECT_EQ(access.value().tls().ca_pem, "roots");
    EXPECT_EQ(sts.tls.ca_pem, "") << "Amazon's has a public certificate";
    variables["AWS_ENDPOINT_URL_STS"] = "https://sts.test";
    access.value().renew();
    sts.give("three", pace.now + 1h);
    STORE_OK(access.value().credentials());
    EXPECT_EQ(sts.urls.back(), "https://sts.test/");
    EXPECT_EQ(sts.tls.ca_pem, "roots") << "one of the store's own";
}

TEST_F(WebIdentity, OldKeysServeToTheirEndWhenStsIsAway) {
    auto access = open();
    STORE_OK(access);
    sts.give("one", pace.now + 1h);
    STORE_OK(access.value().credentials());
    pace.now += 57min;
    EXPECT_EQ(access.value().credentials().value().access_key, "one");
    pace.now += 4min;
    STORE_FAILS(access.value().credentials(), Code::unavailable, "refused");
}

TEST_F(WebIdentity, RefusalsNameRoleAndRemedy) {
    auto access = open();
    STORE_OK(access);
    sts.answers = {{403,
                    "<ErrorResponse><Error><Code>AccessDenied</Code><Message>Not authorized"
                    "</Message></Error></ErrorResponse>"}};
    STORE_FAILS(access.value().credentials(), Code::forbidden, "\"AccessDenied: Not authorized\"");
    sts.answers = {{503, ""}, {200, "<x/>"}};
    STORE_FAILS(access.value().credentials(), Code::invalid, "holds no keys");
    EXPECT_EQ(pace.sleeps.size(), 1u);
    std::filesystem::remove(directory + "/token");
    STORE_FAILS(access.value().credentials(), Code::not_found, "web identity token");
}

class StoreConfigTest : public S3SettingsTest {
protected:
    Result<std::unique_ptr<ObjectStore>> open(const StoreConfig& config, bool home = true) {
        StoreParts parts{environment(), digests, sts, pace};
        parts.home = home ? directory : "";
        return open_store(config, parts);
    }
    TestingDigests digests;
    FakePace pace;
    StsTransport sts;
};

TEST_F(StoreConfigTest, SpecOfDruidIsRead) {
    const json::Value spec = {{"provider", "aws"},
                              {"container", "bkt"},
                              {"prefix", "/etcd-main/"},
                              {"endpointOverride", "https://s3.test"},
                              {"secretRef", {{"name", "x"}}}};
    const auto config = StoreConfig::parse_spec(json::View(spec));
    STORE_OK(config);
    EXPECT_EQ(config.value().provider, "S3");
    EXPECT_EQ(config.value().prefix, "etcd-main");
    variables = {{"AWS_REGION", "r"}, {"AWS_ACCESS_KEY_ID", "k"}, {"AWS_SECRET_ACCESS_KEY", "s"}};
    const auto store = open(config.value());
    STORE_OK(store);
    EXPECT_EQ(store.value()->describe(), "bucket bkt at https://bkt.s3.test");
    const json::Value wrong = {{"provider", "floppy"}};
    STORE_FAILS(StoreConfig::parse_spec(json::View(wrong)), Code::invalid, "/provider");
    const json::Value none = {{"prefix", "p"}, {"provider", nullptr}};
    EXPECT_EQ(StoreConfig::parse_spec(json::View(none)).value().provider, "");
}

TEST_F(StoreConfigTest, FlagsOfTheSidecarAreTaken) {
    StoreConfig config;
    config.role = StoreRole::source;
    for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{
             {"storage-provider", "S3"},
             {"store-prefix", "p"},
             {"store-endpoint-override", "http://127.0.0.1:9"},
             {"min-chunk-size", "6291456"},
             {"max-parallel-chunk-uploads", "5"},
             {"snapstore-temp-directory", "/tmp"}}) {
        EXPECT_TRUE(config.take_flag(name, value).value()) << name;
    }
    EXPECT_FALSE(config.take_flag("endpoints", "x").value());
    STORE_FAILS(config.take_flag("min-chunk-size", "5242879"), Code::invalid, "5242880");
    STORE_FAILS(config.take_flag("min-chunk-size", "6Mi"), Code::invalid, "6Mi");
    STORE_FAILS(config.take_flag("storage-provider", "s4"), Code::invalid, "S3 and Local");
    variables = {{"AWS_REGION", "r"}, {"AWS_ACCESS_KEY_ID", "k"}, {"AWS_SECRET_ACCESS_KEY", "s"}};
    config.min_chunk_bytes = 6'291'456;
    STORE_FAILS(open(config), Code::invalid, "SOURCE_STORAGE_CONTAINER");
    variables["SOURCE_STORAGE_CONTAINER"] = "from-variable";
    EXPECT_EQ(open(config).value()->describe(), "bucket from-variable at http://127.0.0.1:9");
}

TEST_F(StoreConfigTest, LocalContainersAreBelowHomeInTheSidecar) {
    StoreConfig config;
    config.provider = "Local";
    EXPECT_EQ(open(config).value()->describe(), "directory " + directory + "/default.bkp");
    config.container = "/backups/x";
    EXPECT_EQ(open(config).value()->describe(), "directory " + directory + "/backups/x");
    config.container = directory + "/as-it-is";
    EXPECT_EQ(open(config, false).value()->describe(), "directory " + directory + "/as-it-is");
}

TEST_F(StoreConfigTest, ARegionOfACommandLineIsEnough) {
    variables = {{"AWS_ACCESS_KEY_ID", "key"}, {"AWS_SECRET_ACCESS_KEY", "secret"}};
    StoreConfig config;
    config.provider = "S3";
    config.container = "bkt";
    STORE_FAILS(open(config), Code::invalid, "no region");
    config.overrides.region = "eu-9";
    const auto store = open(config);
    STORE_OK(store);
    EXPECT_EQ(store.value()->describe(), "bucket bkt at https://bkt.s3.eu-9.amazonaws.com");
}

TEST_F(StoreConfigTest, OtherProvidersAreNotSupportedYet) {
    for (const char* name : {"ABS", "gcp", "openstack", "OSS", "dell", "openshift"}) {
        StoreConfig config;
        STORE_OK(config.take_flag("storage-provider", name));
        STORE_FAILS(open(config), Code::unsupported, config.provider + " is not supported yet");
    }
    STORE_FAILS(open({}), Code::invalid, "no storage provider");
}

}  // namespace
}  // namespace capstan::steward
