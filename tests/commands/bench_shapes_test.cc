// Names of shapes, and what each must move and compute, counted element by element.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "commands/bench_shapes.h"
#include "kv/store/kv_layout.h"

namespace quire::commands {
namespace {

using ::testing::HasSubstr;

TEST(Shapes, TheTableHasEveryShapeOnceUnderANameThatReadsBack) {
  std::set<std::string> names;
  for (const AttentionShape& s : table_shapes()) {
    EXPECT_TRUE(names.insert(s.name()).second) << s.name();
    const auto read = parse_shape(s.name());
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_EQ(read.value(), s);
    EXPECT_TRUE(s.in_table());
  }
  for (const char* name : {"decode-d128-1x8k", "decode-d128-16x8k", "decode-d128-64x4k", "decode-d128-256x1k", "decode-d128-256x4k", "decode-d64-64x4k", "decode-d64-256x4k", "decode-d128-64x150",
                           "decode-d128-256x150", "prefill-d128-16x1k", "prefill-d128-4x4k", "prefill-d128-1x16k", "prefill-d64-4x4k", "prefill-d64-1x16k"})
    EXPECT_EQ(names.erase(name), 1u) << name;
  EXPECT_TRUE(names.empty()) << *names.begin();
}

TEST(Shapes, OthersAreMarked) {
  const auto s = parse_shape("decode-d80-3x1000");
  ASSERT_TRUE(s.ok());
  EXPECT_FALSE(s->in_table());
  EXPECT_EQ(s->head_dim, 80);
  EXPECT_EQ(s->num_sequences, 3);
  EXPECT_EQ(s->num_tokens, 1000);
  EXPECT_EQ(parse_shape("decode-d128-1x8K").value().name(), "decode-d128-1x8k");
}

TEST(Shapes, WrongNamesSayWhatIsAllowed) {
  for (const char* name : {"", "decode", "decode-d128", "decod-d128-16x8k", "decode-128-16x8k", "decode-d128-16", "decode-d128-x8k", "decode-d128-16x", "decode-d128-0x8k", "decode-d128-16x0", "decode-d7-1x8",
                           "decode-d6-1x8", "decode-d258-1x8", "decode-d128-1x99999999999", "decode-d128-65537x1", "decode-d128-65536x16384k", "decode-d128--1x8", "decode-d128-1x8kk", "decode-d128-1x8k-x"}) {
    const auto s = parse_shape(name);
    ASSERT_FALSE(s.ok()) << name;
    EXPECT_THAT(s.error().message, HasSubstr("must be PHASE-dD-NxL")) << name;
  }
  EXPECT_THAT(parse_shape("decod-d128-16x8k").error().message, HasSubstr("did you mean 'decode-d128-16x8k'"));
}

TEST(Shapes, ListsFiltersAndTheTable) {
  EXPECT_EQ(choose_shapes({}, "").value(), table_shapes());
  EXPECT_EQ(choose_shapes({"decode-d8-1x1,prefill-d8-1x1", "decode-d8-1x1"}, "").value().size(), 2u);
  const auto d64 = choose_shapes({}, "d64");
  EXPECT_EQ(d64->size(), 4u);
  for (const AttentionShape& s : d64.value()) EXPECT_EQ(s.head_dim, 64) << s.name();
  EXPECT_EQ(choose_shapes({}, "prefill").value().size(), 5u);
  EXPECT_THAT(choose_shapes({}, "d96").error().message, HasSubstr("no shape of the table has this in its name: decode-d128-1x8k, "));
  EXPECT_THAT(choose_shapes({"decode-d8-1x1"}, "d8").error().message, HasSubstr("exclude each other"));
  EXPECT_THAT(choose_shapes({","}, "").error().message, HasSubstr("--shapes ','"));
}

TEST(Bytes, EveryElementOnce) {
  for (const char* name : {"decode-d16-3x33", "prefill-d8-2x21", "decode-d64-1x1", "prefill-d32-1x64"})
    for (const DType dtype : {DType::kBF16, DType::kF32, DType::kF16}) {
      const AttentionShape s = parse_shape(name).value();
      std::int64_t bytes = 0;
      for (int sequence = 0; sequence < s.num_sequences; ++sequence)
        for (int token = 0; token < s.num_tokens; ++token) {
          bytes += 2 * s.num_kv_heads * s.head_dim * static_cast<std::int64_t>(dtype_bytes(dtype));                            // key and value
          if (s.phase == BenchPhase::kPrefill || token + 1 == s.num_tokens) bytes += 2 * s.num_heads * s.head_dim * 4;  // query and result
        }
      EXPECT_EQ(compulsory_bytes(s, dtype), bytes) << name << " " << dtype_name(dtype);
    }
}

// Where lengths are whole blocks, the cache's part is the cache.
TEST(Bytes, AgreeWithTheLayoutOfTheCache) {
  for (const AttentionShape& s : table_shapes()) {
    if (s.num_tokens % 16 != 0) continue;
    kv::KvLayout layout{.num_layers = 1, .num_kv_heads = s.num_kv_heads, .head_dim = s.head_dim, .block_size = 16, .num_blocks = std::int64_t{s.num_sequences} * s.num_tokens / 16};
    EXPECT_EQ(compulsory_bytes(s, layout.dtype), layout.total_bytes() + s.query_rows() * s.num_heads * s.head_dim * 8) << s.name();
  }
}

TEST(Flops, EveryVisiblePair) {
  for (const char* name : {"decode-d16-3x33", "prefill-d8-2x21", "prefill-d64-1x1"}) {
    const AttentionShape s = parse_shape(name).value();
    std::int64_t flops = 0;
    for (int sequence = 0; sequence < s.num_sequences; ++sequence)
      for (int row = s.num_tokens - s.new_tokens(); row < s.num_tokens; ++row)
        for (int key = 0; key <= row; ++key) flops += std::int64_t{s.num_heads} * s.head_dim * 2 /* multiply, add */ * 2 /* q.k, p.v */;
    EXPECT_EQ(attention_flops(s), flops) << name;
  }
}

}  // namespace
}  // namespace quire::commands
