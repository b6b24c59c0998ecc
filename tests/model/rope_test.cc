// Rotary frequencies against goldens of tools/make_rope_goldens.py (50-digit arithmetic, other formulas), through the parser of config.json.
#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <cmath>

#include "base/json.h"
#include "kit/temp_dir.h"
#include "model/spec.h"

namespace quire::model {
namespace {

namespace json = boost::json;

Result<ModelSpec> read_config(const json::object& config) {
  quire::test::TempDir dir;
  (void)dir.write("config.json", json::serialize(config));
  return read_model_spec(dir.path());
}

json::object config_of(const json::object& golden) {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"hidden_size", 256},
          {"intermediate_size", 512},
          {"num_hidden_layers", 1},
          {"num_attention_heads", 2},
          {"vocab_size", 100},
          {"head_dim", golden.at("head_dim")},
          {"max_position_embeddings", golden.at("max_position_embeddings")}};
}

void expect_golden(const ModelSpec& spec, const json::object& golden) {
  const RopeTable table = rope_table(spec.rope, spec.head_dim, spec.max_position_embeddings, golden.at("max_model_len").as_int64());
  const json::array& expected = golden.at("inv_freq").as_array();
  ASSERT_EQ(table.inv_freq.size(), expected.size());
  for (std::size_t j = 0; j < expected.size(); ++j) EXPECT_NEAR(table.inv_freq[j] / expected[j].to_number<double>(), 1.0, 1e-13) << "pair " << j;
  EXPECT_NEAR(table.attention_scale / golden.at("attention_scale").to_number<double>(), 1.0, 1e-13);
}

// Newer form, older form ("rope_type" and "type"), and both at once must give the same table.
TEST(RopeTable, MatchesTheGoldensInEveryFormOfTheConfig) {
  auto goldens = parse_json_file(QUIRE_SOURCE_DIR "/tests/model/rope_goldens.json");
  ASSERT_TRUE(goldens.ok()) << goldens.error().message;
  const json::array& cases = goldens.value().as_object().at("cases").as_array();
  ASSERT_GE(cases.size(), 20u);
  for (const json::value& value : cases) {
    const json::object& golden = value.as_object();
    SCOPED_TRACE(json::serialize(golden.at("rope")));
    const json::object& rope = golden.at("rope").as_object();
    json::object newer = config_of(golden), older = config_of(golden), oldest = config_of(golden), both = config_of(golden);
    json::object parameters = rope, typed = rope;
    parameters["rope_theta"] = golden.at("rope_theta");
    typed["type"] = rope.at("rope_type");
    typed.erase("rope_type");
    newer["rope_parameters"] = parameters;
    older["rope_theta"] = oldest["rope_theta"] = both["rope_theta"] = golden.at("rope_theta");
    older["rope_scaling"] = rope;
    oldest["rope_scaling"] = typed;
    both["rope_scaling"] = rope;
    both["rope_parameters"] = parameters;
    for (const json::object& config : {newer, older, oldest, both}) {
      auto spec = read_config(config);
      ASSERT_TRUE(spec.ok()) << spec.error().message;
      expect_golden(spec.value(), golden);
    }
  }
}

TEST(RopeTable, DefaultIsWhatTheFormulaSays) {
  const RopeTable table = rope_table(RopeSpec{}, 4, 2048, 2048);
  ASSERT_EQ(table.inv_freq.size(), 2u);
  EXPECT_DOUBLE_EQ(table.inv_freq[0], 1.0);
  EXPECT_DOUBLE_EQ(table.inv_freq[1], 0.01);
  EXPECT_EQ(table.attention_scale, 1.0);
}

// Only "dynamic" depends on the served length.
TEST(RopeTable, OnlyDynamicLooksAtTheServedLength) {
  for (const RopeKind kind : {RopeKind::kDefault, RopeKind::kLinear, RopeKind::kDynamic, RopeKind::kLlama3, RopeKind::kYarn}) {
    RopeSpec rope;
    rope.kind = kind;
    rope.factor = 4.0;
    rope.original_max_position_embeddings = 2048;
    const auto at = [&](std::int64_t served) { return rope_table(rope, 64, 2048, served).inv_freq; };
    EXPECT_EQ(at(2048), at(512));
    EXPECT_EQ(at(2048) == at(8192), kind != RopeKind::kDynamic);
  }
}

TEST(DerivedMaxModelLen, FollowsVllm) {
  struct Case {
    RopeKind kind;
    double factor;
    std::int64_t original, positions, tokenizer, expected;
  };
  const Case cases[] = {
      {RopeKind::kDefault, 1, 0, 2048, 0, 2048},
      {RopeKind::kDefault, 1, 0, 2048, 1024, 1024},
      {RopeKind::kDefault, 1, 0, 2048, 999999999999, 2048},
      {RopeKind::kLinear, 4, 0, 4096, 0, 16384},
      {RopeKind::kLinear, 4, 0, 4096, 2048, 8192},
      {RopeKind::kLinear, 2.5, 0, 2049, 0, 5122},
      {RopeKind::kDynamic, 2, 0, 2048, 0, 4096},
      {RopeKind::kLlama3, 8, 8192, 131072, 0, 131072},
      {RopeKind::kLlama3, 8, 8192, 131072, 4096, 4096},
      {RopeKind::kYarn, 4, 32768, 131072, 0, 131072},
      {RopeKind::kYarn, 4, 32768, 32768, 1024, 131072},
      {RopeKind::kYarn, 4, 0, 1000, 0, 4000},
  };
  for (const Case& c : cases) {
    ModelSpec spec;
    spec.max_position_embeddings = c.positions;
    spec.rope.kind = c.kind;
    spec.rope.factor = c.factor;
    spec.rope.original_max_position_embeddings = c.original;
    EXPECT_EQ(derived_max_model_len(spec, c.tokenizer), c.expected) << static_cast<int>(c.kind) << " " << c.factor << " " << c.tokenizer;
  }
}

}  // namespace
}  // namespace quire::model
