#include "runtime/cli/resource_command.hpp"

#include "runtime/cli/manifests.hpp"
#include "runtime/cli/resource_session.hpp"
#include "runtime/cli/text_table.hpp"
#include "runtime/config/yaml.hpp"
#include "runtime/kube/client.hpp"
#include "runtime/kube/kubeconfig.hpp"
#include "runtime/kube/status.hpp"
#include "runtime/net/http_client.hpp"
#include "runtime/net/io_loop.hpp"
#include "runtime/net/url.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>

namespace capstan::cli {
namespace {

int exit_code_of(const Error& error) {
    std::fprintf(stderr, "capstan: %s\n", error.message.c_str());
    return error.code == Code::unavailable || error.code == Code::timeout ? 4 : 1;
}

std::vector<std::string> split_words(const std::string& text) {
    std::vector<std::string> words;
    std::size_t at = 0;
    while (at <= text.size()) {
        const std::size_t end = std::min(text.find(',', at), text.size());
        if (end > at) {
            words.push_back(text.substr(at, end - at));
        }
        at = end + 1;
    }
    return words;
}

Result<void> get_one(Session& session,
                     const ResourceOptions& options,
                     const Served& served,
                     const std::string& name) {
    const std::string ns = options.all_namespaces ? "" : session.ns();
    std::string target = session.path(served, ns, name);
    if (!options.selector.empty()) {
        target += "?labelSelector=" + net::encode_query_value(options.selector);
    }
    const bool table = options.output.empty() || options.output == "wide";
    CAPSTAN_TRY(
        const json::Value answer,
        session.json("GET",
                     target,
                     table ? "application/json;as=Table;v=v1;g=meta.k8s.io" : "application/json"));
    if (table) {
        if (json::View(answer)["rows"].array().empty()) {
            std::fprintf(stderr,
                         "no %s in %s\n",
                         served.plural.c_str(),
                         ns.empty() ? "any namespace" : ns.c_str());
            return ok();
        }
        const bool with_namespace = options.all_namespaces && served.namespaced;
        std::fputs(text_table(table_rows(answer, options.output == "wide", with_namespace)).c_str(),
                   stdout);
    } else if (options.output == "json") {
        std::printf("%s\n", json::dump_pretty(answer).c_str());
    } else if (options.output == "yaml") {
        std::fputs(config::to_yaml(answer).c_str(), stdout);
    } else {
        const json::View items = json::View(answer)["items"];
        const json::Array alone{answer};
        for (const json::Value& item : name.empty() ? items.array() : alone) {
            std::printf("%s/%s\n",
                        served.plural.c_str(),
                        std::string(json::View(item)["metadata"]["name"].string_or("")).c_str());
        }
    }
    return ok();
}

struct Named {
    Served served;
    std::string ns, name;
    json::Value object;
};

Result<std::vector<Named>> objects_of(Session& session, std::vector<config::Document> documents) {
    std::vector<Named> out;
    for (config::Document& document : documents) {
        const json::View view(document.value);
        auto served =
            session.find_kind(view["apiVersion"].string_or(""), view["kind"].string_or(""));
        if (!served) {
            return fail(with_context(served.error(), document.position("/kind")));
        }
        const std::string name(view["metadata"]["name"].string_or(""));
        out.push_back({served.value(),
                       std::string(view["metadata"]["namespace"].string_or(session.ns())),
                       name,
                       std::move(document.value)});
    }
    return out;
}

int wrong_files(const char* command, const Error& error) {
    std::fprintf(stderr, "capstan %s: %s\n", command, error.message.c_str());
    return 2;
}

Result<void> remove(Session& session,
                    const Served& served,
                    const std::string& ns,
                    const std::string& name) {
    CAPSTAN_TRY(session.json("DELETE", session.path(served, ns, name)));
    std::printf("%s/%s deleted\n", served.plural.c_str(), name.c_str());
    return ok();
}

Result<void> describe(Session& session, const std::string& what, const std::string& name) {
    CAPSTAN_TRY(const Served served, session.find(what));
    CAPSTAN_TRY(json::Value object, session.json("GET", session.path(served, session.ns(), name)));
    if (json::Value* metadata = object.find("metadata")) {
        metadata->erase("managedFields");
    }
    std::fputs(config::to_yaml(object).c_str(), stdout);
    const json::View described(object);
    const std::string uid(described["metadata"]["uid"].string_or(""));
    CAPSTAN_TRY(const json::Value events,
                session.json("GET",
                             "/api/v1/namespaces/" + net::encode_segment(session.ns()) +
                                 "/events?fieldSelector=" +
                                 net::encode_query_value("involvedObject.uid=" + uid)));
    std::vector<std::vector<std::string>> rows{{"TYPE", "REASON", "COUNT", "LAST", "MESSAGE"}};
    for (const json::Value& event : json::View(events)["items"].array()) {
        const json::View view(event);
        rows.push_back(
            {std::string(view["type"].string_or("")),
             std::string(view["reason"].string_or("")),
             std::to_string(view["count"].int_or(view["series"]["count"].int_or(1))),
             std::string(view["lastTimestamp"].string_or(view["eventTime"].string_or(""))),
             std::string(view["message"].string_or(""))});
    }
    std::printf("---\n%s", rows.size() > 1 ? text_table(rows).c_str() : "no events\n");
    return ok();
}

int outcome_code(const Result<void>& outcome) {
    return outcome ? 0 : exit_code_of(outcome.error());
}

}  // namespace

int run_get(const ResourceOptions& options,
            const std::string& what,
            const std::vector<std::string>& names) {
    const auto session = Session::open(options);
    if (!session) {
        return exit_code_of(session.error());
    }
    int code = 0;
    for (const std::string& word : split_words(what)) {
        const auto served = session.value()->find(word);
        if (!served) {
            return exit_code_of(served.error());
        }
        for (const std::string& name : names.empty() ? std::vector<std::string>{""} : names) {
            code = std::max(code,
                            outcome_code(get_one(*session.value(), options, served.value(), name)));
        }
    }
    return code;
}

int run_describe(const ResourceOptions& options, const std::string& what, const std::string& name) {
    const auto session = Session::open(options);
    return session ? outcome_code(describe(*session.value(), what, name))
                   : exit_code_of(session.error());
}

int run_apply(const ResourceOptions& options) {
    auto documents = load_manifests(options.files);
    if (!documents) {
        return wrong_files("apply", documents.error());
    }
    const auto session = Session::open(options);
    if (!session) {
        return exit_code_of(session.error());
    }
    const auto objects = objects_of(*session.value(), std::move(documents).value());
    if (!objects) {
        const int code = exit_code_of(objects.error());
        return code == 4 ? code : 2;
    }
    int code = 0;
    for (const Named& object : objects.value()) {
        const auto applied =
            session.value()->json("PATCH",
                                  session.value()->path(object.served, object.ns, object.name) +
                                      "?fieldManager=capstan-apply&force=true",
                                  "application/json",
                                  json::dump(object.object),
                                  "application/apply-patch+yaml");
        if (applied) {
            std::printf("%s/%s applied\n", object.served.plural.c_str(), object.name.c_str());
        } else {
            code = std::max(code, exit_code_of(applied.error()));
        }
    }
    return code;
}

int run_delete(const ResourceOptions& options,
               const std::string& what,
               const std::vector<std::string>& names) {
    if (options.files.empty() == (what.empty() || names.empty())) {
        std::fprintf(stderr, "capstan delete: give either KIND NAME… or -f FILE\n");
        return 2;
    }
    auto documents = load_manifests(options.files);
    if (!documents) {
        return wrong_files("delete", documents.error());
    }
    const auto session = Session::open(options);
    if (!session) {
        return exit_code_of(session.error());
    }
    int code = 0;
    if (!options.files.empty()) {
        const auto objects = objects_of(*session.value(), std::move(documents).value());
        if (!objects) {
            return exit_code_of(objects.error());
        }
        for (const Named& object : objects.value()) {
            code = std::max(
                code,
                outcome_code(remove(*session.value(), object.served, object.ns, object.name)));
        }
        return code;
    }
    const auto served = session.value()->find(what);
    if (!served) {
        return exit_code_of(served.error());
    }
    for (const std::string& name : names) {
        code = std::max(
            code,
            outcome_code(remove(*session.value(), served.value(), session.value()->ns(), name)));
    }
    return code;
}

int run_logs(const ResourceOptions& options, const std::string& pod) {
    const auto session = Session::open(options);
    if (!session) {
        return exit_code_of(session.error());
    }
    net::Query query;
    if (!options.container.empty()) {
        query.emplace_back("container", options.container);
    }
    if (options.tail >= 0) {
        query.emplace_back("tailLines", std::to_string(options.tail));
    }
    if (options.previous) {
        query.emplace_back("previous", "true");
    }
    const std::string text = net::build_query(query);
    const auto answer = session.value()->send(
        "GET",
        "/api/v1/namespaces/" + net::encode_segment(session.value()->ns()) + "/pods/" +
            net::encode_segment(pod) + "/log" + (text.empty() ? "" : "?" + text),
        "*/*");
    if (!answer) {
        return exit_code_of(answer.error());
    }
    std::fwrite(answer.value().body.data(), 1, answer.value().body.size(), stdout);
    return 0;
}

}  // namespace capstan::cli
