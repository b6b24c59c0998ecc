// Causal attention's bits, pinned for each instruction set: a change of the kernels that moves them moves every promise in
// docs/NUMERICS.md that rests on "the same bits as before", and must be meant.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <map>
#include <string>

#include "attention/attention_rig.h"
#include "kit/guarded_buffer.h"
#include "kit/seed.h"
#include "ops/cpu_kernels.h"
#include "reference/kv_cache.h"

namespace quire {
namespace {

using test::ShapeCase;

// Multiples of 1/16 in [-2, 2), exact in every storage type; from integers alone, so that no library can change them.
void fill(reference::Matrix& m, std::uint64_t seed) {
  for (double& v : m.values) {
    seed += 0x9e3779b97f4a7c15u;
    std::uint64_t z = (seed ^ (seed >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    v = static_cast<double>(static_cast<std::int64_t>((z ^ (z >> 31)) >> 58)) / 16.0 - 2.0;
  }
}

std::uint64_t checksum(const std::vector<float>& values) {
  std::uint64_t sum = 14695981039346656037u;  // FNV-1a over the words
  for (const float v : values) sum = (sum ^ std::bit_cast<std::uint32_t>(v)) * 1099511628211u;
  return sum;
}

const ShapeCase kCases[] = {
    {.dtype = DType::kF32, .num_heads = 8, .num_kv_heads = 2, .head_dim = 40, .block_size = 16, .lens = {{1, 513}, {70, 70}, {130, 600}, {1, 1}, {2, 66}}, .padding_rows = 0},
    {.dtype = DType::kBF16, .num_heads = 7, .num_kv_heads = 1, .head_dim = 64, .block_size = 48, .lens = {{1, 2100}, {67, 131}, {5, 1030}, {1, 64}}, .padding_rows = 0},
    {.dtype = DType::kF16, .num_heads = 3, .num_kv_heads = 3, .head_dim = 122, .block_size = 128, .lens = {{40, 550}, {1, 512}, {33, 33}}, .padding_rows = 0},
};

// Computed before masks and the split decode existed. Vector width and fused multiply-add decide the bits: AVX3 covers its variants.
const std::map<std::string, std::array<std::uint64_t, 3>> kPinned = {
    {"AVX3", {8027923419141099085u, 1495629854562214308u, 12493166143139728322u}},
    {"AVX2", {11956787622407122470u, 546518741519033929u, 6386805928755553781u}},
    {"SSE4", {6291946536802393586u, 13369812811531383855u, 14941730533031885534u}},
    {"SCALAR", {6711707391699934490u, 12938964549104927089u, 16012607931059601327u}},
};

TEST(AttentionBits, CausalResultsNeverMove) {
  std::string isa = ops::cpu_isa();
  if (isa.starts_with("AVX3")) isa = "AVX3";
  const auto pinned = kPinned.find(isa);
  if (pinned == kPinned.end()) GTEST_SKIP() << "no bits are pinned for " << isa;
  for (std::size_t i = 0; i < 3; ++i) {
    auto rng = test::seeded_rng();
    test::KvBatch b = test::make_kv_batch(kCases[i].kv_case(), rng);
    fill(b.queries, 1);
    fill(b.keys, 2);
    fill(b.values, 3);
    test::poison(b.pool, b.shape.dtype);
    reference::kv_write(b.layout, b.pool, {b.shape.layer, b.keys, b.values, b.slots});
    for (const char* backend : test::kBackends)
      for (const int threads : {1, 3}) EXPECT_EQ(checksum(test::AttentionStep(b, threads).run(backend)), pinned->second[i]) << isa << ", case " << i << ", " << backend << ", " << threads << " threads";
  }
}

}  // namespace
}  // namespace quire
