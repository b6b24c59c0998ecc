// Who may ask: keys, CORS, and the one Host that every request names. Pure.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/resolved.h"

namespace quire::http {

// The index of the key in "Bearer <key>" among `keys`, -1: none. The time taken depends on lengths alone.
[[nodiscard]] int find_key(std::string_view authorization, const std::vector<std::string>& keys);

// RFC 9112, 3.2: what Host may hold, a name or address and a port (RFC 3986's host, not its meaning). Empty is allowed.
[[nodiscard]] bool is_host(std::string_view value);

using Headers = std::vector<std::pair<std::string, std::string>>;

struct CorsQuestion {
  std::string_view origin;            // Origin
  std::string_view request_method;    // Access-Control-Request-Method
  std::string_view request_headers;   // Access-Control-Request-Headers
  bool has_cookie = false;
};
// For ordinary answers; empty without an Origin or when it is not allowed.
[[nodiscard]] Headers cors_headers(const config::HttpSettings& settings, const CorsQuestion& question);

struct Preflight {
  bool allowed = false;
  std::string text;   // "OK", or what is disallowed
  Headers headers;
};
[[nodiscard]] Preflight cors_preflight(const config::HttpSettings& settings, const CorsQuestion& question);

}  // namespace quire::http
