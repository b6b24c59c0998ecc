#include "selfcheck/batches.h"

#include <algorithm>
#include <optional>

#include "base/checked.h"

namespace quire::selfcheck {
namespace {

// Enough for every row below at any block size; bounds the work of filling them.
constexpr std::int64_t kMostBlocks = 96;
constexpr std::int32_t kMostRows = 39;
// Graphs of at most this many tokens have no room for rows of every class.
constexpr std::int32_t kSmallestMixed = 8;

std::vector<RowShape> cut(std::vector<RowShape> rows, const SchedulerConfig& l, std::int32_t budget) {
  std::vector<RowShape> out;
  for (RowShape r : rows) {
    if (static_cast<std::int32_t>(out.size()) == l.max_num_seqs) break;
    r.num_new = std::min({r.num_new, budget, l.max_model_len});
    r.num_computed = std::max(0, std::min(r.num_computed, l.max_model_len - r.num_new));
    if (r.num_new < 1) break;
    budget -= r.num_new;
    out.push_back(r);
  }
  return out;
}

}  // namespace

namespace {

// About as many decode rows as a small server runs, each shorter than a few blocks.
std::vector<RowShape> many_rows(const SchedulerConfig& l, std::int32_t variant) {
  std::vector<RowShape> rows;
  const std::int32_t n = std::min(l.max_num_seqs, kMostRows);
  for (std::int32_t i = 0; i < (n % 8 == 0 ? n - 1 : n); ++i) rows.push_back({(17 * i + 5 * variant) % (4 * l.block_size), 1});
  return rows;
}

}  // namespace

std::vector<Scenario> make_scenarios(const SchedulerConfig& l, std::int32_t largest_graph) {
  const std::int32_t most_tokens = largest_graph > kSmallestMixed ? std::min(l.max_num_batched_tokens, largest_graph - 1) : l.max_num_batched_tokens;
  const std::int32_t b = l.block_size;
  const auto longest = static_cast<std::int32_t>(std::min<std::int64_t>(l.max_model_len, std::int64_t{l.num_blocks} * b));
  // Token and row counts are no graph sizes (of 1, 2, 4, 8, 16, 24, ...): recorded steps get padding. Variants of one scenario share a size.
  std::vector<Scenario> all = {
      {"decode rows", {{{600, 1}, {b - 1, 1}, {1030, 1}}, {{b, 1}, {533, 1}, {700, 1}}, {{0, 1}, {1100, 1}, {130, 1}}}},
      {"prefill rows", {{{0, 5}, {0, 18}}, {{0, 17}, {0, 4}}, {{0, 2}, {0, 20}}}},
      {"extend rows", {{{30, 6}, {b, 17}}, {{600, 5}, {3, 16}}, {{1, 13}, {64, 9}}}},
      {"mixed rows", {{{600, 1}, {2, 1}, {40, 6}, {0, 13}}, {{b - 1, 1}, {700, 1}, {513, 4}, {0, 16}}, {{70, 1}, {1, 1}, {5, 9}, {0, 10}}}},
      {"many decode rows", {many_rows(l, 0), many_rows(l, 1)}},
      {"longest rows", {{{longest - 1, 1}, {b, 1}, {longest - 3, 3}}, {{b + 3, 1}, {longest - 1, 1}, {longest - 4, 3}}}},
  };
  std::vector<Scenario> out;
  for (Scenario& s : all) {
    for (auto& rows : s.variants) rows = cut(std::move(rows), l, most_tokens);
    std::erase_if(s.variants, [](const auto& rows) { return rows.empty(); });
    if (!s.variants.empty()) out.push_back(std::move(s));
  }
  return out;
}

std::vector<std::int32_t> usable_blocks(const kv::KvLayout& layout) {
  const std::int64_t n = layout.num_blocks, each = std::min(n / 2, kMostBlocks / 2);
  if (n == 1) return {0};
  std::vector<std::int32_t> out;
  for (std::int64_t i = 0; i < each; ++i) {
    out.push_back(static_cast<std::int32_t>(n - 1 - i));
    out.push_back(static_cast<std::int32_t>(i));
  }
  for (std::int64_t i = 1; i < 4; ++i)
    if (const std::int64_t between = n * i / 4; between >= each && between < n - each) out.push_back(static_cast<std::int32_t>(between));
  return out;
}

Batch place(const std::vector<RowShape>& shapes, std::int32_t variant, const std::vector<std::int32_t>& blocks, const SchedulerConfig& l) {
  // The ends of the pool are written in even variants and read as context in odd ones.
  const std::size_t ends = std::min<std::size_t>(blocks.size(), 2);
  std::vector<std::int32_t> order(blocks.begin() + static_cast<std::ptrdiff_t>(ends), blocks.end());
  if (!order.empty()) std::rotate(order.begin(), order.begin() + variant * 11 % static_cast<std::ptrdiff_t>(order.size()), order.end());
  const bool shares = std::any_of(shapes.begin(), shapes.end(), [&](const RowShape& r) { return r.num_computed >= 2 * l.block_size; });
  const bool own_ends = variant % 2 == 0 || !shares || order.size() < 2 * shapes.size();
  if (own_ends) order.insert(order.begin(), blocks.begin(), blocks.begin() + static_cast<std::ptrdiff_t>(ends));

  Batch batch;
  std::size_t next = 0;
  const auto own = [&]() -> std::optional<std::int32_t> {
    if (next == order.size()) return std::nullopt;
    batch.own_blocks.push_back(order[next]);
    return order[next++];
  };
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    BatchRow row{shapes[i], attention::row_class(shapes[i].num_computed, shapes[i].num_new), static_cast<std::int32_t>((i * 2 + static_cast<std::size_t>(variant) + 1) % static_cast<std::size_t>(l.max_num_seqs)), {}};
    while (std::any_of(batch.rows.begin(), batch.rows.end(), [&](const BatchRow& r) { return r.state_row == row.state_row; })) row.state_row = (row.state_row + 1) % l.max_num_seqs;
    const std::int32_t end = row.shape.num_computed + row.shape.num_new;
    bool fits = true;
    for (std::int32_t k = row.shape.num_computed / l.block_size; fits && k < ceil_div(end, l.block_size); ++k) {
      const auto block = own();
      fits = block.has_value();
      if (fits) row.blocks.push_back(*block);
    }
    if (!fits) break;
    batch.num_tokens += row.shape.num_new;
    batch.rows.push_back(std::move(row));
  }
  std::vector<std::optional<std::int32_t>> guards;
  for (const BatchRow& row : batch.rows) {
    const bool room = row.shape.num_computed + row.shape.num_new <= (ceil_div(l.max_model_len, l.block_size) - 1) * l.block_size && next + 1 < order.size();
    guards.push_back(room ? own() : std::nullopt);
  }
  std::vector<std::int32_t> shared(order.begin() + static_cast<std::ptrdiff_t>(next), order.end());
  if (!own_ends) shared.insert(shared.begin(), blocks.begin(), blocks.begin() + static_cast<std::ptrdiff_t>(ends));
  std::size_t at = 0;
  for (std::size_t i = 0; i < batch.rows.size(); ++i) {
    BatchRow& row = batch.rows[i];
    // With no block left to share the row keeps its place inside its first block.
    if (shared.empty()) row.shape.num_computed %= l.block_size;
    std::vector<std::int32_t> table;
    for (std::int32_t k = 0; k < row.shape.num_computed / l.block_size; ++k) table.push_back(shared[at++ % shared.size()]);
    row.blocks.insert(row.blocks.begin(), table.begin(), table.end());
    if (guards[i].has_value()) row.blocks.push_back(*guards[i]);
    row.row_class = attention::row_class(row.shape.num_computed, row.shape.num_new);
  }
  return batch;
}

