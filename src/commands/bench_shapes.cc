#include "commands/bench_shapes.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "attention/params.h"
#include "base/suggest.h"
#include "config/flag_table.h"
#include "config/problems.h"

namespace quire::commands {
namespace {

constexpr std::int32_t kMaxSequences = 65536, kMaxTokens = 1 << 24;
constexpr std::int64_t kMaxCachedTokens = std::int64_t{1} << 31;  // of all sequences: block ids are 32 bits

const char* phase_word(BenchPhase phase) { return phase == BenchPhase::kDecode ? "decode" : "prefill"; }

std::string count_text(std::int32_t n) { return n >= 1024 && n % 1024 == 0 ? std::to_string(n / 1024) + "k" : std::to_string(n); }

// "150", "8k"; nullopt: no number in 1..limit.
std::optional<std::int32_t> count_of(std::string_view text, std::int32_t limit) {
  const bool kilo = text.ends_with('k') || text.ends_with('K');
  if (kilo) text.remove_suffix(1);
  std::int32_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc{} || end != text.data() + text.size() || n < 1) return std::nullopt;
  const std::int64_t count = std::int64_t{n} * (kilo ? 1024 : 1);
  if (count > limit) return std::nullopt;
  return static_cast<std::int32_t>(count);
}

std::vector<std::string> table_names() {
  std::vector<std::string> out;
  for (const AttentionShape& s : table_shapes()) out.push_back(s.name());
  return out;
}

Error bad_shape(std::string_view name) {
  const std::vector<std::string> names = table_names();
  const std::vector<std::string_view> views(names.begin(), names.end());
  return invalid("--shapes " + config::quote_value(name) + ": must be PHASE-dD-NxL, with decode or prefill, an even head size of 8 to " + std::to_string(attention::kMaxHeadDim) + ", 1 to " +
                     std::to_string(kMaxSequences) + " sequences and 1 to " + count_text(kMaxTokens) + " tokens of each, e.g. decode-d128-16x8k" + did_you_mean(name, views),
                 "--shapes");
}

}  // namespace

std::string AttentionShape::name() const {
  return std::string(phase_word(phase)) + "-d" + std::to_string(head_dim) + "-" + std::to_string(num_sequences) + "x" + count_text(num_tokens);
}

bool AttentionShape::in_table() const { return std::find(table_shapes().begin(), table_shapes().end(), *this) != table_shapes().end(); }

const std::vector<AttentionShape>& table_shapes() {
  constexpr auto kDecode = BenchPhase::kDecode, kPrefill = BenchPhase::kPrefill;
  constexpr std::int32_t k = 1024;
  static const std::vector<AttentionShape> kTable = {
      {kDecode, 128, 1, 8 * k},   {kDecode, 128, 16, 8 * k}, {kDecode, 128, 64, 4 * k}, {kDecode, 128, 256, 1 * k}, {kDecode, 128, 256, 4 * k},
      {kDecode, 64, 64, 4 * k},   {kDecode, 64, 256, 4 * k}, {kDecode, 128, 64, 150},   {kDecode, 128, 256, 150},   {kPrefill, 128, 16, 1 * k},
      {kPrefill, 128, 4, 4 * k},  {kPrefill, 128, 1, 16 * k}, {kPrefill, 64, 4, 4 * k}, {kPrefill, 64, 1, 16 * k}};
  return kTable;
}

std::int64_t compulsory_bytes(const AttentionShape& s, DType kv_dtype) {
  const std::int64_t tokens = std::int64_t{s.num_sequences} * s.num_tokens;
  const std::int64_t cache = tokens * 2 * s.num_kv_heads * s.head_dim * static_cast<std::int64_t>(dtype_bytes(kv_dtype));
  const std::int64_t rows = s.query_rows() * 2 * s.num_heads * s.head_dim * static_cast<std::int64_t>(sizeof(float));
  return cache + rows;
}

std::int64_t attention_flops(const AttentionShape& s) {
  const std::int64_t n = s.num_tokens;
  const std::int64_t seen = s.num_sequences * (s.phase == BenchPhase::kDecode ? n : n * (n + 1) / 2);  // pairs of a row and a key
  return seen * s.num_heads * s.head_dim * 2 * 2;
}

Result<AttentionShape> parse_shape(std::string_view name) {
  const auto parts = config::split_words(name, '-');
  if (std::ranges::count(name, '-') != 2 || parts.size() != 3 || !parts[1].starts_with('d')) return bad_shape(name);
  const std::size_t cross = parts[2].find('x');
  if (cross == std::string_view::npos || (parts[0] != "decode" && parts[0] != "prefill")) return bad_shape(name);
  const auto head_dim = count_of(parts[1].substr(1), attention::kMaxHeadDim), sequences = count_of(parts[2].substr(0, cross), kMaxSequences), tokens = count_of(parts[2].substr(cross + 1), kMaxTokens);
  if (!head_dim || !sequences || !tokens || *head_dim < 8 || *head_dim % 2 != 0 || std::int64_t{*sequences} * *tokens > kMaxCachedTokens) return bad_shape(name);
  AttentionShape shape{parts[0] == "decode" ? BenchPhase::kDecode : BenchPhase::kPrefill, *head_dim, *sequences, *tokens};
  return shape;
}

Result<std::vector<AttentionShape>> choose_shapes(const std::vector<std::string>& names, std::string_view filter) {
  if (!names.empty() && !filter.empty()) return invalid("--shapes and --filter exclude each other: --shapes names what to measure, --filter chooses from the table", "--filter");
  std::vector<AttentionShape> out;
  for (const std::string& list : names)
    for (const std::string_view name : config::split_words(list, ',')) {
      const auto shape = parse_shape(name);
      if (!shape.ok()) return shape.error();
      if (std::find(out.begin(), out.end(), shape.value()) == out.end()) out.push_back(shape.value());
    }
  if (!names.empty() && out.empty()) return bad_shape(names.front());
  if (!out.empty()) return out;
  std::string all;
  for (const AttentionShape& s : table_shapes()) {
    if (s.name().find(filter) != std::string::npos) out.push_back(s);
    all += (all.empty() ? "" : ", ") + s.name();
  }
  if (out.empty()) return invalid("--filter " + config::quote_value(filter) + ": no shape of the table has this in its name: " + all, "--filter");
  return out;
}

}  // namespace quire::commands
