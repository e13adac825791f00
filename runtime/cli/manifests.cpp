#include "runtime/cli/manifests.hpp"

#include "runtime/config/yaml.hpp"

#include <iostream>
#include <iterator>
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

bool is_list(const config::Document& document) {
    const json::View view(document.value);
    return view["kind"].string_or("").ends_with("List") && view["items"].value() != nullptr &&
           view["items"].value()->is_array();
}

// The items of a List, each with the lines it was written at.
void append_items(const config::Document& list, std::vector<config::Document>& all) {
    const json::Array& items = json::View(list.value)["items"].array();
    for (std::size_t i = 0; i < items.size(); ++i) {
        const std::string base = "/items/" + std::to_string(i);
        config::Document item;
        item.file = list.file;
        item.line = list.line;
        item.value = items[i];
        for (const auto& [path, line] : list.lines) {
            if (path == base) {
                item.line = line;
            } else if (path.starts_with(base + "/")) {
                item.lines.emplace(path.substr(base.size()), line);
            }
        }
        all.push_back(std::move(item));
    }
}

Result<std::vector<config::Document>> read_documents(const std::string& file) {
    if (file != kStandardInput) {
        return config::load_all_file(file);
    }
    std::string text(std::istreambuf_iterator<char>(std::cin), {});
    return config::load_all(text, "standard input");
}

}  // namespace

Result<std::vector<config::Document>> load_manifests(const std::vector<std::string>& files) {
    std::vector<config::Document> all;
    std::vector<std::string> problems;
    for (const std::string& file : files) {
        auto documents = read_documents(file);
        if (!documents) {
            problems.push_back(documents.error().message);
            continue;
        }
        if (documents.value().empty()) {
            problems.push_back((file == kStandardInput ? "standard input" : file) +
                               ": holds no object; remedy: see examples/etcd-1.yaml");
        }
        const bool several = documents.value().size() > 1;
        std::size_t number = 0;
        for (config::Document& document : documents.value()) {
            ++number;
            std::size_t at = all.size();
            if (is_list(document)) {
                append_items(document, all);
            } else {
                all.push_back(std::move(document));
            }
            for (; at < all.size(); ++at) {
                check_object(all[at],
                             several ? "document " + std::to_string(number) + ": " : std::string(),
                             problems);
            }
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