std::vector<OwnBlock> own_blocks_of(const Batch& batch, std::int32_t block_size) {
  std::vector<OwnBlock> out;
  for (const BatchRow& row : batch.rows) {
    const std::int32_t first = row.shape.num_computed, end = first + row.shape.num_new;
    for (std::int32_t k = first / block_size; k < static_cast<std::int32_t>(row.blocks.size()); ++k)
      out.push_back({row.blocks[static_cast<std::size_t>(k)], std::clamp(first - k * block_size, 0, block_size), std::clamp(end - k * block_size, 0, block_size)});
  }
  return out;
}

const char* class_of(const Batch& batch, std::int64_t token) {
  for (const BatchRow& row : batch.rows) {
    if (token < row.shape.num_new) return row_class_name(row.row_class);
    token -= row.shape.num_new;
  }
  return "padded";
}

std::string place_of(const Batch& batch, std::int64_t token) {
  std::int64_t left = token;
  for (std::size_t i = 0; i < batch.rows.size(); ++i) {
    const RowShape& s = batch.rows[i].shape;
    if (left < s.num_new) return "row " + std::to_string(i) + " of length " + std::to_string(s.num_computed + s.num_new) + ", position " + std::to_string(s.num_computed + left);
    left -= s.num_new;
  }
  return "padded token " + std::to_string(token);
}

}  // namespace quire::selfcheck
