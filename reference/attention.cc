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
      out.at(t, d) = kv_read(p.layout, p.pool, {p.layer, block, part, head, t % p.layout.block_size, d});
  }
  return out;
}

Matrix first_rows(const Matrix& m, std::int64_t n) { return Matrix(n, m.cols, std::vector<double>(m.values.begin(), m.values.begin() + n * m.cols)); }

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
      const std::int32_t visible = std::max(0, seq_len - num_rows + i + 1);
      const auto query = queries.row(first + i).subspan(static_cast<std::size_t>(head) * static_cast<std::size_t>(d), static_cast<std::size_t>(d));
      const HeadOutput row = attend(query, first_rows(keys, visible), first_rows(values, visible), p.scale);
      std::ranges::copy(row.out, result.out.row(first + i).begin() + std::ptrdiff_t{head} * d);
      result.lse.at(first + i, head) = row.lse;
    }
  }
}

}  // namespace

HeadOutput attend(std::span<const double> query, const Matrix& keys, const Matrix& values, double scale) {
  QUIRE_CHECK(static_cast<std::int64_t>(query.size()) == keys.cols && keys.rows == values.rows);
  std::vector<double> scores(static_cast<std::size_t>(keys.rows), 0.0);
  double largest = kNoScore;
  bool any_nan = false;
  for (std::int64_t j = 0; j < keys.rows; ++j) {
    double score = 0.0;
    const auto key = keys.row(j);
    for (std::size_t d = 0; d < query.size(); ++d) score += query[d] * key[d];
    scores[static_cast<std::size_t>(j)] = score *= scale;
    any_nan = any_nan || std::isnan(score);
    largest = std::max(largest, score);
  }
  HeadOutput result{std::vector<double>(static_cast<std::size_t>(values.cols), 0.0), kNoScore};
  if (largest == kNoScore && !any_nan) return result;
  double sum = 0.0;
  for (double& score : scores) sum += score = std::exp(score - largest);  // from here on: weights
  for (std::int64_t j = 0; j < keys.rows; ++j) {
    const auto value = values.row(j);
    const double weight = scores[static_cast<std::size_t>(j)] / sum;
    for (std::size_t d = 0; d < value.size(); ++d) result.out[d] += weight * value[d];
  }
  result.lse = largest + std::log(sum);
  return result;
}

AttentionOutput attention(const PagedAttention& problem, const AttentionBatch& batch, const Matrix& queries) {
  const std::size_t num_sequences = batch.seq_lens.size();
  QUIRE_CHECK(batch.query_start_loc.size() == num_sequences + 1 && batch.block_tables.size() == num_sequences);
  QUIRE_CHECK(problem.num_heads > 0 && problem.num_heads % problem.layout.num_kv_heads == 0) << problem.num_heads;
  QUIRE_CHECK_EQ(queries.cols, std::int64_t{problem.num_heads} * problem.layout.head_dim);
  QUIRE_CHECK(batch.query_start_loc.front() == 0 && batch.query_start_loc.back() == queries.rows);
  AttentionOutput result{Matrix(queries.rows, queries.cols), Matrix(queries.rows, problem.num_heads)};
  for (std::size_t s = 0; s < num_sequences; ++s) attend_sequence(problem, batch, s, queries, result);
  return result;
}

}  // namespace quire::reference
