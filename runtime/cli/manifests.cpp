#include "runtime/cli/manifests.hpp"

#include "runtime/config/yaml.hpp"

#include <utility>

namespace capstan::cli {
namespace {

// `number`: of the document in its file, "" when that has one only.
void check_object(const config::Document& document,
                  const std::string& number,
                  std::vector<std::string>& problems) {
    const json::View view(document.value);
    if (!document.value.is_object()) {
        problems.push_back(document.position("") + ": " + number + "expected an object, found " +
                           std::string(json::to_string(document.value.kind())));
        return;
    }
    for (const json::View& field : {view["apiVersion"], view["kind"], view["metadata"]["name"]}) {
        const auto text = field.as_string();
        if (!text) {
            problems.push_back(document.position(field.path()) + ": " + number +
                               text.error().message);
        } else if (text.value().empty()) {
            problems.push_back(document.position(field.path()) + ": " + number + field.path() +
                               ": is empty");
        }
    }
}

}  // namespace

Result<std::vector<config::Document>> load_manifests(const std::vector<std::string>& files) {
    std::vector<config::Document> all;
    std::vector<std::string> problems;
    for (const std::string& file : files) {
        auto documents = config::load_all_file(file);
        if (!documents) {
            problems.push_back(documents.error().message);
            continue;
        }
        if (documents.value().empty()) {
            problems.push_back(file + ": holds no object; remedy: see examples/etcd-1.yaml");
        }
        const bool several = documents.value().size() > 1;
        std::size_t number = 0;
        for (config::Document& document : documents.value()) {
            ++number;
            check_object(document,
                         several ? "document " + std::to_string(number) + ": " : std::string(),
                         problems);
            all.push_back(std::move(document));
        }
    }
    if (problems.empty()) {
        return all;
    }
    Error error{Code::invalid, {}, {}};
    for (const std::string& problem : problems) {
        error.message += (error.message.empty() ? "" : "\n") + problem;
    }
    return fail(std::move(error));
}

}  // namespace capstan::cli
