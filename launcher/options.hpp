// What `capstan-launcher run` is told: options, CAPSTAN_ETCD, POD_IP and CAPSTAN_POD_MAP.
#pragma once

#include "launcher/http_lite.hpp"

#include <string>

namespace capstan::launcher {

struct Options {
    Address steward;  // without --steward: steward.sock in run_dir
    Address listen{"", 9095};
    Address etcd_client{"127.0.0.1", 2379};
    std::string etcd{"/usr/local/bin/etcd"};
    std::string exit_marker{"/var/etcd/data/exit_code"};
    std::string run_dir{"/var/run/capstan"};  // shared with the steward, in memory
};

// From the arguments behind "run". False: one is unknown or does not fit, and that has been said.
bool read_options(int argc, char** argv, Options& options);

}  // namespace capstan::launcher
