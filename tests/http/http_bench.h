// A running server on a free port of 127.0.0.1 over the api bench.
#pragma once
#include <memory>
#include <string>

#include "api/api_bench.h"
#include "config/resolved.h"
#include "http/raw_client.h"
#include "http/server.h"
#include "kit/slowdown.h"

namespace quire::http::test {

struct HttpBenchOptions {
  config::HttpSettings http;
  api::test::BenchOptions api;
};

[[nodiscard]] HttpBenchOptions quick_options();  // short time limits, two io threads, no access log

class HttpBench {
 public:
  explicit HttpBench(HttpBenchOptions options = quick_options());
  ~HttpBench();

  [[nodiscard]] RawClient connect() const { return RawClient(port); }
  // One request on a connection of its own.
  [[nodiscard]] Answer ask(const std::string& request) const;
  // The next good request works and nothing is left open: no stream, no sequence, no connection.
  void expect_healthy_and_quiet(const std::string& headers = "");
  // Waits until `condition` holds; false after 10 s, or as much more as a sanitizer costs.
  template <class Condition>
  bool eventually(Condition condition) {
    for (int i = 0; i < 2000 * quire::test::kSlowdown; ++i) {
      if (condition()) return true;
      (void)api.mailbox.wait(5);
    }
    return condition();
  }

  api::test::ApiBench api;
  std::unique_ptr<Server> server;
  int port = 0;
};

inline const std::string kLong = R"({"prompt":"Tom","max_tokens":2000,"stream":true})";
inline const std::string kShort = R"({"prompt":"Tom","max_tokens":100})";

}  // namespace quire::http::test
