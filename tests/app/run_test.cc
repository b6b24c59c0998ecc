// quire run: the same rules as a request to the server, and nothing cut without a word.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/value.hpp>

#include "base/json.h"
#include "program.h"

namespace quire::app_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::string kQuestion = "Question: Ada has 3 apples. Ada buys 4 more apples. How many apples does Ada have now?\nAnswer:";

Ended ask(const std::vector<std::string>& more) {
  std::vector<std::string> flags{"--prompt", kQuestion, "--json", "--temperature", "0"};
  flags.insert(flags.end(), more.begin(), more.end());
  return run_quire(with_tiny_model("run", flags));
}

TEST(Run, AnswersAsOneDocument) {
  const Ended ended = ask({"--max-tokens", "12"});
  ASSERT_EQ(ended.status, 0) << ended.err;
  const auto document = parse_json(ended.out).value();
  EXPECT_EQ(document.at("usage").at("completion_tokens").to_number<int>(), 12);
  EXPECT_EQ(document.at("finish_reason").as_string(), "length");
  EXPECT_THAT(std::string(document.at("text").as_string()), HasSubstr("7"));
}

TEST(Run, SamplingFlagsHaveTheRangesOfARequest) {
  for (const auto& [flag, value, allowed] : {std::tuple("--top-p", "0", "a number above 0 and at most 1"), std::tuple("--top-p", "1.5", "a number above 0 and at most 1"),
                                             std::tuple("--temperature", "-1", "a number of at least 0"), std::tuple("--top-k", "-2", "an integer: -1 or 0 for off"),
                                             std::tuple("--max-tokens", "0", "an integer from 1 to 2147483647")}) {
    const Ended ended = run_quire({"run", "nowhere", "--prompt", "x", flag, value});
    EXPECT_EQ(ended.status, 2);
    EXPECT_THAT(ended.err, HasSubstr(std::string("quire: error: ") + flag + " '" + value + "': must be " + allowed));
  }
}

TEST(Run, TokensThatCannotFitAreRefused) {
  const Ended over = ask({"--max-tokens", "2023"});
  EXPECT_EQ(over.status, 2);
  EXPECT_EQ(over.out, "");
  EXPECT_THAT(over.err, HasSubstr("quire run: error: --max-tokens 2023: the prompt has 26 tokens and the context 2048, so at most 2022 fit"));
  EXPECT_THAT(over.err, Not(HasSubstr("loading weights"))) << "refused before anything is loaded";
  const Ended prompt = ask({"--max-model-len", "26"});
  EXPECT_EQ(prompt.status, 2);
  EXPECT_THAT(prompt.err, HasSubstr("--prompt: This model's maximum context length is 26 tokens, and the input has 26"));
}

TEST(Run, WithoutTheFlagTheAnswerEndsWithTheContextAndSaysSo) {
  const Ended ended = ask({"--max-model-len", "32"});
  ASSERT_EQ(ended.status, 0) << ended.err;
  EXPECT_EQ(parse_json(ended.out).value().at("usage").at("completion_tokens").to_number<int>(), 6);
  EXPECT_THAT(ended.err, HasSubstr("--max-tokens: 6 instead of 128"));
}

}  // namespace
}  // namespace quire::app_test
