#include "http/target.h"

#include <charconv>

#include "base/text.h"

namespace quire::http {
namespace {

constexpr std::string_view kScheme = "http://";
constexpr std::size_t kMaxUrlBytes = 2048;
constexpr const char* kExample = "; give it as http://HOST:PORT, e.g. http://localhost:8000";

// Bytes that may not go into a request line or a Host field as they are.
bool is_clean(std::string_view text) {
  for (const char c : text)
    if (static_cast<unsigned char>(c) <= 0x20 || static_cast<unsigned char>(c) >= 0x7f || c == '"' || c == '<' || c == '>' || c == '\\') return false;
  return true;
}

bool is_port(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() && value >= 1 && value <= 65535;
}

}  // namespace

std::string Target::authority() const { return (host.find(':') == std::string::npos ? host : "[" + host + "]") + (port == "80" ? "" : ":" + port); }
std::string Target::url() const { return std::string(kScheme) + authority() + base_path; }

Result<Target> parse_base_url(std::string_view url, const std::string& flag) {
  const auto wrong = [&](const std::string& why) { return invalid(flag + " '" + (is_clean(url) ? std::string(url.substr(0, 200)) : std::string("(not printable)")) + "': " + why, flag); };
  if (url.size() > kMaxUrlBytes || !is_clean(url)) return wrong(std::string("not a URL") + kExample);
  if (lower(url.substr(0, 8)) == "https://")
    return Error{ErrorCode::kUnsupported, flag + " '" + std::string(url.substr(0, 200)) + "': https is not built in; give the server's plain http address, or put a local proxy that speaks TLS in between", flag};
  if (lower(url.substr(0, kScheme.size())) != kScheme) return wrong(std::string("must begin with http://") + kExample);
  url.remove_prefix(kScheme.size());
  if (url.find_first_of("?#@") != std::string_view::npos) return wrong(std::string("a user name, query or fragment has no place in it") + kExample);
  const std::size_t slash = url.find('/');
  std::string_view place = url.substr(0, slash);
  Target out;
  if (slash != std::string_view::npos) out.base_path = url.substr(slash);
  while (out.base_path.ends_with('/')) out.base_path.pop_back();
  if (out.base_path.ends_with("/v1")) out.base_path.resize(out.base_path.size() - 3);
  if (place.starts_with('[')) {
    const std::size_t close = place.find(']');
    if (close == std::string_view::npos) return wrong(std::string("'[' has no ']'") + kExample);
    out.host = place.substr(1, close - 1);
    place.remove_prefix(close + 1);
  } else {
    const std::size_t colon = place.find(':');
    out.host = place.substr(0, colon);
    place.remove_prefix(colon == std::string_view::npos ? place.size() : colon);
  }
  if (out.host.empty()) return wrong(std::string("the host is missing") + kExample);
  out.port = "80";
  if (!place.empty()) out.port = place.substr(1);
  if (!(place.empty() || place.front() == ':') || !is_port(out.port)) return wrong(std::string("the port must be an integer from 1 to 65535") + kExample);
  return out;
}

}  // namespace quire::http
