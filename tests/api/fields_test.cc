#include "api/fields.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/value.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/json.h"

namespace quire::api {
namespace {

boost::json::object parse(const std::string& text) { return parse_json(text).value().as_object(); }
const FieldLimits kLimits{.max_n = 128, .max_logprobs = 20, .max_stops = 4, .vocab_size = 576};

Status check(const std::string& body, Endpoint endpoint = kCompletions) { return check_fields(parse(body), endpoint, kLimits); }

TEST(Fields, NoFieldHasTwoRulesAtOneEndpoint) {
  for (const unsigned endpoint : {1u, 2u, 4u, 8u}) {
    std::set<std::string_view> seen;
    for (const FieldRule& rule : field_rules()) {
      if ((rule.endpoints & endpoint) != 0) {
        EXPECT_TRUE(seen.insert(rule.name).second) << rule.name;
      }
    }
  }
}

const std::vector<std::string> kEmptyValues = {"false", "0", "\"\"", "[]", "{}", "\"none\""};

// A field that is not built is refused whatever its value, wrong types and empty ones included; null and the one value that the
// table names ask for nothing.
TEST(Fields, EveryFieldThatIsNotBuiltIsRefusedByNameAndReason) {
  const std::map<Nothing, std::string> nothing = {{Nothing::kNullAlone, ""},     {Nothing::kFalse, "false"},      {Nothing::kZero, "0"},
                                                  {Nothing::kEmptyList, "[]"}, {Nothing::kEmptyObject, "{}"}, {Nothing::kNoneWord, "\"none\""}};
  for (const FieldRule& rule : field_rules()) {
    if (rule.fate != Fate::kNotBuilt) continue;
    EXPECT_FALSE(rule.text.empty()) << rule.name;
    const std::string name(rule.name);
    for (const unsigned bit : {1u, 2u, 4u, 8u}) {
      if ((rule.endpoints & bit) == 0) continue;
      const auto endpoint = static_cast<Endpoint>(bit);
      std::vector<std::string> values = {"{\"x\": 1}", "[1]", "\"x\"", "1", "true", "0.5"};
      values.insert(values.end(), kEmptyValues.begin(), kEmptyValues.end());
      for (const std::string& value : values) {
        const Status status = check("{\"" + name + "\": " + value + "}", endpoint);
        EXPECT_EQ(status.ok(), value == nothing.at(rule.nothing)) << name << " " << value;
        if (status.ok()) continue;
        EXPECT_EQ(status.error().code, ErrorCode::kUnsupported);
        EXPECT_EQ(status.error().param, name);
        EXPECT_TRUE(status.error().message.starts_with(name + ": ")) << status.error().message;
      }
      EXPECT_TRUE(check("{\"" + name + "\": null}", endpoint).ok());
    }
  }
}

// The fields of vLLM's two request classes, old and new: each has a row at its endpoint, so that none of them can be dropped
// without a word.
TEST(Fields, EveryFieldOfVllmHasARow) {
  const std::vector<std::string> both = {
      "model", "frequency_penalty", "logit_bias", "logprobs", "max_tokens", "n", "presence_penalty", "seed", "stop", "stream", "stream_options", "temperature", "top_p", "user", "best_of",
      "use_beam_search", "top_k", "min_p", "repetition_penalty", "length_penalty", "stop_token_ids", "include_stop_str_in_output", "ignore_eos", "min_tokens", "skip_special_tokens",
      "spaces_between_special_tokens", "truncate_prompt_tokens", "truncation_side", "allowed_token_ids", "prompt_logprobs", "bad_words", "logprob_token_ids", "add_special_tokens",
      "response_format", "structured_outputs", "guided_json", "guided_regex", "guided_choice", "guided_grammar", "structural_tag", "guided_decoding_backend", "guided_whitespace_pattern",
      "priority", "request_id", "session_id", "logits_processors", "return_tokens_as_token_ids", "return_token_ids", "return_token_offsets", "return_mm_kwargs",
      "routed_experts_prompt_start", "cache_salt", "kv_transfer_params", "ec_transfer_params", "vllm_xargs", "repetition_detection", "max_repetition_pattern_size",
      "min_repetition_pattern_size", "repetition_min_count", "watermarking", "thinking_token_budget", "stream_interval", "echo"};
  const std::vector<std::string> completions = {"prompt", "prompt_embeds", "suffix"};
  const std::vector<std::string> chat = {"messages", "top_logprobs", "max_completion_tokens", "tools", "tool_choice", "parallel_tool_calls", "reasoning_effort", "include_reasoning",
                                         "add_generation_prompt", "continue_final_message", "documents", "chat_template", "chat_template_kwargs", "mm_processor_kwargs", "media_io_kwargs",
                                         "return_prompt_text", "functions", "function_call"};
  const auto has = [](const std::string& name, unsigned endpoint) {
    return std::ranges::any_of(field_rules(), [&](const FieldRule& rule) { return rule.name == name && (rule.endpoints & endpoint) != 0; });
  };
  for (const std::string& name : both) EXPECT_TRUE(has(name, kCompletions) && has(name, kChat)) << name;
  for (const std::string& name : completions) EXPECT_TRUE(has(name, kCompletions)) << name;
  for (const std::string& name : chat) EXPECT_TRUE(has(name, kChat)) << name;
}

// For every rule with a type: each wrong type is refused by name, null is fine.
TEST(Fields, WrongTypesAreRefusedByName) {
  const std::vector<std::pair<FieldType, std::string>> samples = {
      {FieldType::kBool, "true"}, {FieldType::kInteger, "1"}, {FieldType::kNumber, "0.5"}, {FieldType::kString, "\"s\""}, {FieldType::kObject, "{}"}, {FieldType::kArray, "[{}]"}};
  for (const FieldRule& rule : field_rules()) {
    if (rule.type == FieldType::kAny || rule.fate == Fate::kNotBuilt) continue;
    const auto endpoint = static_cast<Endpoint>(rule.endpoints & -rule.endpoints);
    for (const auto& [type, text] : samples) {
      const bool fits = type == rule.type || (rule.type == FieldType::kNumber && type == FieldType::kInteger) || (rule.type == FieldType::kStrings && type == FieldType::kString);
      if (fits) continue;
      const Status status = check("{\"" + std::string(rule.name) + "\":" + text + "}", endpoint);
      ASSERT_FALSE(status.ok()) << rule.name << " takes " << text;
      EXPECT_EQ(status.error().param, rule.name);
      EXPECT_NE(status.error().message.find(rule.name), std::string::npos);
    }
    EXPECT_TRUE(check("{\"" + std::string(rule.name) + "\":null}", endpoint).ok()) << rule.name;
  }
}

TEST(Fields, RangesAreVllms) {
  for (const char* bad : {R"({"n":0})", R"({"n":129})", R"({"temperature":-0.1})", R"({"temperature":1e400})", R"({"top_p":0})", R"({"top_p":1.01})", R"({"top_k":-2})",
                          R"({"min_p":-0.1})", R"({"min_p":1.1})", R"({"presence_penalty":2.1})", R"({"frequency_penalty":-2.1})", R"({"repetition_penalty":0})",
                          R"({"max_tokens":-1})", R"({"max_tokens":2147483648})", R"({"min_tokens":-1})", R"({"logprobs":21})", R"({"logprobs":-1})", R"({"logprobs":-2})",
                          R"({"prompt_logprobs":21})", R"({"seed":9223372036854775808})", R"({"seed":1.5})", R"({"stop":["a","b","c","d","e"]})", R"({"best_of":2})",
                          R"({"priority":2147483648})", R"({"truncate_prompt_tokens":-2})"}) {
    const auto parsed = parse_json(bad);
    if (!parsed.ok()) continue;  // 1e400 may be refused as JSON already
    EXPECT_FALSE(check(bad).ok()) << bad;
  }
  for (const char* good : {R"({"n":128})", R"({"temperature":0})", R"({"temperature":2})", R"({"top_p":1})", R"({"top_k":-1})", R"({"top_k":0})", R"({"min_p":1})", R"({"max_tokens":0})",
                           R"({"max_tokens":16.0})", R"({"logprobs":20})", R"({"seed":-9223372036854775808})", R"({"seed":9223372036854775807})", R"({"stop":["a","b","c","d"]})",
                           R"({"best_of":1})", R"({"something_new":{"x":[1]}})", R"({"user":"u"})", R"({"logit_bias":{"1":5}})"})
    EXPECT_TRUE(check(good).ok()) << good << " " << check(good).error().message;
}

// Every integer field: what int64 cannot hold is a matter of range, not of type, and the range is in the text.
TEST(Fields, HugeIntegersAreOutOfRange) {
  for (const FieldRule& rule : field_rules()) {
    if (rule.type != FieldType::kInteger) continue;
    EXPECT_FALSE(rule.text.empty()) << rule.name;
    const auto endpoint = static_cast<Endpoint>(rule.endpoints & -rule.endpoints);
    for (const char* value : {"9223372036854775808", "18446744073709551615", "99999999999999999999999", "-9223372036854775809", "1e300", "-1e300"}) {
      const Status status = check("{\"" + std::string(rule.name) + "\":" + value + "}", endpoint);
      ASSERT_FALSE(status.ok()) << rule.name << " " << value;
      const std::string& message = status.error().message;
      EXPECT_EQ(status.error().param, rule.name);
      EXPECT_TRUE(message.find("out of range; allowed: ") != std::string::npos || message.find("over the limit of ") != std::string::npos) << message;
      EXPECT_EQ(message.find("not an integer"), std::string::npos) << message;
      EXPECT_NE(message.find_first_of("0123456789", message.find("allowed") == std::string::npos ? message.find("limit") : message.find("allowed")), std::string::npos) << message;
    }
    EXPECT_NE(check("{\"" + std::string(rule.name) + "\":1.5}", endpoint).error().message.find("not an integer"), std::string::npos) << rule.name;
  }
  // A double this large no longer says which integer was meant.
  EXPECT_NE(check(R"({"seed":1e17})").error().message.find("not exact"), std::string::npos);
  EXPECT_TRUE(check(R"({"seed":100000000000000000})").ok());
}

// Every list field: the message names the entry that is wrong.
TEST(Fields, ListErrorsNameTheEntry) {
  for (const FieldRule& rule : field_rules()) {
    const bool strings = rule.type == FieldType::kStrings, integers = rule.type == FieldType::kIntegers;
    if ((!strings && !integers) || rule.fate == Fate::kNotBuilt) continue;
    const auto endpoint = static_cast<Endpoint>(rule.endpoints & -rule.endpoints);
    const std::string name(rule.name), good = strings ? "\"a\"" : "1";
    for (const char* bad : {"null", "true", "{}", "[]", "0.5"}) {
      const Status status = check("{\"" + name + "\":[" + good + "," + good + "," + bad + "]}", endpoint);
      ASSERT_FALSE(status.ok()) << name << " " << bad;
      EXPECT_TRUE(status.error().message.starts_with(name + "[2]: ")) << status.error().message;
      EXPECT_EQ(status.error().param, name);
    }
  }
}

TEST(Fields, LongValuesAreCutInMessages) {
  const Status status = check(R"({"n":")" + std::string(100000, 'x') + "\"}");
  ASSERT_FALSE(status.ok());
  EXPECT_LT(status.error().message.size(), 300u);
}

}  // namespace
}  // namespace quire::api
