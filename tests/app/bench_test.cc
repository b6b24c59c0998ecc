// quire bench serve against a real server, and the engine's own benches.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

#include "base/files.h"
#include "base/json.h"
#include "http/fake_server.h"
#include "program.h"

namespace quire::app_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

boost::json::object document_of(const Ended& ended) {
  const auto parsed = parse_json(ended.out);
  EXPECT_TRUE(parsed.ok()) << ended.out << ended.err;
  return parsed.ok() ? parsed.value().as_object() : boost::json::object();
}

double number(const boost::json::object& document, const char* name) { return document.at(name).to_number<double>(); }

TEST(BenchServe, MeasuresAServer) {
  const RunningServer server;
  ASSERT_TRUE(server.ready()) << server.log();
  const ::quire::test::TempDir dir;
  const std::string plot = dir.path() + "/plot.svg";
  std::vector<std::string> line{"bench", "serve", "--base-url", server.url(), "--model", "gsm-tiny", "--num-prompts", "12", "--input-len", "40", "--prefix-len", "16", "--output-len", "8", "--ignore-eos", "--max-concurrency", "3", "--plot", plot, "--json"};
  const Ended ended = run_quire(line);
  ASSERT_EQ(ended.status, 0) << ended.err;
  const auto document = document_of(ended);
  EXPECT_EQ(number(document, "completed"), 12);
  EXPECT_EQ(number(document, "failed"), 0);
  EXPECT_EQ(number(document, "total_output_tokens"), 12 * 8) << "full length, as asked for";
  // 56 tokens a prompt, less what words cannot hit: the vocabulary of 576 tokens cuts them in two to six.
  EXPECT_NEAR(number(document, "total_input_tokens") / 12, 56, 56 * 0.35);
  EXPECT_GE(number(document, "max_concurrent_requests"), 1);
  EXPECT_LE(number(document, "max_concurrent_requests"), 3);
  EXPECT_EQ(number(document, "outputs_counted_by_pieces"), 0);
  EXPECT_GT(number(document, "output_throughput"), 0);
  EXPECT_GE(number(document, "mean_e2el_ms"), number(document, "mean_ttft_ms"));
  EXPECT_GE(number(document, "p99_ttft_ms"), number(document, "p50_ttft_ms"));
  EXPECT_THAT(read_file(plot, 1u << 20).value(), HasSubstr("</svg>"));
}

TEST(BenchServe, ConversationsThroughChatAndFailuresWithReasons) {
  const RunningServer server;
  ASSERT_TRUE(server.ready()) << server.log();
  const Ended good = run_quire({"bench", "serve", "--base-url", server.url() + "/v1", "--endpoint", "chat", "--num-prompts", "3", "--turns", "2", "--input-len", "20", "--output-len", "4", "--request-rate", "50", "--json"});
  ASSERT_EQ(good.status, 0) << good.err;
  EXPECT_EQ(number(document_of(good), "completed"), 6) << "three conversations of two turns, with the model that the server names";

  const ::quire::test::TempDir dir;
  const std::string dataset = dir.write("d.jsonl", "{\"prompt\": \"one\"}\n{\"prompt\": \"two\", \"output_tokens\": 100000}\n");
  const Ended bad = run_quire({"bench", "serve", "--base-url", server.url(), "--model", "gsm-tiny", "--num-prompts", "4", "--dataset", dataset, "--output-len", "3"});
  EXPECT_EQ(bad.status, 1) << "a request failed";
  EXPECT_THAT(bad.out, AllOf(HasSubstr("2 completed, 2 failed"), HasSubstr("failed      2: HTTP 400: ")));
}

// The log and the report name the model as the server does, and no more of its bytes than a line may hold.
TEST(BenchServe, AServerGivesNoOrdersToTheTerminal) {
  using namespace http::test;
  FakeServer server([](const std::string& request) {
    if (request.starts_with("GET")) return ServerAnswer{{{json_answer(R"({"data":[{"id":"m\u001b]0;x\u0007\u009b2J"}]})")}}};
    if (request.find("\"stream\":true") == std::string::npos) return ServerAnswer{{{json_answer(R"({"usage":{"prompt_tokens":9}})")}}};
    return ServerAnswer{{{stream_head() + chunk(event(R"({"error":{"message":"no \u001b[2J\u009b2J"}})")) + stream_end()}}};
  });
  const Ended ended = run_quire({"bench", "serve", "--base-url", server.url(), "--num-prompts", "1"});
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.out, AllOf(HasSubstr(R"(m\x1b]0;x\x07\xc2\x9b2J at http)"), HasSubstr(R"(no \x1b[2J\xc2\x9b2J)")));
  EXPECT_THAT(ended.err, HasSubstr(R"(m\x1b]0;x\x07\xc2\x9b2J at http)"));
  for (const std::string& text : {ended.out, ended.err})
    for (const char* control : {"\x1b", "\x07", "\xc2\x9b"}) EXPECT_EQ(text.find(control), std::string::npos) << text;
}

