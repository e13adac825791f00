// The answers of a real API server (test/data/crd-cases) against our structural schemas.
#include "runtime/local/apiserver/schema_structural.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

namespace capstan::local {
namespace {

// Cases only a CEL rule refuses. The rules are not evaluated yet: these objects pass here and
// fail on a real server.
constexpr int kCelOnlyCases = 39;
constexpr int kSchemaCases = 88;
constexpr int kAcceptCases = 51;

json::Value read(const std::string& name) {
    const char* dir = std::getenv("CAPSTAN_TEST_DATA");
    const std::string path = std::string(dir == nullptr ? "test/data" : dir) + "/crd-cases/" + name;
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    auto value = json::parse(text.str());
    EXPECT_TRUE(value.has_value()) << path << ": " << value.error().message;
    return value ? std::move(value).value() : json::Value();
}

class CrdCases : public testing::Test {
protected:
    void SetUp() override {
        for (const char* plural : {"etcds", "etcdopstasks", "etcdcopybackupstasks"}) {
            const json::Value crd = read(std::string("crd-") + plural + ".json");
            const json::Value* schema = crd.pointer("/spec/versions/0/schema/openAPIV3Schema");
            ASSERT_NE(schema, nullptr) << plural;
            auto compiled = StructuralSchema::compile(*schema);
            ASSERT_TRUE(compiled.has_value()) << compiled.error().message;
            schemas_.emplace(crd.pointer("/spec/names/kind")->if_string()->c_str(),
                             std::move(compiled).value());
        }
        cases_ = read("cases.json");
        ASSERT_TRUE(cases_.is_array());
    }

    // As a create or update does it: prune, default, validate.
    std::vector<FieldError> answer(json::Value object) const {
        const StructuralSchema& schema =
            schemas_.at(std::string(json::View(object)["kind"].string_or("")));
        schema.prune(object);
        schema.apply_defaults(object);
        return schema.validate(object);
    }

    std::map<std::string, StructuralSchema> schemas_;
    json::Value cases_;
};

// Our errors must be the head of the server's list; what follows there comes from CEL and from
// the scale subresource.
void expect_head(const std::vector<FieldError>& errors, std::string message, std::string_view id) {
    std::string ours;
    for (const FieldError& error : errors) {
        ours += (ours.empty() ? "" : ", ") + error.text();
    }
    if (message.starts_with('[')) {
        message.erase(0, 1);
    }
    if (message.ends_with("...")) {
        message.resize(message.size() - 3);
        ours = ours.substr(0, message.size());
    }
    EXPECT_TRUE(message.starts_with(ours)) << id << "\n ours: " << ours << "\n real: " << message;
}

TEST_F(CrdCases, AnswersAsTheRealServer) {
    std::map<std::string, int> count;
    for (const json::Value& row : *cases_.if_array()) {
        const json::View view(row);
        const std::string id(view["id"].string_or(""));
        const std::string by(view["checkedBy"].string_or(view["expect"].string_or("")));
        ++count[by];
        const json::Value* update = row.find("update");
        if (update != nullptr || row.find("status") != nullptr) {
            EXPECT_TRUE(answer(*row.find("object")).empty()) << id << ": the first step succeeds";
        }
        if (const json::Value* status = row.find("status")) {
            json::Value object = *row.find("object");
            object.set("status", *status);
            EXPECT_TRUE(answer(std::move(object)).empty()) << id << ": the status step succeeds";
        }
        const std::vector<FieldError> errors =
            answer(update != nullptr ? *update : *row.find("object"));
        if (by == "schema") {
            ASSERT_FALSE(errors.empty())
                << id << ": accepted, but " << view["message"].string_or("");
            EXPECT_EQ(errors.front().field, view["field"].string_or("")) << id;
            expect_head(errors, std::string(view["message"].string_or("")), id);
        } else {
            EXPECT_TRUE(errors.empty()) << id << ": " << join_field_errors(errors);
        }
    }
    EXPECT_EQ(count["schema"], kSchemaCases);
    EXPECT_EQ(count["accept"], kAcceptCases);
    EXPECT_EQ(count["cel"], kCelOnlyCases);
    EXPECT_EQ(count["metadata"], 1);
}

TEST_F(CrdCases, ListsTheRulesNobodyEvaluates) {
    std::size_t rules = 0;
    for (const auto& [kind, schema] : schemas_) {
        rules += schema.cel_rules().size();
    }
    EXPECT_EQ(schemas_.at("EtcdOpsTask").cel_rules().front().path, "spec.config");
    EXPECT_EQ(rules, 31u);
}

}  // namespace
}  // namespace capstan::local
