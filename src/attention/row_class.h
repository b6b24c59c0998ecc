// The three kinds of rows of a step. The capability table, selection, plans and reports all speak of these.
#pragma once
#include <cstdint>

namespace quire::attention {

enum class RowClass : std::uint8_t { kDecode, kExtend, kPrefill };
inline constexpr RowClass kRowClasses[] = {RowClass::kDecode, RowClass::kExtend, RowClass::kPrefill};
[[nodiscard]] constexpr const char* row_class_name(RowClass c) { return c == RowClass::kDecode ? "decode" : c == RowClass::kExtend ? "extend" : "prefill"; }

// Decode: at most `decode_query_len` new tokens (one, unless tokens are drafted). Extend: more, after cached ones. Prefill: more, and
// nothing cached.
[[nodiscard]] constexpr RowClass row_class(std::int32_t num_computed, std::int32_t num_new, std::int32_t decode_query_len = 1) {
  return num_new <= decode_query_len ? RowClass::kDecode : num_computed > 0 ? RowClass::kExtend : RowClass::kPrefill;
}

}  // namespace quire::attention
