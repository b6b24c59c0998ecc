#include "http/access.h"

#include <gtest/gtest.h>

namespace quire::http {
namespace {

std::string value(const Headers& headers, const std::string& name) {
  for (const auto& [n, v] : headers)
    if (n == name) return v;
  return "(none)";
}

TEST(Host, ANameOrAddressAndAPort) {
  for (const char* good : {"", "localhost", "localhost:8000", "127.0.0.1:80", "[::1]:8000", "a-b.example", "x%20y"}) EXPECT_TRUE(is_host(good)) << good;
  for (const char* bad : {"a b", "a/b", "user@host", "host?x", "host#x", "a\tb", "\xc3\xa4", "a\\b", "\"a\"", "<a>"}) EXPECT_FALSE(is_host(bad)) << bad;
}

TEST(Access, KeysAreFoundByTheWholeText) {
  const std::vector<std::string> keys{"alpha", "beta"};
  EXPECT_EQ(find_key("Bearer alpha", keys), 0);
  EXPECT_EQ(find_key("bearer beta", keys), 1);
  for (const char* wrong : {"", "Bearer", "Bearer ", "Bearer alph", "Bearer alphaa", "alpha", "Basic alpha", "Bearer  alpha", "Bearer Alpha"}) EXPECT_EQ(find_key(wrong, keys), -1) << wrong;
  EXPECT_EQ(find_key("Bearer ", {""}), 0);
}

TEST(Access, StarAllowsEveryOriginByStar) {
  const config::HttpSettings settings;
  EXPECT_EQ(value(cors_headers(settings, {"http://a", "", ""}), "Access-Control-Allow-Origin"), "*");
  EXPECT_TRUE(cors_headers(settings, {"", "", ""}).empty());
}

TEST(Access, ListedOriginsAreNamedAndOthersGetNothing) {
  config::HttpSettings settings;
  settings.cors_origins = {"http://a"};
  settings.cors_credentials = true;
  const Headers good = cors_headers(settings, {"http://a", "", ""});
  EXPECT_EQ(value(good, "Access-Control-Allow-Origin"), "http://a");
  EXPECT_EQ(value(good, "Access-Control-Allow-Credentials"), "true");
  EXPECT_EQ(value(good, "Vary"), "Origin");
  EXPECT_TRUE(cors_headers(settings, {"http://b", "", ""}).empty());
}

TEST(Access, Preflight) {
  config::HttpSettings settings;
  const Preflight open = cors_preflight(settings, {"http://a", "POST", "content-type,x-y"});
  EXPECT_TRUE(open.allowed);
  EXPECT_EQ(value(open.headers, "Access-Control-Allow-Headers"), "content-type,x-y");
  EXPECT_EQ(value(open.headers, "Access-Control-Max-Age"), "600");
  settings.cors_origins = {"http://a"};
  settings.cors_methods = {"GET"};
  settings.cors_headers = {"X-Mine"};
  EXPECT_TRUE(cors_preflight(settings, {"http://a", "GET", "x-mine, content-type"}).allowed);
  EXPECT_EQ(cors_preflight(settings, {"http://b", "POST", "x-other"}).text, "Disallowed CORS origin, method, headers");
}

}  // namespace
}  // namespace quire::http
