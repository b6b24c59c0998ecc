// The attention shapes that `quire bench attention` measures, their names, and what each must move and compute. Pure.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"

namespace quire::commands {

// Decode: one new token after num_tokens - 1 cached ones; prefill: all tokens are new.
enum class BenchPhase : std::uint8_t { kDecode, kPrefill };

struct AttentionShape {
  BenchPhase phase = BenchPhase::kDecode;
  std::int32_t head_dim = 128, num_sequences = 1;
  std::int32_t num_tokens = 1;  // of each sequence, the new ones included
  std::int32_t num_heads = 32, num_kv_heads = 8;

  [[nodiscard]] std::int32_t new_tokens() const { return phase == BenchPhase::kDecode ? 1 : num_tokens; }  // of each sequence
  [[nodiscard]] std::int64_t query_rows() const { return std::int64_t{num_sequences} * new_tokens(); }
  // "decode-d128-16x8k"; k: 1024.
  [[nodiscard]] std::string name() const;
  [[nodiscard]] bool in_table() const;
  friend bool operator==(const AttentionShape&, const AttentionShape&) = default;
};

// The shapes that results are compared by, in order.
[[nodiscard]] const std::vector<AttentionShape>& table_shapes();

// What the work cannot do without: every visible key and value read once, every query read and every result written once (float32).
[[nodiscard]] std::int64_t compulsory_bytes(const AttentionShape& shape, DType kv_dtype);
// Of both products, q . k and p . v, over the keys that each row sees; a multiply-add counts 2.
[[nodiscard]] std::int64_t attention_flops(const AttentionShape& shape);

// One shape by its name, of the table or not.
[[nodiscard]] Result<AttentionShape> parse_shape(std::string_view name);
// `names` (each may hold several, separated by commas), or the table's shapes whose name holds `filter`; both empty: the table.
[[nodiscard]] Result<std::vector<AttentionShape>> choose_shapes(const std::vector<std::string>& names, std::string_view filter);

}  // namespace quire::commands
