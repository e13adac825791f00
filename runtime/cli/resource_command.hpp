// `capstan get|describe|apply|delete|logs`: for machines without a recent kubectl. Thin on purpose:
// what they do not do, kubectl does. Thread: main.
#pragma once

#include <string>
#include <vector>

namespace capstan::cli {

struct ResourceOptions {
    std::string kubeconfig;  // empty: .capstan/kubeconfig, else $KUBECONFIG
    std::string context;     // empty: the current one
    std::string ns;          // empty: the context's
    bool all_namespaces{false};
    std::string output;  // "", wide, yaml, json, name
    std::string selector;
    std::vector<std::string> files;
    std::string container;
    int tail{-1};
    bool previous{false};
};

// `what`: kinds, plurals, short names, joined by commas ("pods,etcd"); `names`: empty for all. Exit
// codes: 0, 1 an object is missing or refused, 2 usage, 4 the server does not answer.
int run_get(const ResourceOptions& options,
            const std::string& what,
            const std::vector<std::string>& names);
int run_describe(const ResourceOptions& options, const std::string& what, const std::string& name);
int run_apply(const ResourceOptions& options);
int run_delete(const ResourceOptions& options,
               const std::string& what,
               const std::vector<std::string>& names);
int run_logs(const ResourceOptions& options, const std::string& pod);

}  // namespace capstan::cli
