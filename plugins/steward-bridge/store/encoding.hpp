// How bytes are written in HTTP headers, URLs and S3's answers.
#pragma once

#include "plugins/steward-bridge/stream/base64.hpp"
#include "plugins/steward-bridge/stream/digest.hpp"

#include "capstan/clock.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace capstan::steward {

// All but letters, digits and "-._~" as %XX (upper case), as SigV4 wants; a slash too unless kept.
std::string uri_encode(std::string_view text, bool keep_slash);
// %XX only, "+" is itself. nullopt: a broken escape.
std::optional<std::string> uri_decode(std::string_view text);

std::string to_amz_date(WallTime time);  // "20260102T030405Z"
// "Fri, 24 May 2013 00:00:00 GMT" (RFC 9110 IMF-fixdate only).
std::optional<WallTime> parse_http_date(std::string_view text);

// Text of a server in a message: quoted, control characters as "?", cut at 512 bytes.
std::string quote_foreign(std::string_view text);

}  // namespace capstan::steward
