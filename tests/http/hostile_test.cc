// Clients that break the rules get an error or a bounded wait; others go on and nothing leaks.
#include <gtest/gtest.h>

#include <thread>

#include "http/http_bench.h"

namespace quire::http::test {
namespace {

class Hostile : public ::testing::Test {
 protected:
  void TearDown() override { bench.expect_healthy_and_quiet(); }
  HttpBench bench;
};

TEST_F(Hostile, ABodyOf100MegabytesIsRefusedByItsLength) {
  RawClient client = bench.connect();
  client.send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 104857600\r\n\r\n{\"prompt\":\"");
  const Answer answer = client.read_answer(2000);
  EXPECT_EQ(answer.status, 413);
  EXPECT_NE(answer.body.find("1048576"), std::string::npos) << answer.body;
  EXPECT_EQ(answer.headers.at("connection"), "close");
}

TEST_F(Hostile, AClientThatSendsAllOfItFirstStillSeesThe413) {
  RawClient client = bench.connect();
  client.send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 20971520\r\n\r\n");
  const std::string piece(1 << 20, 'x');
  for (int i = 0; i < 20 && client.send(piece); ++i) {
  }
  EXPECT_EQ(client.read_answer().status, 413);
}

TEST_F(Hostile, AChunkedBodyWithoutEndIsRefusedAtTheLimit) {
  RawClient client = bench.connect();
  client.send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n");
  const std::string chunk = "10000\r\n" + std::string(65536, ' ') + "\r\n";
  for (int i = 0; i < 40 && client.send(chunk); ++i) {
  }
  EXPECT_EQ(client.read_answer().status, 413);
}

TEST_F(Hostile, ChunkedBodiesWork) {
  RawClient client = bench.connect();
  client.send("POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (const char c : std::string(R"({"prompt":"apples"})")) client.send("1\r\n" + std::string(1, c) + "\r\n");
  client.send("0\r\n\r\n");
  EXPECT_EQ(client.read_answer().status, 200);
}

TEST_F(Hostile, ExpectContinueIsAnswered) {
  RawClient client = bench.connect();
  const std::string body = R"({"prompt":"apples"})";
  client.send("POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n");
  EXPECT_TRUE(client.read_until("HTTP/1.1 100 Continue\r\n\r\n"));
  client.send(body);
  EXPECT_EQ(client.read_answer().status, 100);
  EXPECT_EQ(client.read_answer().status, 200);
}

TEST_F(Hostile, TenThousandLevelsOfJson) {
  const Answer answer = bench.ask(post("/v1/completions", R"({"prompt":"a","x":)" + std::string(10000, '[')));
  EXPECT_EQ(answer.status, 400);
  EXPECT_NE(answer.body.find("deeper"), std::string::npos);
}

TEST_F(Hostile, InvalidUtf8) {
  EXPECT_EQ(bench.ask(post("/v1/completions", "{\"prompt\":\"\xff\"}")).status, 400);
  EXPECT_EQ(bench.ask(post("/tokenize", "{\"prompt\":\"\xf0\x28\x8c\x28\"}")).status, 400);
}

TEST_F(Hostile, HalfAHeaderAndThenNothing) {
  RawClient silent = bench.connect();
  RawClient half = bench.connect();
  half.send("GET /version HT");
  EXPECT_EQ(half.read_answer(4000).status, 408);
  EXPECT_TRUE(half.closed_within(4000));
  EXPECT_TRUE(silent.closed_within(4000)) << "no bytes at all: closed without an answer";
  EXPECT_EQ(silent.raw(), "");
}

TEST_F(Hostile, SlowLorisInHeadAndBody) {
  for (const std::string& start : {std::string("GET /version HTTP/1.1\r\nX-A: "), std::string("POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n")}) {
    RawClient client = bench.connect();
    client.send(start);
    const auto begin = std::chrono::steady_clock::now();
    bool open = true;
    while (open && std::chrono::steady_clock::now() - begin < std::chrono::seconds(8)) open = client.send("a") && !client.closed_within(50);
    EXPECT_FALSE(open) << "a byte now and then does not keep a connection";
    EXPECT_NE(client.raw().find(" 408 "), std::string::npos);
  }
}

TEST_F(Hostile, HeadsThatAreTooLongOrBroken) {
  EXPECT_EQ(bench.ask(get("/version", "X-Long: " + std::string(70000, 'a') + "\r\n")).status, 431);
  for (const char* broken : {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 TLS hello\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
                             "POST /tokenize HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello", "GET / HTTP/1.1\r\nBad Name: x\r\n\r\n",
                             "POST /tokenize HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n", "POST /tokenize HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n"}) {
    const Answer answer = bench.ask(broken);
    EXPECT_GE(answer.status, 400) << broken;
    EXPECT_LT(answer.status, 600) << broken;
    EXPECT_NE(answer.status, 500) << broken;
  }
}

// RFC 9112, 3.2: none, two, or one that is no host is a 400, and the connection ends. HTTP/1.0 may leave it out.
TEST_F(Hostile, EveryRequestNamesOneHost) {
  for (const char* head : {"", "Host: a\r\nHost: b\r\n", "Host: a\r\nHost: a\r\n", "Host: a b\r\n", "Host: http://a/\r\n", "Host: u@a\r\n"}) {
    RawClient client = bench.connect();
    client.send("GET /version HTTP/1.1\r\n" + std::string(head) + "\r\n" + get("/version"));
    const Answer answer = client.read_answer();
    EXPECT_EQ(answer.status, 400) << head;
    EXPECT_NE(answer.body.find("Host"), std::string::npos) << answer.body;
    EXPECT_TRUE(client.closed_within(5000)) << head;
  }
  for (const char* good : {"GET /version HTTP/1.1\r\nHost: a:80\r\n\r\n", "GET /version HTTP/1.1\r\nHost:\r\n\r\n", "GET /version HTTP/1.0\r\n\r\n"}) EXPECT_EQ(bench.ask(good).status, 200) << good;
  EXPECT_EQ(bench.ask("GET /version HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n").status, 400);
}

TEST_F(Hostile, ManyClientsThatLeaveAtOnce) {
  bench.api.script->repeat(bench.api.encode(" one two three"));
  for (int i = 0; i < 60; ++i) {
    RawClient client = bench.connect();
    const std::string request = post("/v1/completions", kLong);
    client.send(std::string_view(request).substr(0, static_cast<std::size_t>(i * 7) % (request.size() + 1)));
    if (i % 3 == 0) (void)client.read_until("data:", 100);
  }
}

TEST_F(Hostile, PipeliningIsBounded) {
  bench.api.script->hold();
  RawClient client = bench.connect();
  client.send(post("/v1/completions", kShort));
  ASSERT_TRUE(bench.eventually([&] { return bench.server->open_streams() == 1; }));
  std::thread sender([&client] {
    const std::string many = get("/version", "X-Pad: " + std::string(1000, 'p') + "\r\n");
    for (int i = 0; i < 3000 && client.send(many); ++i) {
    }
  });
  EXPECT_EQ(bench.ask(get("/version")).status, 200);
  bench.api.script->allow_all();
  for (int i = 0; i <= 3000; ++i) ASSERT_EQ(client.read_answer().status, 200) << i;
  sender.join();
  client.close();
}

// What a client chose stays one short line of the log.
TEST(HostileLog, LongAndStrangeUrlsAreCutAndEscaped) {
  HttpBenchOptions options = quick_options();
  options.http.access_log = true;
  HttpBench bench(options);
  ::testing::internal::CaptureStdout();  // spdlog's default logger
  const std::string long_path = "/" + std::string(9000, 'p');
  EXPECT_EQ(bench.ask(get(long_path)).status, 404);
  EXPECT_EQ(bench.ask(std::string(9000, 'M') + " /nowhere HTTP/1.1\r\nHost: x\r\n\r\n").status, 404);
  EXPECT_EQ(bench.ask("GET /a\xff\x80 HTTP/1.1\r\nHost: x\r\n\r\n").status, 404);
  bench.expect_healthy_and_quiet();
  const std::string log = ::testing::internal::GetCapturedStdout();
  EXPECT_NE(log.find("(9001 bytes)"), std::string::npos) << log;
  EXPECT_NE(log.find("(9000 bytes)"), std::string::npos) << log;
  EXPECT_NE(log.find("/a\\xff\\x80"), std::string::npos) << log;
  for (std::size_t at = 0, end = 0; (end = log.find('\n', at)) != std::string::npos; at = end + 1) EXPECT_LT(end - at, 500u) << log.substr(at, end - at);
}

TEST(HostileLimits, ConnectionsHaveALimit) {
  HttpBenchOptions options = quick_options();
  options.http.max_connections = 4;
  options.http.header_timeout_seconds = 30;
  HttpBench bench(options);
  std::vector<RawClient> held;
  for (int i = 0; i < 4; ++i) held.push_back(bench.connect());
  ASSERT_TRUE(bench.eventually([&] { return bench.server->open_connections() == 4; }));
  RawClient more = bench.connect();
  const Answer answer = more.read_answer(5000);
  EXPECT_EQ(answer.status, 503);
  EXPECT_TRUE(answer.headers.contains("retry-after"));
  held.clear();
  ASSERT_TRUE(bench.eventually([&] { return bench.server->open_connections() == 0; }));
  EXPECT_EQ(bench.ask(get("/version")).status, 200);
}

}  // namespace
}  // namespace quire::http::test
