#include "api/fields.h"

#include <gtest/gtest.h>

#include <boost/json/value.hpp>
#include <set>

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

TEST(Fields, EveryRefusedFieldSaysWhy) {
  for (const FieldRule& rule : field_rules()) {
    if (rule.fate != Fate::kNotBuilt) continue;
    EXPECT_FALSE(rule.text.empty()) << rule.name;
    const auto endpoint = static_cast<Endpoint>(rule.endpoints & kCompletions ? kCompletions : kChat);
    const std::string name(rule.name);
    const Status refused = check("{\"" + name + "\": {\"x\": 1}}", endpoint);
    ASSERT_FALSE(refused.ok()) << name;
    EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
    EXPECT_EQ(refused.error().param, name);
    EXPECT_TRUE(check("{\"" + name + "\": null}", endpoint).ok());
  }
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

TEST(Fields, LongValuesAreCutInMessages) {
  const Status status = check(R"({"n":")" + std::string(100000, 'x') + "\"}");
  ASSERT_FALSE(status.ok());
  EXPECT_LT(status.error().message.size(), 300u);
}

}  // namespace
}  // namespace quire::api
