// Selectors in a URL or a manifest. Three parsers, one language: the SDK's, that of the cache and
// that of the embedded API server must agree, and print what they understood.
#include "capstan/label_selector.hpp"
#include "runtime/kube/selector.hpp"
#include "runtime/local/apiserver/selectors.hpp"
#include "test/fuzz/fuzz.hpp"

#include <string>
#include <vector>

namespace capstan {
namespace {

using fuzz::require;

const std::vector<json::Value>& labels() {
    static const std::vector<json::Value> all = {
        json::object(),
        {{"a", "b"}},
        {{"a", "5"}, {"app", "etcd"}},
        {{"app.kubernetes.io/name", "etcd"}, {"x", ""}},
    };
    return all;
}

json::Value object_with(const json::Value& object_labels) {
    return {{"apiVersion", "v1"},
            {"kind", "Pod"},
            {"metadata", {{"name", "n"}, {"namespace", "s"}, {"labels", object_labels}}},
            {"spec", {{"nodeName", "a,b=c\\"}}}};
}

void check_labels(std::string_view text) {
    const auto parsed = LabelSelector::parse(text);
    const auto cached = kube::LabelSelector::parse(text);
    const auto served = local::LabelSelector::parse(text);
    require(parsed.has_value() == cached.has_value() && parsed.has_value() == served.has_value(),
            "the three parsers accept the same");
    if (!parsed) {
        require(!parsed.error().message.empty(), "a refusal says why");
        return;
    }
    const std::string printed = parsed.value().to_string();
    const auto again = LabelSelector::parse(printed);
    require(again.has_value(), "a printed selector can be read");
    require(again.value().to_string() == printed, "and is canonical");
    for (const json::Value& some : labels()) {
        const json::Value tree = object_with(some);
        const auto object = kube::Object::make(tree).value();
        const bool matches = parsed.value().matches(&some);
        require(again.value().matches(&some) == matches, "printing does not change the meaning");
        require(cached.value().matches(*object) == matches, "the cache's selector agrees");
        require(served.value().matches(tree) == matches, "the API server's selector agrees");
    }
}

void check_fields(std::string_view text) {
    static const std::vector<std::string> allowed = {"spec.nodeName", "status.phase"};
    const auto cached = kube::FieldSelector::parse(text);
    const auto served = local::FieldSelector::parse(text, allowed);
    if (cached) {
        const auto again = kube::FieldSelector::parse(cached.value().to_string());
        require(again && again.value().to_string() == cached.value().to_string(),
                "a printed field selector can be read");
    }
    if (!cached || !served) {
        return;
    }
    const json::Value tree = object_with(json::object());
    const auto object = kube::Object::make(tree).value();
    require(cached.value().matches(*object) == served.value().matches(tree),
            "cache and API server agree on fields");
}

}  // namespace
}  // namespace capstan

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    capstan::check_labels(text);
    capstan::check_fields(text);
    return 0;
}
