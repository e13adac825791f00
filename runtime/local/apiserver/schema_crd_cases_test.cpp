// The answers of a real API server (test/data/crd-cases) against our structural schemas.
#include "runtime/local/apiserver/schema_structural.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

namespace capstan::local {
namespace {

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
    std::vector<FieldError> answer(json::Value object, const json::Value* old = nullptr) const {
        const StructuralSchema& schema =
            schemas_.at(std::string(json::View(object)["kind"].string_or("")));
        schema.prune(object);
        schema.apply_defaults(object);
        json::Value before = old == nullptr ? json::Value() : *old;
        schema.prune(before);
        schema.apply_defaults(before);
        return schema.validate(object, old == nullptr ? nullptr : &before);
    }

    std::map<std::string, StructuralSchema> schemas_;
    json::Value cases_;
};

// Our errors must be the server's list. The field behind the scale subresource is checked by who
// serves that.
void expect_same(const std::vector<FieldError>& errors, std::string message, std::string_view id) {
    std::string ours = join_field_errors(errors);
    if (const std::size_t at = message.find(".spec.replicas: ");
        at != std::string::npos && (at == 1 || message[at - 1] == ' ')) {
        const std::size_t next = std::min(message.find(", <nil>", at), message.find(", spec.", at));
        message.erase(at, next + 2 - at);
        if (errors.size() == 1) {
            message = message.substr(1, message.size() - 2);
        }
    }
    if (message.ends_with("...")) {
        message.resize(message.size() - 3);
        ours = ours.substr(0, message.size());
    }
    EXPECT_EQ(ours, message) << id;
}

TEST_F(CrdCases, AnswersAsTheRealServer) {
    std::map<std::string, int> count;
    for (const json::Value& row : *cases_.if_array()) {
        const json::View view(row);
        const std::string id(view["id"].string_or(""));
        const std::string by(view["checkedBy"].string_or(view["expect"].string_or("")));
        ++count[by];
        const json::Value* update = row.find("update");
        json::Value live = *row.find("object");
        if (const json::Value* status = row.find("status")) {
            json::Value changed = live;
            changed.set("status", *status);
            EXPECT_TRUE(answer(changed, &live).empty()) << id << ": the status step succeeds";
            live = std::move(changed);
        }
        std::vector<FieldError> errors = answer(*row.find("object"));
        if (update != nullptr) {
            EXPECT_TRUE(errors.empty()) << id << ": the first step succeeds";
            json::Value changed = *update;
            if (const json::Value* status = live.find("status");
                status != nullptr && changed.find("status") == nullptr) {
                changed.set("status", *status);
            }
            errors = answer(std::move(changed), &live);
        }
        if (by == "schema" || by == "cel") {
            ASSERT_FALSE(errors.empty())
                << id << ": accepted, but " << view["message"].string_or("");
            expect_same(errors, std::string(view["message"].string_or("")), id);
        } else {
            EXPECT_TRUE(errors.empty()) << id << ": " << join_field_errors(errors);
        }
    }
    EXPECT_EQ(count["schema"], kSchemaCases);
    EXPECT_EQ(count["accept"], kAcceptCases);
    EXPECT_EQ(count["cel"], kCelOnlyCases);
    EXPECT_EQ(count["metadata"], 1);
}

TEST_F(CrdCases, ListsTheRules) {
    std::size_t rules = 0;
    for (const auto& [kind, schema] : schemas_) {
        rules += schema.cel_rules().size();
    }
    EXPECT_EQ(schemas_.at("EtcdOpsTask").cel_rules().front().path, "spec.config");
    EXPECT_EQ(rules, 31u);
}

}  // namespace
}  // namespace capstan::local
