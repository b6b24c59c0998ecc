#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "http/http_bench.h"
#include "http/listen.h"
#include "kit/slowdown.h"
#include "kit/temp_dir.h"

namespace quire::http::test {
namespace {

using Clock = std::chrono::steady_clock;

TEST(Lifecycle, ATakenPortIsAnErrorThatNamesTheFlag) {
  HttpBench bench;
  config::HttpSettings settings = quick_options().http;
  settings.port = static_cast<std::uint16_t>(bench.port);
  Server second(settings, bench.api.service);
  const auto bound = second.bind();
  ASSERT_FALSE(bound.ok());
  EXPECT_NE(bound.error().message.find(std::to_string(bench.port)), std::string::npos);
  settings.host = "no.such.host.invalid";
  Server third(settings, bench.api.service);
  EXPECT_FALSE(third.bind().ok());
}

// A limit below what is open: no descriptor can be made.
class NoDescriptors {
 public:
  NoDescriptors() {
    ::getrlimit(RLIMIT_NOFILE, &was_);
    const rlimit none{.rlim_cur = 3, .rlim_max = was_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoDescriptors() { ::setrlimit(RLIMIT_NOFILE, &was_); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  rlimit was_{};
};

TEST(Lifecycle, TooManyOpenFilesIsTheLimitsFault) {
  const quire::test::TempDir dir;
  const HttpBench bench;
  for (const bool uds : {false, true}) {
    config::HttpSettings settings = quick_options().http;
    if (uds) settings.uds = dir.path() + "/socket";
    Server server(settings, bench.api.service);
    const NoDescriptors none;
    const auto bound = server.bind();
    ASSERT_FALSE(bound.ok());
    EXPECT_EQ(bound.error().param, "") << "no flag of ours";
    EXPECT_EQ(bound.error().code, ErrorCode::kResourceExhausted);
    EXPECT_NE(bound.error().message.find("Too many open files; this process may have 3 (ulimit -n)"), std::string::npos) << bound.error().message;
  }
  EXPECT_EQ(socket_reason(EMFILE).substr(0, 19), "Too many open files");
  EXPECT_NE(socket_reason(ENFILE).find("fs.file-max"), std::string::npos);
  EXPECT_EQ(socket_reason(EADDRINUSE).find("ulimit"), std::string::npos);
}

TEST(Lifecycle, AllInterfacesTakeLoopbackToo) {
  HttpBenchOptions options = quick_options();
  options.http.host.clear();
  HttpBench bench(options);
  EXPECT_EQ(bench.ask(get("/version")).status, 200);
  EXPECT_NE(bench.server->address().find(std::to_string(bench.port)), std::string::npos);
}

TEST(Lifecycle, NotReadyAnswers503UntilTheModelIsThere) {
  HttpBenchOptions options = quick_options();
  options.api.attach = false;
  HttpBench bench(options);
  for (const char* path : {"/health", "/ready", "/ping"}) {
    const Answer answer = bench.ask(get(path));
    EXPECT_EQ(answer.status, 503) << path;
    EXPECT_NE(answer.body.find("loading weights"), std::string::npos) << path << answer.body;
  }
  const Answer early = bench.ask(post("/v1/completions", kShort));
  EXPECT_EQ(early.status, 503);
  EXPECT_TRUE(early.headers.contains("retry-after"));
  bench.api.attach();
  EXPECT_EQ(bench.ask(get("/health")).status, 200);
  EXPECT_EQ(bench.ask(post("/v1/completions", kShort)).status, 200);
}

TEST(Lifecycle, UnixSocket) {
  const quire::test::TempDir dir;
  HttpBenchOptions options = quick_options();
  options.http.uds = dir.path() + "/quire.sock";
  {
    HttpBench bench(options);
    RawClient client(options.http.uds);
    client.send(get("/version"));
    EXPECT_EQ(client.read_answer().status, 200);
    Server second(options.http, bench.api.service);
    EXPECT_FALSE(second.bind().ok()) << "a socket in use is not taken away";
  }
  HttpBench again(options);
  RawClient client(options.http.uds);
  client.send(get("/version"));
  EXPECT_EQ(client.read_answer().status, 200);
}

TEST(Lifecycle, DrainLetsRunningAnswersEndAndRefusesNewOnes) {
  HttpBench bench;
  bench.api.script->play(bench.api.encode(" one two three"));
  bench.api.script->hold();
  RawClient running = bench.connect();
  running.send(post("/v1/completions", kLong));
  RawClient idle = bench.connect();
  idle.send(get("/version"));
  EXPECT_EQ(idle.read_answer().status, 200);
  ASSERT_TRUE(bench.eventually([&] { return bench.server->open_requests() == 1; })) << "its answer can be read before the server has put it away";
  RawClient late = bench.connect();
  late.send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(kShort.size()) + "\r\n\r\n");
  ASSERT_TRUE(running.read_until("\r\n\r\n"));
  ASSERT_TRUE(bench.eventually([&] { return bench.server->open_requests() == 2; }));
  bool quiet = false;
  std::thread drainer([&] { quiet = bench.server->drain(std::chrono::seconds(20)); });
  EXPECT_TRUE(idle.closed_within(5000 * quire::test::kSlowdown)) << "idle connections close at once";
  late.send(kShort);
  EXPECT_EQ(late.read_answer().status, 503);
  EXPECT_FALSE(RawClient(bench.port).read_until("x", 100)) << "nobody accepts any more";
  bench.api.script->allow_all();
  const Answer answer = running.read_answer();
  EXPECT_TRUE(answer.body.ends_with("data: [DONE]\n\n")) << answer.body;
  drainer.join();
  EXPECT_TRUE(quiet);
  bench.server->stop();
  EXPECT_EQ(bench.server->open_connections(), 0);
}

TEST(Lifecycle, DrainIsBoundedAndTheRestGetsAnError) {
  HttpBenchOptions options = quick_options();
  options.http.header_timeout_seconds = 60;  // a body that does not come must not end by itself
  HttpBench bench(options);
  bench.api.script->hold();
  RawClient stuck = bench.connect();
  stuck.send(post("/v1/completions", kLong));
  RawClient whole = bench.connect();
  whole.send(post("/v1/completions", kShort));
  ASSERT_TRUE(bench.eventually([&] { return bench.server->open_streams() == 2; }));
  const auto begin = Clock::now();
  RawClient half = bench.connect();
  half.send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{");
  ASSERT_TRUE(bench.eventually([&] { return bench.server->open_requests() == 3; }));
  EXPECT_FALSE(bench.server->drain(std::chrono::milliseconds(200)));
  const Answer stream = stuck.read_answer(), refused = whole.read_answer(), unread = half.read_answer();
  EXPECT_EQ(stream.status, 200);
  EXPECT_NE(stream.body.find("\"code\":503"), std::string::npos) << stream.body;
  EXPECT_TRUE(stream.body.ends_with("data: [DONE]\n\n")) << stream.body;
  for (const Answer& answer : {refused, unread}) {
    EXPECT_EQ(answer.status, 503);
    EXPECT_NE(answer.body.find("--shutdown-timeout"), std::string::npos) << answer.body;
  }
  EXPECT_TRUE(stuck.closed_within(5000 * quire::test::kSlowdown));
  bench.server->stop();
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(8 * quire::test::kSlowdown));
  EXPECT_EQ(bench.server->open_connections(), 0);
  EXPECT_EQ(bench.server->open_streams(), 0);
}

TEST(Lifecycle, StopWithoutStartAndTwice) {
  api::test::ApiBench api;
  Server never(quick_options().http, api.service);
  never.stop();
  Server bound(quick_options().http, api.service);
  ASSERT_TRUE(bound.bind().ok());
  bound.stop();
  bound.stop();
}

}  // namespace
}  // namespace quire::http::test
