// The forward pass against the float64 Llama, for every variant of a spec; and graph conformance: recorded once, replayed for any step,
// the same bits as eager.
#include <gtest/gtest.h>

#include <algorithm>

#include "kit/seed.h"
#include "model_layers/forward_check.h"

namespace quire {
namespace {

using test::LayersCase;
using test::LayersRig;

TEST(Forward, GroupsAndHeadSizes) {
  for (const std::int32_t kv_heads : {8, 2, 1})
    for (const std::int32_t d : {8, 64, 80}) test::check_forward({.spec = test::small_spec(kv_heads, d)}, "8/" + std::to_string(kv_heads) + " heads of " + std::to_string(d));
}

TEST(Forward, BiasesAndTying) {
  for (int bits = 0; bits < 8; ++bits) {
    LayersCase c{.spec = test::small_spec(2, 16)};
    c.spec.qkv_bias = c.spec.o_bias = (bits & 1) != 0;
    c.spec.mlp_bias = (bits & 2) != 0;
    c.spec.tie_word_embeddings = (bits & 4) != 0;
    test::check_forward(c, std::string("biases ") + (c.spec.qkv_bias ? "attention " : "") + (c.spec.mlp_bias ? "mlp " : "") + (c.spec.tie_word_embeddings ? "tied" : "untied"));
  }
}

TEST(Forward, EveryRopeKind) {
  using model::RopeKind;
  for (const RopeKind kind : {RopeKind::kDefault, RopeKind::kLinear, RopeKind::kDynamic, RopeKind::kLlama3, RopeKind::kYarn}) {
    LayersCase c{.spec = test::small_spec(4, 32)};
    c.spec.rope.kind = kind;
    c.spec.rope.theta = 500.0;
    c.spec.rope.factor = 4.0;
    c.spec.rope.original_max_position_embeddings = kind == RopeKind::kLlama3 || kind == RopeKind::kYarn ? 32 : 0;
    test::check_forward(c, "rope kind " + std::to_string(static_cast<int>(kind)));
  }
}

TEST(Forward, StorageTypesBackendsBlocks) {
  for (const DType dtype : {DType::kF16, DType::kBF16})
    for (const char* backend : {"CPU_UNIFIED", "CPU_SPLIT"}) {
      LayersCase c{.spec = test::small_spec(2, 16), .dtype = dtype, .kv_dtype = dtype, .backend = backend, .threads = 2, .block_size = 32};
      test::check_forward(c, std::string(dtype_name(dtype)) + " weights and cache, " + backend);
      c.kv_dtype = DType::kF32;
      test::check_forward(c, std::string(dtype_name(dtype)) + " weights, float32 cache, " + backend);
    }
}

TEST(GraphConformance, ReplayEqualsEagerBitForBit) {
  for (const char* backend : {"CPU_UNIFIED", "CPU_SPLIT"})
    for (const DType kv : {DType::kF32, DType::kBF16, DType::kFp8E4m3, DType::kFp8E5m2}) {
      LayersCase c{.spec = test::small_spec(2, 80), .dtype = DType::kBF16, .kv_dtype = kv, .backend = backend};
      c.spec.qkv_bias = c.spec.o_bias = c.spec.tie_word_embeddings = true;
      test::check_replays(c, std::string(backend) + ", KV " + dtype_name(kv));
    }
}

TEST(GraphConformance, AnEmptyStepTouchesNoCache) {
  auto rng = test::seeded_rng();
  const LayersCase c{.spec = test::small_spec(2, 16)};
  LayersRig rig(c, test::random_sequences(c.spec, {30}, rng));
  device::Graph graph;
  rig.record(graph);
  (void)rig.replay(graph, {{0, 0, 29}});
  const auto* data = static_cast<const std::byte*>(rig.kv->data());
  const std::vector<std::byte> before(data, data + rig.kv->layout().total_bytes());
  (void)rig.replay(graph, {});
  EXPECT_TRUE(std::equal(before.begin(), before.end(), data));
}

}  // namespace
}  // namespace quire
