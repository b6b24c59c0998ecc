#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <thread>
#include <vector>

#include "base/json.h"
#include "http/http_bench.h"
#include "kit/log_capture.h"

namespace quire::http::test {
namespace {

std::string joined_text(const std::string& events) {
  std::string text;
  for (const auto& event : api::test::parse_events(events))
    for (const auto& choice : event.at("choices").as_array()) text += choice.at("text").as_string();
  return text;
}

TEST(Streams, EventsArriveChunkedAndTheConnectionStays) {
  HttpBench bench;
  bench.api.script->play(bench.api.encode(" one two three"));
  RawClient client = bench.connect();
  for (int i = 0; i < 3; ++i) {
    client.send(post("/v1/completions", kLong));
    const Answer answer = client.read_answer();
    ASSERT_EQ(answer.status, 200);
    EXPECT_EQ(answer.headers.at("content-type"), "text/event-stream; charset=utf-8");
    EXPECT_EQ(answer.headers.at("transfer-encoding"), "chunked");
    EXPECT_TRUE(answer.body.ends_with("data: [DONE]\n\n"));
    EXPECT_EQ(joined_text(answer.body), " one two three");
  }
  client.close();
  bench.expect_healthy_and_quiet();
}

TEST(Streams, HeadersGoOutAtAdmission) {
  HttpBench bench;
  bench.api.script->hold();
  RawClient client = bench.connect();
  client.send(post("/v1/completions", kLong));
  EXPECT_TRUE(client.read_until("\r\n\r\n")) << "before any token";
  EXPECT_EQ(client.raw().find("data:"), std::string::npos);
  client.close();
  bench.expect_healthy_and_quiet();
}

TEST(Streams, ACommentBreaksALongSilence) {
  HttpBenchOptions options = quick_options();
  options.http.heartbeat_seconds = 1;
  HttpBench bench(options);
  bench.api.script->play(bench.api.encode(" one"));
  bench.api.script->hold();
  RawClient client = bench.connect();
  client.send(post("/v1/completions", kLong));
  EXPECT_TRUE(client.read_until("e\r\n: keep-alive\n\n\r\n", 5000)) << client.raw();
  bench.api.script->allow_all();
  EXPECT_EQ(joined_text(client.read_answer().body), " one");
}

TEST(Streams, Http10GetsPlainBytesAndAClose) {
  HttpBench bench;
  bench.api.script->play(bench.api.encode(" one"));
  RawClient client = bench.connect();
  client.send("POST /v1/completions HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(kLong.size()) + "\r\n\r\n" + kLong);
  const Answer answer = client.read_answer();
  EXPECT_FALSE(answer.headers.contains("transfer-encoding"));
  EXPECT_EQ(joined_text(answer.body), " one");
}

TEST(Streams, SixtyFourClientsAtOnceGetWhatOneGets) {
  HttpBench bench;
  bench.api.script->play(bench.api.encode(" She has 12 apples and 7 pears. #### 19"));
  const std::string alone = joined_text(bench.ask(post("/v1/completions", kLong)).body);
  std::vector<std::thread> threads;
  std::vector<std::string> texts(64);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    threads.emplace_back([&, i] {
      RawClient client = bench.connect();
      for (int round = 0; round < 3; ++round) {
        client.send(post("/v1/completions", i % 2 == 0 ? kLong : kShort));
        const Answer answer = client.read_answer(30000);
        if (answer.status != 200) return;
        texts[i] = i % 2 == 0 ? joined_text(answer.body) : std::string(parse_json(answer.body).value().at("choices").as_array().at(0).at("text").as_string());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& text : texts) EXPECT_EQ(text, alone);
  bench.expect_healthy_and_quiet();
}

TEST(Streams, DisconnectIsNoticedInQueuePrefillAndDecode) {
  HttpBenchOptions options = quick_options();
  options.api.max_num_seqs = 1;
  HttpBench bench(options);
  bench.api.script->repeat(bench.api.encode(" one two"));
  const auto running = [&] { return bench.api.engine->status().num_running; };
  for (const std::string& body : {kLong, std::string(R"({"prompt":"Tom","max_tokens":2000})"), std::string(R"({"prompt":["Tom","a"],"n":2,"temperature":1,"max_tokens":2000,"stream":true})")}) {
    bench.api.script->hold();
    RawClient decoding = bench.connect();
    decoding.send(post("/v1/completions", body));
    bench.api.script->allow(3);
    ASSERT_TRUE(bench.eventually([&] { return running() == 1; }));
    RawClient queued = bench.connect();
    queued.send(post("/v1/completions", kLong));
    ASSERT_TRUE(bench.eventually([&] { return bench.server->open_streams() == 2; }));
    queued.close();
    EXPECT_TRUE(bench.eventually([&] { return bench.server->open_streams() == 1; })) << "gone while queued";
    decoding.close();
    EXPECT_TRUE(bench.eventually([&] { return bench.server->open_streams() == 0; })) << "gone while a step runs";
    bench.api.script->allow_all();
    EXPECT_TRUE(bench.eventually([&] { return bench.api.engine->status().num_sequences() == 0; })) << "the engine must stop working for nobody";
  }
  bench.expect_healthy_and_quiet();
}

TEST(Streams, TheLogSaysWhoDidNotRead) {
  quire::test::LogCapture log;
  {
    HttpBenchOptions options = quick_options();
    options.http.access_log = true;
    HttpBench bench(options);
    bench.api.script->repeat(bench.api.encode(" one two three four"));
    RawClient deaf = bench.connect();
    deaf.shrink_receive_buffer();
    deaf.send(post("/v1/completions", R"({"prompt":"Tom","request_id":"deaf","max_tokens":2000,"stream":true,"logprobs":20,"n":40,"temperature":1})"));
    EXPECT_TRUE(bench.eventually([&] { return bench.server->open_streams() == 1; }));
    EXPECT_TRUE(bench.eventually([&] { return bench.server->open_streams() == 0; }));
    bench.server->stop();
  }
  const std::string text = log.take();
  EXPECT_NE(text.find(" s cmpl-deaf client does not read\n"), std::string::npos) << text;
}

TEST(Streams, AClientThatNeverReadsIsCutOffAndOthersGoOn) {
  HttpBench bench;
  bench.api.script->repeat(bench.api.encode(" one two three four"));
  const std::string wide = R"({"prompt":"Tom","max_tokens":2000,"stream":true,"logprobs":20,"n":40,"temperature":1})";
  RawClient deaf = bench.connect();
  deaf.shrink_receive_buffer();
  deaf.send(post("/v1/completions", wide));
  EXPECT_EQ(bench.ask(post("/v1/completions", kShort)).status, 200);
  EXPECT_TRUE(bench.eventually([&] { return bench.server->open_streams() == 0; })) << "bounded by the write time limit and by bytes";
  EXPECT_TRUE(bench.eventually([&] { return bench.api.engine->status().num_running == 0; }));
  bench.expect_healthy_and_quiet();
}

}  // namespace
}  // namespace quire::http::test
