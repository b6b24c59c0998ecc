#include "reference/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/kv_cache.h"

namespace quire::reference {
namespace {

constexpr double kNoScore = -std::numeric_limits<double>::infinity();

// One KV head of one sequence, copied out of the pool: [num_tokens, head_dim].
Matrix gather(const PagedAttention& p, std::span<const std::int32_t> blocks, kv::Part part, std::int32_t head, std::int32_t num_tokens) {
  Matrix out(num_tokens, p.layout.head_dim);
  for (std::int32_t t = 0; t < num_tokens; ++t) {
    const std::int32_t block = blocks[static_cast<std::size_t>(t / p.layout.block_size)];
    for (std::int32_t d = 0; d < p.layout.head_dim; ++d)
      out.at(t, d) = kv_read(p.layout, p.pool, {p.layer, block, part, head, t % p.layout.block_size, d}) * p.scales.of(part, head);
  }
  return out;
}

Matrix rows_between(const Matrix& m, std::int64_t begin, std::int64_t end) {
  return Matrix(end - begin, m.cols, std::vector<double>(m.values.begin() + begin * m.cols, m.values.begin() + end * m.cols));
}

ScoreRule head_rule(const PagedAttention& p, std::int32_t head) {
  ScoreRule rule{.scale = p.scale, .soft_cap = p.masks.soft_cap};
  if (!p.masks.alibi_slopes.empty()) rule.alibi_slope = p.masks.alibi_slopes.at(static_cast<std::size_t>(head));
  if (!p.masks.sinks.empty()) rule.sink = p.masks.sinks.at(static_cast<std::size_t>(head));
  return rule;
}

void attend_sequence(const PagedAttention& p, const AttentionBatch& batch, std::size_t s, const Matrix& queries, AttentionOutput& result) {
  const std::int32_t first = batch.query_start_loc[s], num_rows = batch.query_start_loc[s + 1] - first;
  const std::int32_t seq_len = batch.seq_lens[s];
  QUIRE_CHECK(num_rows >= 0 && seq_len >= 0) << num_rows << " rows, " << seq_len << " tokens";
  if (num_rows == 0) return;
  const auto& blocks = batch.block_tables[s];
  QUIRE_CHECK_GE(static_cast<std::int64_t>(blocks.size()) * p.layout.block_size, std::int64_t{seq_len});
  const std::int32_t d = p.layout.head_dim, group = p.num_heads / p.layout.num_kv_heads;
  for (std::int32_t head = 0; head < p.num_heads; ++head) {
    const Matrix keys = gather(p, blocks, kv::Part::kKey, head / group, seq_len);
    const Matrix values = gather(p, blocks, kv::Part::kValue, head / group, seq_len);
    for (std::int32_t i = 0; i < num_rows; ++i) {
      const std::int64_t position = std::int64_t{seq_len} - num_rows + i, end = std::max<std::int64_t>(0, position + 1);
      const std::int64_t begin = end == 0 ? 0 : first_visible(p.masks, position);
      const auto query = queries.row(first + i).subspan(static_cast<std::size_t>(head) * static_cast<std::size_t>(d), static_cast<std::size_t>(d));
      const HeadOutput row = attend(query, rows_between(keys, begin, end), rows_between(values, begin, end), head_rule(p, head));
      std::ranges::copy(row.out, result.out.row(first + i).begin() + std::ptrdiff_t{head} * d);
      result.lse.at(first + i, head) = row.lse;
    }
  }
}

}  // namespace

std::int64_t first_visible(const AttentionMasks& masks, std::int64_t position) {
  QUIRE_CHECK(position >= 0 && masks.window >= 0 && masks.chunk >= 0);
  std::int64_t first = 0;
  if (masks.window > 0) first = std::max(first, position - masks.window + 1);
  if (masks.chunk > 0) first = std::max(first, position / masks.chunk * masks.chunk);
  return first;
}

std::vector<double> alibi_slopes(std::int64_t num_heads) {
  QUIRE_CHECK_GE(num_heads, 1);
  std::int64_t power = 1;
  while (power * 2 <= num_heads) power *= 2;
  const auto slope = [](std::int64_t i, std::int64_t n) { return std::pow(2.0, -8.0 * static_cast<double>(i) / static_cast<double>(n)); };
  std::vector<double> slopes;
  for (std::int64_t i = 1; i <= power; ++i) slopes.push_back(slope(i, power));
  for (std::int64_t i = 1; std::ssize(slopes) < num_heads; i += 2) slopes.push_back(slope(i, 2 * power));
  return slopes;
}

double score(std::span<const double> query, std::span<const double> key, std::int64_t distance, const ScoreRule& rule) {
  double s = 0.0;
  for (std::size_t d = 0; d < query.size(); ++d) s += query[d] * key[d];
  s *= rule.scale;
  if (rule.soft_cap > 0.0) s = rule.soft_cap * std::tanh(s / rule.soft_cap);
  return s - rule.alibi_slope * static_cast<double>(distance);
}

HeadOutput attend(std::span<const double> query, const Matrix& keys, const Matrix& values, const ScoreRule& rule) {
  QUIRE_CHECK(static_cast<std::int64_t>(query.size()) == keys.cols && keys.rows == values.rows);
  std::vector<double> scores(static_cast<std::size_t>(keys.rows), 0.0);
  bool any_nan = std::isnan(rule.sink);
  double largest = any_nan ? kNoScore : rule.sink;
  for (std::int64_t j = 0; j < keys.rows; ++j) {
    const double s = scores[static_cast<std::size_t>(j)] = score(query, keys.row(j), keys.rows - 1 - j, rule);
    any_nan = any_nan || std::isnan(s);
    largest = std::max(largest, s);
  }
  HeadOutput result{std::vector<double>(static_cast<std::size_t>(values.cols), 0.0), kNoScore};
  if (largest == kNoScore && !any_nan) return result;
  double sum = std::exp(rule.sink - largest);
  for (double& s : scores) sum += s = std::exp(s - largest);  // from here on: weights
  for (std::int64_t j = 0; j < keys.rows; ++j) {
    const auto value = values.row(j);
    const double weight = scores[static_cast<std::size_t>(j)] / sum;
    for (std::size_t d = 0; d < value.size(); ++d) result.out[d] += weight * value[d];
  }
  if (std::isnan(sum)) std::ranges::fill(result.out, sum);  // also where no key is seen
  result.lse = largest + std::log(sum);
  return result;
}

AttentionOutput attention(const PagedAttention& problem, const AttentionBatch& batch, const Matrix& queries) {
  const std::size_t num_sequences = batch.seq_lens.size();
  QUIRE_CHECK(batch.query_start_loc.size() == num_sequences + 1 && batch.block_tables.size() == num_sequences);
  QUIRE_CHECK(problem.num_heads > 0 && problem.num_heads % problem.layout.num_kv_heads == 0) << problem.num_heads;
  QUIRE_CHECK_EQ(queries.cols, std::int64_t{problem.num_heads} * problem.layout.head_dim);
  const AttentionMasks& masks = problem.masks;
  const auto per_head = [&](const std::vector<double>& v) { return v.empty() || std::ssize(v) == problem.num_heads; };
  QUIRE_CHECK(masks.window >= 0 && masks.chunk >= 0 && masks.soft_cap >= 0.0 && per_head(masks.alibi_slopes) && per_head(masks.sinks));
  QUIRE_CHECK(batch.query_start_loc.front() == 0 && batch.query_start_loc.back() == queries.rows);
  AttentionOutput result{Matrix(queries.rows, queries.cols), Matrix(queries.rows, problem.num_heads)};
  for (std::size_t s = 0; s < num_sequences; ++s) attend_sequence(problem, batch, s, queries, result);
  return result;
}

}  // namespace quire::reference
