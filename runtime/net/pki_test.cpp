#include "runtime/net/pki.hpp"

#include <gtest/gtest.h>

namespace capstan::net {
namespace {

Validity year() {
    return {*parse_rfc3339("2026-01-01T00:00:00Z"), *parse_rfc3339("2027-01-01T00:00:00Z")};
}

TEST(Pki, MakesACa) {
    const KeyPair ca = make_ca("capstan test", year()).value();
    const CertificateInfo info = read_certificate(ca.certificate_pem).value();
    EXPECT_EQ(info.common_name, "capstan test");
    EXPECT_TRUE(info.is_ca);
    EXPECT_EQ(to_rfc3339(info.validity.not_after), "2027-01-01T00:00:00Z");
    EXPECT_NE(ca.key_pem.find("BEGIN PRIVATE KEY"), std::string::npos);
}

TEST(Pki, IssuesCertificatesWithNamesAndGroups) {
    const KeyPair ca = make_ca("ca", year()).value();
    const CertificateOptions options{
        .common_name = "admin",
        .organizations = {"system:masters", "b"},
        .dns_names = {"localhost", "a,DNS:evil"},
        .ip_addresses = {"127.0.0.1", "::1"},
        .server = true,
        .client = true,
    };
    const KeyPair pair = issue_certificate(ca, options, year()).value();
    const CertificateInfo info = read_certificate(pair.certificate_pem).value();
    EXPECT_EQ(info.common_name, "admin");
    EXPECT_EQ(info.organizations, options.organizations);
    EXPECT_EQ(info.dns_names, options.dns_names) << "a comma adds no name";
    EXPECT_EQ(info.ip_addresses, options.ip_addresses);
    EXPECT_FALSE(info.is_ca);
}

TEST(Pki, RefusesBadInput) {
    const KeyPair ca = make_ca("ca", year()).value();
    const KeyPair other = make_ca("ca", year()).value();
    const CertificateOptions good{.common_name = "x"};
    EXPECT_EQ(make_ca(std::string(65, 'x'), year()).error().code, Code::invalid);
    EXPECT_EQ(make_ca("", year()).error().code, Code::invalid);
    EXPECT_EQ(
        issue_certificate(ca, {.common_name = "x", .ip_addresses = {"1.2.3"}}, year()).error().code,
        Code::invalid);
    EXPECT_EQ(issue_certificate({"x", "y"}, good, year()).error().code, Code::invalid);
    EXPECT_EQ(issue_certificate({ca.certificate_pem, other.key_pem}, good, year()).error().code,
              Code::invalid);
    EXPECT_EQ(read_certificate("").error().code, Code::invalid);
}

TEST(Pki, MakesSigningKeys) {
    const SigningKey key = make_signing_key().value();
    EXPECT_NE(key.private_pem.find("BEGIN PRIVATE KEY"), std::string::npos);
    EXPECT_NE(key.public_pem.find("BEGIN PUBLIC KEY"), std::string::npos);
}

}  // namespace
}  // namespace capstan::net
