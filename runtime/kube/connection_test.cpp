#include "runtime/kube/connection.hpp"

#include "runtime/kube/status.hpp"

#include <gtest/gtest.h>

#include <string>

namespace capstan::kube {
namespace {

struct RefusalRow {
    const char* name;
    int status;
    const char* message;
    bool remedy;
};

class RefusalOfTheServer : public testing::TestWithParam<RefusalRow> {};

TEST_P(RefusalOfTheServer, NamesTheRemedyWhereARightIsMissing) {
    const auto loop = net::make_loop();
    ConnectionConfig config;
    config.http.endpoint = "http://127.0.0.1:1";  // nothing is sent
    ConnectionOptions options;
    options.rights_remedy = "ask for more";
    const auto connection = Connection::open(*loop, std::move(config), std::move(options));
    ASSERT_TRUE(connection) << connection.error().message;
    const RefusalRow& row = GetParam();
    const std::string body =
        R"({"kind":"Status","reason":"Forbidden","message":")" + std::string(row.message) + R"("})";
    const Error error = connection.value()->explain(error_of_response(row.status, {}, body, false));
    EXPECT_EQ(error.message.ends_with("; remedy: ask for more"), row.remedy) << error.message;
}

INSTANTIATE_TEST_SUITE_P(
    Rows,
    RefusalOfTheServer,
    testing::Values(
        RefusalRow{
            "right",
            403,
            R"(jobs.batch is forbidden: User \"u\" cannot list resource \"jobs\" in API group \"batch\" at the cluster scope)",
            true},
        RefusalRow{"quota", 403, "exceeded quota: small, requested: pods=1", false},
        RefusalRow{"ending", 403, "unable to create new content in namespace a", false},
        RefusalRow{"object", 422, "a cannot be a resource of b", false}),
    [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace capstan::kube
