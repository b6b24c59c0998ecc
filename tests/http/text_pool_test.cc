// The two lanes: quick work never waits for text, text takes turns, and what a leaver still had in line is dropped.
#include "http/text_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <mutex>
#include <semaphore>
#include <string>

#include "http/http_bench.h"

namespace quire::http::test {
namespace {

using After = TextPool::After;

// A text job that stands in for a text without end: each of its turns waits for open().
class Gate {
 public:
  explicit Gate(TextPool& pool) {
    EXPECT_TRUE(pool.post_text([this] {
      reached_.release();
      go_.acquire();
      return closed_ ? After::kDone : After::kMore;
    }));
    wait_reached();
  }
  ~Gate() { EXPECT_TRUE(closed_); }
  void wait_reached() { reached_.acquire(); }
  // One turn for everybody in line behind this one, and around again.
  void next_turn() {
    go_.release();
    wait_reached();
  }
  void close() {
    closed_ = true;
    go_.release();
  }

 private:
  std::counting_semaphore<> reached_{0}, go_{0};
  std::atomic<bool> closed_ = false;
};

TEST(TextPool, QuickWorkRunsWhileEveryTextThreadIsBusy) {
  for (const int threads : {1, 3}) {
    TextPool pool(threads);
    std::latch all_in(threads), go(1), quick(2);
    for (int i = 0; i < threads; ++i)
      EXPECT_TRUE(pool.post_text([&] {
        all_in.count_down();
        go.wait();
        return After::kDone;
      }));
    all_in.wait();
    EXPECT_TRUE(pool.post_text([&] { return After::kDone; }));
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(pool.post_quick([&] { quick.count_down(); }));
    quick.wait();
    go.count_down();
    pool.join();
  }
}

TEST(TextPool, TextsTakeTurns) {
  TextPool pool(1);
  Gate gate(pool);
  std::mutex mutex;
  std::string order;
  const auto job = [&](char name, int pieces) {
    EXPECT_TRUE(pool.post_text([&, name, left = pieces]() mutable {
      const std::scoped_lock lock(mutex);
      order += name;
      return --left == 0 ? After::kDone : After::kMore;
    }));
  };
  job('a', 5);
  job('b', 1);
  job('c', 2);
  gate.close();
  pool.join();
  EXPECT_EQ(order, "abcacaaa");
}

TEST(TextPool, JoinFinishesWhatWasTakenAndRefusesTheRest) {
  TextPool pool(2);
  std::atomic<int> pieces = 0, quick = 0;
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(pool.post_text([&, left = 10]() mutable {
      ++pieces;
      return --left == 0 ? After::kDone : After::kMore;
    }));
    EXPECT_TRUE(pool.post_quick([&] { ++quick; }));
  }
  pool.join();
  EXPECT_EQ(pieces, 200);
  EXPECT_EQ(quick, 20);
  EXPECT_FALSE(pool.post_quick([] { ADD_FAILURE(); }));
  EXPECT_FALSE(pool.post_text([] { return After::kDone; }));
  pool.join();
}

std::string many_texts() {
  std::string texts;
  for (int i = 0; i < 64; ++i) texts += (i ? ",\"" : "\"") + std::string(5000, static_cast<char>('a' + i % 26)) + "\"";
  return R"({"prompt":[)" + texts + R"(],"max_tokens":1,"truncate_prompt_tokens":100})";
}

// One text thread, held: 64 large texts wait for it, and everything without text is answered meanwhile.
TEST(TextLane, TokenIdsAndHealthDoNotWaitForTexts) {
  HttpBench bench;
  Gate gate(bench.server->pool());
  RawClient texts = bench.connect();
  texts.send(post("/v1/completions", many_texts()));
  RawClient chat = bench.connect();
  chat.send(post("/v1/chat/completions", R"({"messages":[{"role":"user","content":"a"}],"max_tokens":1})"));
  ASSERT_TRUE(bench.eventually([&] { return bench.server->open_requests() == 2; }));
  EXPECT_EQ(bench.ask(post("/v1/completions", R"({"prompt":[5,6,7],"max_tokens":3})")).status, 200);
  EXPECT_EQ(bench.ask(post("/v1/completions", R"({"prompt":[[5],[6]],"max_tokens":3,"stream":true})")).status, 200);
  EXPECT_EQ(bench.ask(post("/detokenize", R"({"tokens":[5,6,7]})")).status, 200);
  EXPECT_EQ(bench.ask(post("/v1/completions", R"({"prompt":[99999]})")).status, 400);
  for (const char* path : {"/health", "/ready", "/v1/models", "/metrics"}) EXPECT_EQ(bench.ask(get(path)).status, 200) << path;
  EXPECT_FALSE(texts.read_until("HTTP", 50)) << "its texts are still waiting";
  EXPECT_FALSE(chat.read_until("HTTP", 0));
  // Behind one piece of the large request, not behind all of them.
  int turns = 0;
  for (; turns < 30 && !chat.read_until("HTTP", 50); ++turns) gate.next_turn();
  EXPECT_LT(turns, 30);
  EXPECT_EQ(chat.read_answer().status, 200);
  EXPECT_FALSE(texts.read_until("HTTP", 0));
  gate.close();
  EXPECT_EQ(texts.read_answer().status, 200);
  texts.close();
  chat.close();
  bench.expect_healthy_and_quiet();
}

// A client who leaves between two texts takes the rest out of the line: far fewer turns than it had texts, and it is gone.
TEST(TextLane, ALeaverIsDroppedBetweenTwoTexts) {
  HttpBench bench;
  Gate gate(bench.server->pool());
  RawClient texts = bench.connect();
  texts.send(post("/v1/completions", many_texts()));
  ASSERT_TRUE(bench.eventually([&] { return bench.server->open_requests() == 1; }));
  gate.next_turn();
  gate.next_turn();
  EXPECT_EQ(bench.server->open_requests(), 1);
  texts.close();
  int turns = 0;
  for (; turns < 30 && bench.server->open_requests() > 0; ++turns) {
    (void)bench.api.mailbox.wait(20);  // for the server to hear of it
    gate.next_turn();
  }
  EXPECT_LT(turns, 30);
  gate.close();
  bench.expect_healthy_and_quiet();
}

}  // namespace
}  // namespace quire::http::test
