// The driver of `quire bench serve` against a server whose answers and pauses are known.
#include "commands/serve_driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <chrono>

#include "base/json.h"
#include "http/fake_server.h"

namespace quire::commands {
namespace {

using http::test::chunk;
using http::test::event;
using http::test::FakeServer;
using http::test::json_answer;
using http::test::ServerAnswer;
using http::test::stream_end;
using http::test::stream_head;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using std::chrono::milliseconds;

std::unique_ptr<http::Client> client_of(const FakeServer& server, std::chrono::milliseconds silence = milliseconds(10000)) {
  return http::Client::open(http::parse_base_url(server.url(), "f").value(), "", {.silence = silence}).value();
}

std::string text_event(const std::string& text) { return event(R"({"choices":[{"index":0,"text":")" + text + R"(","finish_reason":null}]})"); }
std::string last_event(const std::string& finish) { return event(R"({"choices":[{"index":0,"text":"","finish_reason":")" + finish + R"("}]})"); }
std::string usage_event(int in, int out) { return event(R"({"choices":[],"usage":{"prompt_tokens":)" + std::to_string(in) + R"(,"completion_tokens":)" + std::to_string(out) + "}}"); }

boost::json::object body_of(const std::string& request) { return parse_json(request.substr(request.find("\r\n\r\n") + 4)).value().as_object(); }

std::vector<LoadConversation> conversations(int num, int turns = 1) {
  std::vector<LoadConversation> out;
  for (int i = 0; i < num; ++i) {
    LoadConversation c;
    for (int t = 0; t < turns; ++t) c.turns.push_back({"q" + std::to_string(i) + "t" + std::to_string(t), 5});
    out.push_back(c);
  }
  return out;
}

TEST(Drive, MeasuresKnownPauses) {
  FakeServer server([](const std::string&) {
    return ServerAnswer{{{stream_head(), milliseconds(60)}, {chunk(text_event("a")), milliseconds(60)}, {chunk(text_event("b")), milliseconds(90)}, {chunk(last_event("length") + usage_event(12, 2) + event("[DONE]")) + stream_end()}}};
  });
  const auto records = drive(*client_of(server), {.model = "m"}, conversations(1));
  ASSERT_THAT(records, SizeIs(1));
  const RequestRecord& r = records[0];
  EXPECT_EQ(r.failure, "");
  EXPECT_EQ(r.input_tokens, 12);
  EXPECT_EQ(r.output_tokens, 2);
  ASSERT_THAT(r.pieces, SizeIs(2));
  // The server paused at least so long; how much longer is the machine's business.
  EXPECT_GE(r.pieces[0] - r.sent, 0.110) << "120 ms, less the clocks' grain";
  EXPECT_GE(r.pieces[1] - r.pieces[0], 0.080);
  EXPECT_GE(r.ended, r.pieces[1]);
  EXPECT_LT(r.ended, 10.0);
}

TEST(Drive, AsksForStreamsWithUsageAndNothingUnusual) {
  FakeServer server([](const std::string&) { return ServerAnswer{{{stream_head() + chunk(text_event("x") + last_event("stop")) + stream_end()}}}; });
  (void)drive(*client_of(server), {.model = "m"}, conversations(1));
  (void)drive(*client_of(server), {.model = "m", .route = OpenAiRoute::kChat, .ignore_eos = true, .temperature = 0.0}, conversations(1));
  const auto requests = server.requests();
  ASSERT_THAT(requests, SizeIs(2));
  EXPECT_EQ(boost::json::serialize(body_of(requests[0])), R"({"model":"m","max_tokens":5,"prompt":"q0t0","stream":true,"stream_options":{"include_usage":true}})");
  EXPECT_THAT(requests[1], HasSubstr("POST /v1/chat/completions "));
  const auto chat = body_of(requests[1]);
  EXPECT_EQ(boost::json::serialize(chat.at("messages")), R"([{"role":"user","content":"q0t0"}])");
  EXPECT_TRUE(chat.at("ignore_eos").as_bool());
  EXPECT_EQ(chat.at("temperature").as_double(), 0.0);
}

TEST(Drive, TurnsCarryTheAnswersBeforeThem) {
  FakeServer server([](const std::string&) {
    const std::string delta = event(R"({"choices":[{"delta":{"role":"assistant","content":""}}]})") + event(R"({"choices":[{"delta":{"content":"yes"}}]})");
    return ServerAnswer{{{stream_head() + chunk(delta + event(R"({"choices":[{"delta":{},"finish_reason":"stop"}]})") + event("[DONE]")) + stream_end()}}};
  });
  const auto records = drive(*client_of(server), {.model = "m", .route = OpenAiRoute::kChat}, conversations(1, 3));
  ASSERT_THAT(records, SizeIs(3));
  for (const RequestRecord& r : records) {
    EXPECT_EQ(r.failure, "");
    EXPECT_THAT(r.pieces, SizeIs(1)) << "the empty delta is no text";
    EXPECT_EQ(r.output_tokens, std::nullopt);
  }
  EXPECT_GE(records[1].sent, records[0].ended);
  EXPECT_EQ(boost::json::serialize(body_of(server.requests().at(2)).at("messages")),
            R"([{"role":"user","content":"q0t0"},{"role":"assistant","content":"yes"},{"role":"user","content":"q0t1"},{"role":"assistant","content":"yes"},{"role":"user","content":"q0t2"}])");
}

TEST(Drive, CompletionsCarryThemAsText) {
  FakeServer server([](const std::string&) { return ServerAnswer{{{stream_head() + chunk(text_event(" yes") + last_event("stop")) + stream_end()}}}; });
  (void)drive(*client_of(server), {.model = "m"}, conversations(1, 2));
  EXPECT_EQ(body_of(server.requests().at(1)).at("prompt").as_string(), "q0t0 yes\nq0t1");
}

TEST(Drive, ConcurrencyIsBoundedAndDelaysAreSeen) {
  FakeServer server([](const std::string&) { return ServerAnswer{{{stream_head() + chunk(text_event("x")), milliseconds(30)}, {chunk(last_event("stop")) + stream_end()}}}; });
  const auto records = drive(*client_of(server), {.model = "m", .max_concurrency = 2}, conversations(6));
  const ServeSummary s = summarise(records, {50});
  EXPECT_EQ(s.completed, 6);
  EXPECT_EQ(s.peak_concurrency, 2);
  EXPECT_GT(records[5].sent - records[5].due, 0.050) << "two rounds before it";
}

TEST(Drive, ArrivalsFollowTheSchedule) {
  FakeServer server([](const std::string&) { return ServerAnswer{{{stream_head() + chunk(text_event("x") + last_event("stop")) + stream_end()}}}; });
  auto load = conversations(3);
  load[1].start_seconds = 0.1;
  load[2].start_seconds = 0.2;
  const auto records = drive(*client_of(server), {.model = "m"}, load);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(records[i].due, load[i].start_seconds);
    EXPECT_GE(records[i].sent, load[i].start_seconds);
  }
}

TEST(Drive, FailuresKeepTheirReasons) {
  const std::pair<std::string, const char*> cases[] = {
      {json_answer(R"({"error":{"message":"the queue is full"}})", "429 Too Many Requests"), "HTTP 429: the queue is full"},
      {json_answer(R"({"detail":"Not Found"})", "404 Not Found"), "HTTP 404: Not Found"},
      {json_answer("<html>", "502 Bad Gateway"), "HTTP 502: <html>"},
      {stream_head() + chunk(text_event("a")), "the connection ended within the answer"},
      {stream_head() + chunk(text_event("a")) + stream_end(), "the stream ended without a finish_reason or [DONE]"},
      {stream_head() + chunk(event("{")) + stream_end(), "an event of the stream is no JSON object"},
      {stream_head() + chunk(text_event("a") + event(R"({"error":{"message":"out of blocks"}})")) + stream_end(), "the server: out of blocks"},
      {json_answer("{}"), "the stream ended without"},
  };
  for (const auto& [bytes, reason] : cases) {
    FakeServer server([&bytes = bytes](const std::string&) { return ServerAnswer{{{bytes}}}; });
    const auto records = drive(*client_of(server), {.model = "m"}, conversations(1, 2));
    ASSERT_THAT(records, SizeIs(2));
    EXPECT_THAT(records[0].failure, HasSubstr(reason));
    EXPECT_THAT(records[1].failure, HasSubstr("not sent: an earlier turn")) << "no turn is lost without a word";
    EXPECT_THAT(server.requests(), SizeIs(1));
  }
}

TEST(MeasureWords, FindsTokensPerWordAndWhatIsFixed) {
  FakeServer server([](const std::string& request) {
    const std::string prompt(body_of(request).at("prompt").as_string());
    const auto words = std::count(prompt.begin(), prompt.end(), ' ') + 1;
    return ServerAnswer{{{json_answer(R"({"usage":{"prompt_tokens":)" + std::to_string(5 + 3 * words) + "}}")}}};
  });
  const auto rate = measure_words(*client_of(server), {.model = "m"}, 50);
  ASSERT_TRUE(rate.ok());
  EXPECT_EQ(rate->tokens_per_word, 3.0);
  EXPECT_EQ(rate->fixed_tokens, 5.0);
  EXPECT_THAT(server.requests(), SizeIs(2));
}

TEST(MeasureWords, WithoutUsageAWordIsAToken) {
  FakeServer server([](const std::string&) { return ServerAnswer{{{json_answer("{}")}}}; });
  const auto rate = measure_words(*client_of(server), {.model = "m"}, 50);
  ASSERT_TRUE(rate.ok());
  EXPECT_EQ(rate->tokens_per_word, 1.0);
}

TEST(MeasureWords, AServerThatRefusesIsAnError) {
  FakeServer server([](const std::string&) { return ServerAnswer{{{json_answer(R"({"message":"no such model"})", "404 Not Found")}}}; });
  EXPECT_THAT(measure_words(*client_of(server), {.model = "m"}, 50).error().message, AllOf(HasSubstr("--base-url"), HasSubstr("HTTP 404: no such model")));
}

TEST(Models, AreListedOrMissed) {
  FakeServer server([](const std::string&) { return ServerAnswer{{{json_answer(R"({"data":[{"id":"a"},{"id":"b"}]})")}}}; });
  EXPECT_THAT(list_models(*client_of(server)).value(), ::testing::ElementsAre("a", "b"));
  FakeServer empty([](const std::string&) { return ServerAnswer{{{json_answer("[]")}}}; });
  EXPECT_THAT(list_models(*client_of(empty)).error().message, HasSubstr("give one with --model"));
}

TEST(StreamEvents, ReasoningIsNoPartOfTheAnswer) {
  const auto event = read_stream_event(R"({"choices":[{"delta":{"reasoning_content":"hm","content":null}}]})");
  ASSERT_TRUE(event.ok());
  EXPECT_EQ(event->reasoning, "hm");
  EXPECT_EQ(event->text, "");
  EXPECT_TRUE(event->has_text());
}

TEST(StreamEvents, ForeignBytesAreSafeToPrint) {
  http::ClientOutcome outcome{.status = 500, .failure = {}, .body = "\x1b[2Jgone"};
  EXPECT_THAT(failure_of(outcome), AllOf(HasSubstr("HTTP 500: \\x1b[2Jgone"), Not(HasSubstr("\x1b"))));
}

}  // namespace
}  // namespace quire::commands
