// Which symbol versions the libraries of this process define, so that a plugin built on a newer
// system is refused with "needs GLIBCXX_3.4.32" instead of a loader error. Thread: any.
#pragma once

#include <map>
#include <set>
#include <string>

namespace capstan::plugin {

// By SONAME ("libc.so.6"); only libraries this process has loaded.
std::map<std::string, std::set<std::string>> host_symbol_versions();

}  // namespace capstan::plugin
