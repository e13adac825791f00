// The few files of the launcher, and its lines on stderr.
#pragma once

#include <string>
#include <string_view>

namespace capstan::launcher {

void say(const std::string& text);  // one line on stderr, with the program's name

// Reads at most 64 KiB; "" when the file is not there.
std::string read_small_file(const std::string& path);

// Writes atomically with mode 0600 and makes it durable. Error text, "" on success.
std::string write_file(const std::string& path, std::string_view text);

}  // namespace capstan::launcher
