// Standard output of every subcommand: what cannot be written is an error, and a reader that has had enough is none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "kit/slowdown.h"
#include "program.h"

namespace quire::app_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Line {
  const char* name;
  std::vector<std::string> arguments;
};

std::vector<Line> lines() {
  const std::vector<std::string> answer{"--prompt", "Question: Ada has 3 apples.", "--temperature", "0", "--max-tokens", "8"};
  auto answer_json = answer;
  answer_json.emplace_back("--json");
  return {{"help", {"--help"}},
          {"serve_help", {"serve", "--help"}},
          {"run_help", {"run", "--help"}},
          {"explain_help", {"explain", "--help"}},
          {"version", {"--version"}},
          {"version_json", {"--version", "--json"}},
          {"print_config", with_tiny_model("serve", {"--print-config"})},
          {"print_config_json", with_tiny_model("serve", {"--print-config", "--json"})},
          {"explain", with_tiny_model("explain")},
          {"explain_json", with_tiny_model("explain", {"--json"})},
          {"plan", with_tiny_model("plan")},
          {"plan_json", with_tiny_model("plan", {"--json"})},
          {"doctor", with_tiny_model("doctor")},
          {"doctor_json", with_tiny_model("doctor", {"--json"})},
          {"run", with_tiny_model("run", answer)},
          {"run_json", with_tiny_model("run", answer_json)}};
}

// Ten terabytes of KV cache (200 gigabytes where a sanitizer's address space holds no more): the plan is the answer, and its verdict the
// exit status.
TEST(Plan, ThatDoesNotFitEndsWithOne) {
  for (const std::vector<std::string>& form : {std::vector<std::string>{}, {"--json"}}) {
    std::vector<std::string> flags{"--num-gpu-blocks-override", quire::test::kSlowdown > 1 ? "4000000" : "200000000"};
    flags.insert(flags.end(), form.begin(), form.end());
    const Ended ended = run_quire(with_tiny_model("plan", flags));
    EXPECT_EQ(ended.status, 1) << ended.err;
    EXPECT_THAT(ended.out, ::testing::AnyOf(HasSubstr("\ndoes not fit: not enough memory"), HasSubstr("\"fits\":false")));
  }
}

class StandardOutput : public ::testing::TestWithParam<Line> {};

TEST_P(StandardOutput, HoldsTheAnswer) {
  const Ended ended = run_quire(GetParam().arguments);
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_FALSE(ended.out.empty());
  EXPECT_EQ(ended.out.back(), '\n');
  if (GetParam().arguments.back() == "--json") {
    EXPECT_TRUE(parse_json(ended.out).ok()) << ended.out;
  }
}

TEST_P(StandardOutput, ThatIsFullIsAnError) {
  const Ended ended = run_quire(GetParam().arguments, Output::kFullDevice);
  EXPECT_EQ(ended.status, 1) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("error: cannot write standard output: No space left on device"));
}

TEST_P(StandardOutput, ThatIsClosedIsAnError) {
  const Ended ended = run_quire(GetParam().arguments, Output::kClosed);
  EXPECT_EQ(ended.status, 1) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("error: cannot write standard output: Bad file descriptor"));
}

TEST_P(StandardOutput, WithoutAReaderEndsQuietly) {
  const Ended ended = run_quire(GetParam().arguments, Output::kReaderGone);
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.err, Not(HasSubstr("error:")));
}

INSTANTIATE_TEST_SUITE_P(EverySubcommand, StandardOutput, ::testing::ValuesIn(lines()), [](const auto& line) { return std::string(line.param.name); });

// A reader that leaves ends the answer: the rest is not made for nobody.
TEST(Run, StopsWhenNobodyReads) {
  const Ended ended = run_quire(with_tiny_model("run", {"--prompt", "Question:", "--max-tokens", "1900", "--temperature", "1.5", "--seed", "1"}), Output::kReaderGone, {{"QUIRE_LOG_LEVEL", "debug"}});
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("request run ended: abort"));
}

}  // namespace
}  // namespace quire::app_test
