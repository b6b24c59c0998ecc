// The value of kv_cache_scheme: every form that exporters write, and what is refused in which words.
#include "model/kv_scheme.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/json_fields.h"

namespace quire::model::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Parsed {
  std::optional<KvScheme> scheme;
  std::string refusal;  // "": none
};

Parsed parsed(const std::string& text) {
  const auto value = parse_json(text);
  QUIRE_CHECK(value.ok()) << value.error().message;
  Findings findings;
  Parsed out{parse_kv_cache_scheme(value.value(), "quantization_config.kv_cache_scheme", findings), ""};
  if (const Status status = findings.status("config.json"); !status.ok()) out.refusal = status.error().message;
  return out;
}

TEST(KvScheme, NullDeclaresNothing) {
  EXPECT_EQ(parsed("null").scheme, std::nullopt);
  EXPECT_EQ(parsed("null").refusal, "");
}

TEST(KvScheme, EveryFormThatExportersWrite) {
  const char* const kTensor[] = {
      R"("static")",
      R"({"num_bits": 8, "type": "float", "strategy": "tensor", "dynamic": false, "symmetric": true})",
      // compressed-tensors in full, before and after zp_dtype
      R"({"actorder": null, "block_structure": null, "dynamic": false, "group_size": null, "num_bits": 8, "observer": "minmax", "observer_kwargs": {},
          "strategy": "tensor", "symmetric": true, "type": "float"})",
      R"({"num_bits": 8, "type": "float", "strategy": "tensor", "dynamic": false, "symmetric": true, "scale_dtype": null, "zp_dtype": null})",
      // ModelOpt in config.json
      R"({"dynamic": false, "num_bits": 8, "type": "float"})",
      R"({"type": "float"})",
      R"({"type": "float", "strategy": null})",
  };
  for (const char* text : kTensor) {
    const Parsed p = parsed(text);
    EXPECT_EQ(p.refusal, "") << text;
    ASSERT_TRUE(p.scheme.has_value()) << text;
    EXPECT_EQ(p.scheme->granularity, KvScheme::Granularity::kTensor) << text;
    EXPECT_THAT(p.scheme->declared_by, HasSubstr("quantization_config.kv_cache_scheme")) << text;
  }
  const Parsed head = parsed(R"({"num_bits": 8, "type": "float", "strategy": "attn_head", "dynamic": false, "symmetric": true})");
  EXPECT_EQ(head.refusal, "");
  ASSERT_TRUE(head.scheme.has_value());
  EXPECT_EQ(head.scheme->granularity, KvScheme::Granularity::kHead);
}

TEST(KvScheme, RefusesEverythingElseByName) {
  const std::pair<const char*, std::vector<const char*>> kRefused[] = {
      {R"("dynamic")", {"kv_cache_scheme = \"dynamic\"", "null, \"static\" or an object"}},
      {"true", {"kv_cache_scheme = true"}},
      {"8", {"kv_cache_scheme = 8"}},
      {"[]", {"kv_cache_scheme = []"}},
      {"{}", {"kv_cache_scheme.type is missing"}},
      {R"({"type": null})", {"kv_cache_scheme.type is missing"}},
      {R"({"num_bits": 8})", {"kv_cache_scheme.type is missing"}},
      {R"({"type": "int"})", {"kv_cache_scheme.type = \"int\"", "only \"float\""}},
      {R"({"type": "float", "num_bits": 4})", {"kv_cache_scheme.num_bits = 4", "only 8"}},
      {R"({"type": "float", "num_bits": "8"})", {"kv_cache_scheme.num_bits = \"8\""}},
      {R"({"type": "float", "strategy": "channel"})", {"kv_cache_scheme.strategy = \"channel\"", "\"tensor\" or \"attn_head\""}},
      {R"({"type": "float", "dynamic": true})", {"kv_cache_scheme.dynamic = true", "only false"}},
      {R"({"type": "float", "dynamic": "local"})", {"kv_cache_scheme.dynamic = \"local\""}},
      {R"({"type": "float", "dynamic": 0})", {"kv_cache_scheme.dynamic = 0"}},
      {R"({"type": "float", "symmetric": false})", {"kv_cache_scheme.symmetric = false", "only true"}},
      {R"({"type": "float", "group_size": 128})", {"kv_cache_scheme.group_size = 128", "only null"}},
      {R"({"type": "float", "zp_dtype": "torch.int8"})", {"kv_cache_scheme.zp_dtype"}},
      {R"({"type": "float", "stratgy": "tensor"})", {"kv_cache_scheme.stratgy", "did you mean 'strategy'?"}},
  };
  for (const auto& [text, words] : kRefused) {
    const std::string refusal = parsed(text).refusal;
    for (const char* word : words) EXPECT_THAT(refusal, HasSubstr(word)) << text;
  }
}

TEST(KvScheme, NamesEveryWrongFieldAtOnce) {
  EXPECT_THAT(parsed(R"({"type": "int", "num_bits": 4, "dynamic": true})").refusal, AllOf(HasSubstr("type"), HasSubstr("num_bits"), HasSubstr("dynamic")));
}

}  // namespace
}  // namespace quire::model::test
