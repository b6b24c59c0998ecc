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
  ASSERT_TRUE(bench.eventually([&] { return bench.server->pool().num_texts_in_line() == 2; }));
  EXPECT_EQ(bench.ask(post("/v1/completions", R"({"prompt":[5,6,7],"max_tokens":3})")).status, 200);
  EXPECT_EQ(bench.ask(post("/v1/completions", R"({"prompt":[[5],[6]],"max_tokens":3,"stream":true})")).status, 200);
  EXPECT_EQ(bench.ask(post("/detokenize", R"({"tokens":[5,6,7]})")).status, 200);
  EXPECT_EQ(bench.ask(post("/v1/completions", R"({"prompt":[99999]})")).status, 400);
  for (const char* path : {"/health", "/ready", "/v1/models", "/metrics"}) EXPECT_EQ(bench.ask(get(path)).status, 200) << path;
  EXPECT_EQ(bench.server->pool().num_texts_in_line(), 2u) << "no text was read meanwhile";
  EXPECT_FALSE(texts.read_until("HTTP", 0));
  EXPECT_FALSE(chat.read_until("HTTP", 0));
  gate.next_turn();  // one piece each: the chat waited behind one piece of the large request, not behind all of them
  EXPECT_EQ(bench.server->pool().num_texts_in_line(), 1u);
  EXPECT_EQ(chat.read_answer().status, 200);
  EXPECT_FALSE(texts.read_until("HTTP", 0));
  gate.close();
  EXPECT_EQ(texts.read_answer().status, 200);
  texts.close();
  chat.close();
  bench.expect_healthy_and_quiet();
}

// A client who leaves between two texts takes the rest out of the line: far fewer turns than it had texts, and it is gone. How long the
// server takes to hear of it depends on the machine, so each turn waits twice as long for that as the one before.
TEST(TextLane, ALeaverIsDroppedBetweenTwoTexts) {
  HttpBench bench;
  Gate gate(bench.server->pool());
  RawClient texts = bench.connect();
  texts.send(post("/v1/completions", many_texts()));
  TextPool& pool = bench.server->pool();
  ASSERT_TRUE(bench.eventually([&] { return pool.num_texts_in_line() == 1; }));
  gate.next_turn();
  gate.next_turn();
  EXPECT_EQ(pool.num_texts_in_line(), 1u);
  texts.close();
  constexpr int kMostTurns = 12;  // of 62 texts that are left
  int turns = 0, patience_ms = 5;
  for (; turns < kMostTurns && pool.num_texts_in_line() > 0; ++turns, patience_ms *= 2) {
    (void)bench.api.mailbox.wait(patience_ms);
    gate.next_turn();
  }
  EXPECT_LT(turns, kMostTurns);
  gate.close();
  bench.expect_healthy_and_quiet();
}

}  // namespace
}  // namespace quire::http::test
