#include <gtest/gtest.h>

#include "api/routes.h"
#include "base/json.h"
#include "http/http_bench.h"

namespace quire::http::test {
namespace {

std::string request_for(const api::Route& route, const std::string& headers) {
  return (route.methods & api::kPost) != 0 ? post(route.path, "{}", headers) : get(route.path, headers);
}

TEST(Routes, AnswerInJsonAndKeepTheConnection) {
  HttpBench bench;
  bench.api.script->play(bench.api.encode(" four"));
  RawClient client = bench.connect();
  for (int i = 0; i < 20; ++i) {
    client.send(post("/v1/completions", kShort));
    const Answer answer = client.read_answer();
    ASSERT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(answer.headers.at("content-type"), "application/json");
    EXPECT_FALSE(answer.headers.contains("connection"));
    EXPECT_NE(answer.body.find("\" four\""), std::string::npos);
    EXPECT_EQ(bench.server->open_connections(), 1);
  }
  client.close();
  bench.expect_healthy_and_quiet();
}

TEST(Routes, PipelinedRequestsAreAnsweredInOrder) {
  HttpBench bench;
  RawClient client = bench.connect();
  client.send(get("/version") + get("/v1/models") + post("/tokenize", R"({"prompt":"a"})") + get("/nowhere"));
  EXPECT_NE(client.read_answer().body.find("version"), std::string::npos);
  EXPECT_NE(client.read_answer().body.find("gsm-tiny"), std::string::npos);
  EXPECT_NE(client.read_answer().body.find("tokens"), std::string::npos);
  EXPECT_EQ(client.read_answer().status, 404);
  client.close();
  bench.expect_healthy_and_quiet();
}

TEST(Routes, UnknownPathsAndMethods) {
  HttpBench bench;
  const Answer missing = bench.ask(get("/v1/nowhere"));
  EXPECT_EQ(missing.status, 404);
  EXPECT_EQ(missing.body, R"({"error":{"message":"Not Found","type":"Not Found","param":null,"code":404}})");
  const Answer wrong = bench.ask(get("/v1/completions"));
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.headers.at("allow"), "POST");
  EXPECT_EQ(bench.ask("DELETE /v1/models HTTP/1.1\r\nHost: x\r\n\r\n").status, 405);
  EXPECT_EQ(bench.ask(post("/ping", "")).status, 200);
  EXPECT_EQ(bench.ask(get("/metrics/?x=1")).status, 200);
  RawClient head = bench.connect();
  head.send("HEAD /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_TRUE(head.closed_within(5000));
  EXPECT_TRUE(head.raw().ends_with("\r\n\r\n")) << "an answer to HEAD has no body";
}

TEST(Routes, EveryRouteButHealthAndThePagesFilesNeedsTheKey) {
  HttpBenchOptions options = quick_options();
  options.http.api_keys = {"first", "second"};
  HttpBench bench(options);
  for (const api::Route& route : api::routes()) {
    const bool open = route.path == "/health" || route.path == "/ping" || route.path == "/ready" || route.action == api::Action::kPage;
    for (const char* headers : {"", "Authorization: Bearer wrong\r\n", "Authorization: Bearer \r\n", "Authorization: first\r\n"}) {
      const Answer answer = bench.ask(request_for(route, headers));
      EXPECT_EQ(answer.status == 401, !open) << route.path << " " << headers;
      if (open) continue;
      EXPECT_EQ(answer.body, R"({"error":"Unauthorized"})");
    }
    for (const char* headers : {"Authorization: Bearer first\r\n", "authorization: bearer second\r\n"}) EXPECT_NE(bench.ask(request_for(route, headers)).status, 401) << route.path;
  }
  EXPECT_EQ(bench.ask(get("/nowhere")).status, 401);
  // No body is read from somebody who may not ask.
  EXPECT_EQ(bench.ask("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n").status, 401);
  bench.expect_healthy_and_quiet("Authorization: Bearer first\r\n");
}

TEST(Routes, TenantsDoNotSharePrefixes) {
  HttpBenchOptions options = quick_options();
  options.http.api_keys = {"first", "second"};
  options.api.settings.enable_prompt_tokens_details = true;
  HttpBench bench(options);
  std::string prompt;
  for (int i = 0; i < 60; ++i) prompt += " apples";
  const auto cached = [&](const std::string& key, const std::string& extra) {
    const Answer answer = bench.ask(post("/v1/completions", R"({"prompt":")" + prompt + R"(","max_tokens":1)" + extra + "}", "Authorization: Bearer " + key + "\r\n"));
    return parse_json(answer.body).value().at("usage").at("prompt_tokens_details").at("cached_tokens").as_int64();
  };
  EXPECT_EQ(cached("first", ""), 0);
  EXPECT_GT(cached("first", ""), 0);
  EXPECT_EQ(cached("second", ""), 0);
  EXPECT_EQ(cached("first", R"(,"cache_salt":"s")"), 0);
}

TEST(Routes, Cors) {
  HttpBench bench;
  const Answer preflight = bench.ask("OPTIONS /v1/completions HTTP/1.1\r\nHost: x\r\nOrigin: http://a\r\nAccess-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: content-type\r\n\r\n");
  EXPECT_EQ(preflight.status, 200);
  EXPECT_EQ(preflight.body, "OK");
  EXPECT_EQ(preflight.headers.at("access-control-allow-origin"), "*");
  EXPECT_EQ(preflight.headers.at("access-control-allow-headers"), "content-type");
  EXPECT_EQ(bench.ask(get("/version", "Origin: http://a\r\n")).headers.at("access-control-allow-origin"), "*");
  EXPECT_EQ(bench.ask(get("/nowhere", "Origin: http://a\r\n")).headers.at("access-control-allow-origin"), "*");
  EXPECT_FALSE(bench.ask(get("/version")).headers.contains("access-control-allow-origin"));
  EXPECT_EQ(bench.ask("OPTIONS /v1/completions HTTP/1.1\r\nHost: x\r\n\r\n").status, 405);
}

TEST(Routes, RequestIdsAndRootPath) {
  HttpBenchOptions options = quick_options();
  options.http.request_id_headers = true;
  options.http.root_path = "/llm";
  HttpBench bench(options);
  const Answer answer = bench.ask(post("/llm/v1/completions", kShort, "X-Request-Id: abc-1\r\n"));
  EXPECT_EQ(answer.headers.at("x-request-id"), "abc-1");
  EXPECT_NE(answer.body.find("\"cmpl-abc-1\""), std::string::npos);
  EXPECT_EQ(bench.ask(get("/version")).headers.at("x-request-id").size(), 32u);
}

TEST(Routes, MetricsCountHttpRequests) {
  HttpBench bench;
  EXPECT_EQ(bench.ask(get("/version")).status, 200);
  EXPECT_EQ(bench.ask(post("/v1/completions", "{}")).status, 400);
  EXPECT_EQ(bench.ask(get("/no/such/path")).status, 404);
  ASSERT_TRUE(bench.eventually([&] { return bench.server->open_requests() == 0; }));
  const std::string text = bench.ask(get("/metrics")).body;
  EXPECT_NE(text.find(R"(http_requests_total{handler="/version",method="GET",status="2xx"} 1)"), std::string::npos) << text;
  EXPECT_NE(text.find(R"(http_requests_total{handler="/v1/completions",method="POST",status="4xx"} 1)"), std::string::npos);
  EXPECT_NE(text.find(R"(http_requests_total{handler="none",method="GET",status="4xx"} 1)"), std::string::npos);
  EXPECT_EQ(text.find("/no/such/path"), std::string::npos) << "a client's words must not become a label";
  EXPECT_NE(text.find("http_request_duration_seconds_bucket"), std::string::npos);
}

// Clients and metrics say the same: a workload with stop strings, whole and streamed, counts as stop, and nothing as abort.
TEST(Routes, MetricsCountStopStringsAsStop) {
  HttpBench bench;
  bench.api.script->repeat(bench.api.encode(" She has 12 apples. ##"));
  constexpr int kStops = 12, kLengths = 5;
  for (int i = 0; i < kLengths; ++i) EXPECT_EQ(bench.ask(post("/v1/completions", R"({"prompt":"Tom","max_tokens":3,"stop":"les. ##"})")).status, 200);
  // The scripted runner is quicker than any reader: without the gate it would reach max_tokens before the stop string is read.
  bench.api.script->hold();
  for (int i = 0; i < kStops; ++i) {
    const std::string stream = i % 2 == 0 ? "false" : "true";
    bench.api.script->allow(40);
    const Answer answer = bench.ask(post("/v1/completions", R"({"prompt":"Tom","max_tokens":500,"stop":"les. ##","stream":)" + stream + "}"));
    ASSERT_EQ(answer.status, 200) << answer.body;
    EXPECT_NE(answer.body.find(R"("finish_reason":"stop")"), std::string::npos) << answer.body;
  }
  bench.api.script->allow(40);
  std::string text;
  const auto counted = [&text](const std::string& reason, int num) {
    const std::string word = "finished_reason=\"" + reason + "\"";
    for (std::size_t at = text.find("vllm:request_success_total{"); at != std::string::npos; at = text.find("vllm:request_success_total{", at + 1)) {
      const std::string line = text.substr(at, text.find('\n', at) - at);
      if (line.find(word) != std::string::npos) return line.ends_with("} " + std::to_string(num) + ".0");
    }
    return false;
  };
  // The answer leaves when the stop string is seen; the engine counts at its next step border.
  EXPECT_TRUE(bench.eventually([&] {
    text = bench.ask(get("/metrics")).body;
    return counted("stop", kStops);
  })) << text;
  EXPECT_TRUE(counted("length", kLengths)) << text;
  EXPECT_TRUE(counted("abort", 0)) << text;
  EXPECT_TRUE(counted("error", 0)) << text;
  bench.api.script->allow_all();
  bench.expect_healthy_and_quiet();
}

TEST(Routes, LoadCountsRunningGenerations) {
  HttpBenchOptions options = quick_options();
  options.http.server_load_tracking = true;
  HttpBench bench(options);
  bench.api.script->hold();
  RawClient client = bench.connect();
  client.send(post("/v1/completions", kShort));
  EXPECT_TRUE(bench.eventually([&] { return bench.ask(get("/load")).body == R"({"server_load":1})"; }));
  bench.api.script->allow_all();
  EXPECT_EQ(client.read_answer().status, 200);
  EXPECT_TRUE(bench.eventually([&] { return bench.ask(get("/load")).body == R"({"server_load":0})"; }));
}

}  // namespace
}  // namespace quire::http::test