// Each of these fails after --plot was looked at.
TEST(BenchServe, ABenchThatFailsKeepsTheOldChart) {
  const ::quire::test::TempDir dir;
  const std::string old = dir.write("old.svg", "the chart of yesterday"), fresh = dir.path() + "/new.svg";
  for (const std::string& plot : {old, fresh}) EXPECT_NE(run_quire({"bench", "serve", "--base-url", "http://127.0.0.1:1", "--plot", plot}).status, 0);
  EXPECT_EQ(read_file(old, 1u << 20).value(), "the chart of yesterday");
  EXPECT_FALSE(file_exists(fresh));
  EXPECT_FALSE(file_exists(fresh + ".partial"));
}

TEST(BenchServe, ASilentServerIsGivenUpWhenTheUserSays) {
  using namespace http::test;
  FakeServer server([](const std::string& request) {
    if (request.find("\"stream\":true") == std::string::npos) return ServerAnswer{{{json_answer(R"({"usage":{"prompt_tokens":9}})")}}};
    return ServerAnswer{{}, AtEnd::kStayOpen};
  });
  const Ended ended = run_quire({"bench", "serve", "--base-url", server.url(), "--model", "m", "--num-prompts", "2", "--read-timeout", "0.5"});
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.out, HasSubstr("failed      2: the server sent nothing for 500 ms"));
}

TEST(BenchServe, WhatCannotBeMeasuredIsRefused) {
  const auto error = [](const std::vector<std::string>& more) {
    std::vector<std::string> line{"bench", "serve"};
    line.insert(line.end(), more.begin(), more.end());
    const Ended ended = run_quire(line);
    EXPECT_NE(ended.status, 0);
    EXPECT_EQ(ended.out, "");
    return ended.err;
  };
  EXPECT_THAT(error({}), HasSubstr("--base-url is missing"));
  EXPECT_THAT(error({"--base-url", "http://127.0.0.1:1"}), HasSubstr("GET /v1/models: cannot connect: Connection refused"));
  EXPECT_THAT(error({"--base-url", "http://h", "--percentiles", "x"}), HasSubstr("--percentiles 'x'"));
  EXPECT_THAT(error({"--base-url", "http://h", "--request-rate", "0"}), HasSubstr("--request-rate '0': must be a number"));
  EXPECT_THAT(error({"--base-url", "http://h", "--dataset", "/no/such/file"}), HasSubstr("--dataset"));
  EXPECT_THAT(error({"--base-url", "http://h", "--plot", "/no/such/folder/x.svg"}), HasSubstr("--plot"));
}

TEST(BenchLatency, TimesBatchesAndSaysWhereAStepGoes) {
  const Ended ended = run_quire([] {
    std::vector<std::string> line = with_tiny_model("latency", {"--batch-size", "4", "--input-len", "24", "--output-len", "6", "--num-iters", "3", "--num-iters-warmup", "1", "--json"});
    line.insert(line.begin(), "bench");
    return line;
  }());
  ASSERT_EQ(ended.status, 0) << ended.err;
  const auto document = document_of(ended);
  EXPECT_EQ(document.at("latencies").as_array().size(), 3u);
  const auto& step = document.at("step").as_object();
  EXPECT_GE(number(step, "steps"), 3 * 6) << "a token a step";
  const double wall = number(step, "wall_seconds");
  double batches = 0.0, parts = 0.0, kernels = 0.0;
  for (const auto& seconds : document.at("latencies").as_array()) batches += seconds.to_number<double>();
  for (const auto& part : step.at("parts_seconds").as_object()) parts += part.value().to_number<double>();
  for (const auto& kernel : step.at("kernels").as_object()) kernels += kernel.value().at("seconds").to_number<double>();
  EXPECT_NEAR(parts, wall, 1e-9 * wall);
  EXPECT_NEAR(batches, wall, 1e-9 * wall) << "a step's time is the batches' time";
  EXPECT_GT(kernels, 0.0);
  EXPECT_LE(kernels, wall);
  for (const auto& part : step.at("parts_seconds").as_object()) EXPECT_GE(part.value().to_number<double>(), 0.0) << part.key();
  EXPECT_GT(step.at("parts_seconds").at("linear layers").to_number<double>(), 0.0);
  EXPECT_GT(step.at("parts_seconds").at("attention").to_number<double>(), 0.0);
}

TEST(BenchThroughput, CountsTokens) {
  std::vector<std::string> line = with_tiny_model("throughput", {"--num-prompts", "10", "--input-len", "16", "--output-len", "4"});
  line.insert(line.begin(), "bench");
  const Ended ended = run_quire(line);
  ASSERT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.out, AllOf(HasSubstr("10 requests, 160 tokens in, 40 out"), HasSubstr("linear layers"), HasSubstr("launches")));
}

TEST(BenchThroughput, PromptsThatCannotFitAreRefusedBeforeLoading) {
  std::vector<std::string> line = with_tiny_model("throughput", {"--max-model-len", "64"});
  line.insert(line.begin(), "bench");
  const Ended ended = run_quire(line);
  EXPECT_EQ(ended.status, 2);
  EXPECT_THAT(ended.err, AllOf(HasSubstr("--input-len 1024"), ::testing::Not(HasSubstr("loading weights"))));
}

}  // namespace
}  // namespace quire::app_test
