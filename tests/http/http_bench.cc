#include "http/http_bench.h"

#include <gtest/gtest.h>

#include "base/check.h"

namespace quire::http::test {

HttpBenchOptions quick_options() {
  HttpBenchOptions options;
  options.http.host = "127.0.0.1";
  options.http.port = 0;
  options.http.io_threads = 2;
  options.http.tokenizer_threads = 1;
  options.http.header_timeout_seconds = 1;
  options.http.keep_alive_seconds = 1;
  options.http.write_timeout_seconds = 1;
  options.http.max_body_bytes = 1 << 20;
  options.http.access_log = false;
  return options;
}

HttpBench::HttpBench(HttpBenchOptions options) : api(options.api) {
  server = std::make_unique<Server>(options.http, api.service);
  const auto bound = server->bind();
  QUIRE_CHECK(bound.ok()) << bound.error().message;
  port = bound.value();
  server->start();
}

HttpBench::~HttpBench() {
  api.script->allow_all();
  server->stop();
}

Answer HttpBench::ask(const std::string& request) const {
  RawClient client(port);
  client.send(request);
  return client.read_answer();
}

void HttpBench::expect_healthy_and_quiet(const std::string& headers) {
  api.script->allow_all();
  const Answer answer = ask(post("/v1/completions", R"({"prompt":"still here?","max_tokens":1})", headers));
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_TRUE(eventually([this] { return server->open_streams() == 0; })) << server->open_streams() << " streams are left";
  EXPECT_TRUE(eventually([this] { return server->open_requests() == 0; })) << server->open_requests() << " requests are left";
  EXPECT_TRUE(eventually([this] { return server->open_connections() == 0; })) << server->open_connections() << " connections are left";
  EXPECT_TRUE(eventually([this] { return api.engine->status().num_sequences() == 0; })) << "sequences are left";
}

}  // namespace quire::http::test
