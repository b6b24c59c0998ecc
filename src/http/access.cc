#include "http/access.h"

#include <algorithm>

#include "base/text.h"

namespace quire::http {
namespace {

bool is_star(const std::vector<std::string>& list) { return std::ranges::find(list, "*") != list.end(); }
bool holds(const std::vector<std::string>& list, std::string_view item) { return is_star(list) || std::ranges::find(list, item) != list.end(); }

// Every byte is looked at, whatever the first difference.
bool equal_in_constant_time(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned>(static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]));
  return difference == 0;
}

// With credentials a browser accepts no "*", so the origin is named.
std::string allow_origin(const config::HttpSettings& settings, const CorsQuestion& question) {
  if (is_star(settings.cors_origins) && !(settings.cors_credentials && question.has_cookie)) return "*";
  return std::string(question.origin);
}

bool headers_allowed(const config::HttpSettings& settings, std::string_view asked) {
  if (is_star(settings.cors_headers)) return true;
  static const std::vector<std::string> kAlways{"accept", "accept-language", "content-language", "content-type"};
  while (!asked.empty()) {
    const std::size_t comma = asked.find(',');
    std::string_view one = asked.substr(0, comma);
    asked = comma == std::string_view::npos ? std::string_view() : asked.substr(comma + 1);
    while (!one.empty() && one.front() == ' ') one.remove_prefix(1);
    while (!one.empty() && one.back() == ' ') one.remove_suffix(1);
    const std::string name = lower(one);
    const auto same = [&name](const std::string& have) { return lower(have) == name; };
    if (!std::ranges::any_of(settings.cors_headers, same) && std::ranges::find(kAlways, name) == kAlways.end()) return false;
  }
  return true;
}

}  // namespace

int find_key(std::string_view authorization, const std::vector<std::string>& keys) {
  constexpr std::string_view kScheme = "bearer ";
  if (authorization.size() < kScheme.size() || lower(authorization.substr(0, kScheme.size())) != kScheme) return -1;
  const std::string_view shown = authorization.substr(kScheme.size());
  int found = -1;
  for (std::size_t i = 0; i < keys.size(); ++i)
    if (equal_in_constant_time(shown, keys[i])) found = static_cast<int>(i);
  return found;
}

bool is_host(std::string_view value) {
  constexpr std::string_view kMarks = "-._~%!$&'()*+,;=:[]";
  return std::ranges::all_of(value, [kMarks](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || kMarks.find(c) != std::string_view::npos; });
}

Headers cors_headers(const config::HttpSettings& settings, const CorsQuestion& question) {
  Headers out;
  if (question.origin.empty() || !holds(settings.cors_origins, question.origin)) return out;
  const std::string origin = allow_origin(settings, question);
  out.emplace_back("Access-Control-Allow-Origin", origin);
  if (settings.cors_credentials) out.emplace_back("Access-Control-Allow-Credentials", "true");
  if (origin != "*") out.emplace_back("Vary", "Origin");
  return out;
}

Preflight cors_preflight(const config::HttpSettings& settings, const CorsQuestion& question) {
  static const std::string kAllMethods = "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT";
  Preflight out;
  std::string refused;
  if (!holds(settings.cors_origins, question.origin)) refused += ", origin";
  if (!holds(settings.cors_methods, question.request_method)) refused += ", method";
  if (!headers_allowed(settings, question.request_headers)) refused += ", headers";
  out.allowed = refused.empty();
  out.text = out.allowed ? "OK" : "Disallowed CORS " + refused.substr(2);
  if (holds(settings.cors_origins, question.origin)) {
    const bool named = !is_star(settings.cors_origins) || settings.cors_credentials;
    out.headers.emplace_back("Access-Control-Allow-Origin", named ? std::string(question.origin) : "*");
    if (named) out.headers.emplace_back("Vary", "Origin");
  }
  out.headers.emplace_back("Access-Control-Allow-Methods", is_star(settings.cors_methods) ? kAllMethods : joined(settings.cors_methods, ", "));
  if (!question.request_headers.empty() && is_star(settings.cors_headers)) out.headers.emplace_back("Access-Control-Allow-Headers", std::string(question.request_headers));
  else if (!is_star(settings.cors_headers)) out.headers.emplace_back("Access-Control-Allow-Headers", joined(settings.cors_headers, ", "));
  out.headers.emplace_back("Access-Control-Max-Age", "600");
  if (settings.cors_credentials) out.headers.emplace_back("Access-Control-Allow-Credentials", "true");
  return out;
}

}  // namespace quire::http
