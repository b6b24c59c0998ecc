#include "selfcheck/audit.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <unordered_map>

#include "reference/attention.h"
#include "reference/bounds.h"
#include "reference/kv_cache.h"
#include "reference/rounding.h"
#include "selfcheck/heads.h"
#include "selfcheck/scales.h"

namespace quire::selfcheck {
namespace {

using reference::Matrix;

// Multiply-adds of attention that one row's reference may take over all layers. Beyond, it looks at the first and last of heads and
// tokens; beyond that at those of the first and last layer; and where one of these layers alone would take it all, at its last head and
// token.
constexpr std::int64_t kMostAttentionWork = 16'000'000;

Matrix columns(const Matrix& m, std::int64_t begin, std::int64_t count) {
  Matrix out(m.rows, count);
  for (std::int64_t r = 0; r < m.rows; ++r)
    for (std::int64_t c = 0; c < count; ++c) out.at(r, c) = m.at(r, begin + c);
  return out;
}

enum class Extent { kAll, kEnds, kLast };

// 0 .. n - 1, the first and the last, or the last.
std::vector<std::int32_t> chosen(std::int32_t n, Extent extent) {
  std::vector<std::int32_t> out;
  for (std::int32_t i = 0; i < n; ++i)
    if (extent == Extent::kAll || i == n - 1 || (extent == Extent::kEnds && i == 0)) out.push_back(i);
  return out;
}

// What of a row's attention in one layer is compared; nullopt: nothing.
std::optional<Extent> extent_of(const StepFacts& f, std::int32_t layer, const RowShape& shape) {
  const kv::KvLayout& one = f.cells.block_layout();
  const auto two = [](std::int32_t n) { return std::min<std::int64_t>(n, 2); };
  const std::int64_t column = std::int64_t{shape.num_computed + shape.num_new} * one.head_dim, share = kMostAttentionWork / f.cells.num_layers();
  if (column * shape.num_new * f.config.spec.num_heads <= share) return Extent::kAll;
  const std::int64_t ends = column * two(shape.num_new) * two(one.num_kv_heads) * two(f.config.spec.num_heads / one.num_kv_heads);
  if (ends <= share) return Extent::kEnds;
  if (layer != 0 && layer != f.cells.num_layers() - 1) return std::nullopt;
  return ends <= kMostAttentionWork ? Extent::kEnds : Extent::kLast;
}

// One layer's cells as numbers: the own blocks as the step left them, the others as they were put there.
class LayerCells {
 public:
  LayerCells(const StepFacts& f, std::int32_t layer) : f_(f), layer_(layer) {
    const std::span<const std::byte> own = f.step.cells[static_cast<std::size_t>(layer)];
    for (std::size_t i = 0; i < f.step.own.size(); ++i) own_.emplace(f.step.own[i].block, f.cells.read(own.subspan(i * bytes_of(f.cells.block_layout()), bytes_of(f.cells.block_layout()))));
  }
  // [head_dim] stored numbers of one cached token.
  [[nodiscard]] std::span<const double> token(kv::Part part, std::int32_t block, std::int32_t head, std::int32_t offset) const {
    const kv::KvLayout& one = f_.cells.block_layout();
    const auto own = own_.find(block);
    const BlockValues& v = own != own_.end() ? own->second : f_.cells.values(layer_, block);
    const std::size_t first = (static_cast<std::size_t>(head) * static_cast<std::size_t>(one.block_size) + static_cast<std::size_t>(offset)) * static_cast<std::size_t>(one.head_dim);
    return std::span(part == kv::Part::kKey ? v.keys : v.values).subspan(first, static_cast<std::size_t>(one.head_dim));
  }
  // Positions [begin, end) of a row's context under one KV head, stored numbers times `scale`: [end - begin, head_dim].
  struct Context {
    const BatchRow& row;
    std::int32_t head;
    std::int64_t begin, end;
  };
  [[nodiscard]] Matrix context(kv::Part part, const Context& c, double scale) const {
    const kv::KvLayout& one = f_.cells.block_layout();
    Matrix out(c.end - c.begin, one.head_dim);
    for (std::int64_t t = c.begin; t < c.end; ++t)
      std::ranges::transform(token(part, c.row.blocks[static_cast<std::size_t>(t / one.block_size)], c.head, static_cast<std::int32_t>(t % one.block_size)), out.row(t - c.begin).begin(),
                             [scale](double x) { return x * scale; });
    return out;
  }

 private:
  const StepFacts& f_;
  std::int32_t layer_;
  std::unordered_map<std::int32_t, BlockValues> own_;
};

struct RowPlace {
  const BatchRow& row;
  std::int64_t first_token;  // of the step
};

// One query head of one token, attending over its context.
class HeadCheck {
 public:
  HeadCheck(const StepFacts& f, const LayerSnapshot& s, const LayerCells& cells, const LayerCells::Context& context)
      : f_(f), s_(s), cells_(cells), context_(context), soft_cap_(f.config.spec.mask_of(s.layer).soft_cap), right_(attended_cells(scale_of(kv::Part::kKey), scale_of(kv::Part::kValue))) {}

  void add(std::int64_t token, std::int64_t head, Tally::Line line) const {
    const std::int64_t first = head * d();
    const reference::AttentionBounds want = bounds(token, head, right_);
    bool worst = false;
    for (std::int64_t dim = 0; dim < d(); ++dim) {
      const auto i = static_cast<std::size_t>(dim);
      worst = line.add(s_.attended.at(token, first + dim), want.exact.out[i], want.out[i], [&] { return f_.element_name(s_.layer, token, head, dim); }) || worst;
    }
    if (worst && is_fp8(f_.cells.block_layout().dtype)) line.blame(mistake(token, head));
  }

 private:
  struct AttendedCells {
    Matrix keys, values;
  };
  [[nodiscard]] std::int64_t d() const { return f_.cells.block_layout().head_dim; }
  [[nodiscard]] double scale_of(kv::Part part) const { return f_.cells.scales().of(s_.layer, part, context_.head); }
  [[nodiscard]] AttendedCells attended_cells(double key_scale, double value_scale) const { return {cells_.context(kv::Part::kKey, context_, key_scale), cells_.context(kv::Part::kValue, context_, value_scale)}; }
  [[nodiscard]] reference::AttentionBounds bounds(std::int64_t token, std::int64_t head, const AttendedCells& cells) const {
    const reference::ScoreRule rule{.scale = static_cast<double>(static_cast<float>(f_.config.spec.attention_scale())), .soft_cap = static_cast<double>(static_cast<float>(soft_cap_))};
    const reference::Precision precision{.cache_scale_roundings = is_fp8(f_.cells.block_layout().dtype) ? 1 : 0};
    return reference::attend_bounds(s_.q.row(token).subspan(static_cast<std::size_t>(head * d()), static_cast<std::size_t>(d())), cells.keys, cells.values, rule, precision);
  }
  // Scales that give every element of the head.
  [[nodiscard]] std::string mistake(std::int64_t token, std::int64_t head) const {
    if (f_.cells.block_layout().dtype == DType::kFp8E4m3Fnuz && got_nan(token, head) && holds_largest()) return "as if FNUZ bytes were read as OCP, where the byte of 240 is NaN";
    return suspected_mistake({f_.cells.scales(), f_.cells.block_layout().dtype, s_.layer, context_.head}, [&](double keys, double values) {
      const reference::AttentionBounds got = bounds(token, head, attended_cells(keys, values));
      for (std::int64_t dim = 0; dim < d(); ++dim)
        if (!(std::fabs(s_.attended.at(token, head * d() + dim) - got.exact.out[static_cast<std::size_t>(dim)]) <= got.out[static_cast<std::size_t>(dim)])) return false;
      return true;
    });
  }

  [[nodiscard]] bool got_nan(std::int64_t token, std::int64_t head) const {
    return std::ranges::any_of(s_.attended.row(token).subspan(static_cast<std::size_t>(head * d()), static_cast<std::size_t>(d())), [](double x) { return std::isnan(x); });
  }
  [[nodiscard]] bool holds_largest() const {
    const double largest = reference::round_to(f_.cells.block_layout().dtype, std::numeric_limits<double>::infinity());
    const auto holds = [&](kv::Part part) { return std::ranges::any_of(cells_.context(part, context_, 1.0).values, [&](double x) { return std::fabs(x) == largest; }); };
    return holds(kv::Part::kKey) || holds(kv::Part::kValue);
  }

  const StepFacts& f_;
  const LayerSnapshot& s_;
  const LayerCells& cells_;
  LayerCells::Context context_;
  double soft_cap_;
  AttendedCells right_;
};

void audit_attention(const StepFacts& f, const LayerSnapshot& s, const LayerCells& cells, const RowPlace& place, Tally::Line line) {
  const kv::KvLayout& one = f.cells.block_layout();
  const RowShape& shape = place.row.shape;
  const std::int32_t group = f.config.spec.num_heads / one.num_kv_heads;
  const std::optional<Extent> extent = extent_of(f, s.layer, shape);
  if (!extent.has_value()) return;
  const model::LayerMask mask = f.config.spec.mask_of(s.layer);
  const reference::AttentionMasks masks{.window = mask.window, .chunk = mask.chunk};
  for (const std::int32_t kv_head : chosen(one.num_kv_heads, *extent))
    for (const std::int32_t i : chosen(shape.num_new, *extent)) {
      const std::int64_t position = shape.num_computed + i;
      const HeadCheck check(f, s, cells, {place.row, kv_head, reference::first_visible(masks, position), position + 1});
      for (const std::int32_t g : chosen(group, *extent)) check.add(place.first_token + i, std::int64_t{kv_head} * group + g, line);
    }
}

// Keys and values of the step's tokens, before the cache's format: keys known within bounds, values exactly.
struct NewCells {
  const Matrix& keys;
  const std::vector<double>& key_bounds;
  const Matrix& values;
};

struct Stored {
  double value = 0.0, bound = 0.0;
};

// What a cell holds of a key that is known with `error`. FP8: the quotient by the scale, limited to the type's range, which magnifies
// nothing; other formats' rounding is in `error` already.
Stored stored_key(double key, double error, double scale, DType dtype) {
  if (!is_fp8(dtype)) return {key, error};
  const double u = reference::unit_roundoff(DType::kF32), largest = reference::round_to(dtype, std::numeric_limits<double>::infinity());
  const double quotient = std::clamp(key / scale, -largest, largest);
  return {quotient, reference::rounding_error(quotient, (error * (1.0 + u) + u * std::fabs(key)) / scale, dtype)};
}

// Values are rounded once; FP8 divides in float32 first.
double stored_value(double value, double scale, DType dtype) { return reference::round_to(dtype, is_fp8(dtype) ? reference::round_to(DType::kF32, value / scale) : value); }

// One token's new cells of one KV head.
class NewCellCheck {
 public:
  NewCellCheck(const StepFacts& f, std::int32_t layer, const LayerCells& cells, const NewCells& want, std::int64_t token, std::int32_t head)
      : f_(f), layer_(layer), want_(want), token_(token), head_(head), keys_(cells_at(cells, kv::Part::kKey)), values_(cells_at(cells, kv::Part::kValue)) {}

  void add(Tally::Line keys, Tally::Line values) const {
    const double key_scale = f_.cells.scales().of(layer_, kv::Part::kKey, head_), value_scale = f_.cells.scales().of(layer_, kv::Part::kValue, head_);
    bool key_worst = false, value_worst = false;
    for (std::int32_t d = 0; d < std::ssize(keys_); ++d) {
      const auto name = [&] { return f_.element_name(layer_, token_, head_, d); };
      const Stored key = key_under(d, key_scale), value = value_under(d, value_scale);
      key_worst = keys.add(keys_[static_cast<std::size_t>(d)], key.value, key.bound, name) || key_worst;
      value_worst = values.add(values_[static_cast<std::size_t>(d)], value.value, value.bound, name) || value_worst;
    }
    if (!is_fp8(dtype()) || !(key_worst || value_worst)) return;
    const std::string mistake = suspected_mistake({f_.cells.scales(), dtype(), layer_, head_}, [&](double k, double v) { return stored_under(k, v); });
    if (key_worst) keys.blame(mistake);
    if (value_worst) values.blame(mistake);
  }

 private:
  [[nodiscard]] DType dtype() const { return f_.cells.block_layout().dtype; }
  [[nodiscard]] std::span<const double> cells_at(const LayerCells& cells, kv::Part part) const {
    const std::int64_t slot = f_.step.slots[static_cast<std::size_t>(token_)], size = f_.cells.block_layout().block_size;
    return cells.token(part, static_cast<std::int32_t>(slot / size), head_, static_cast<std::int32_t>(slot % size));
  }
  [[nodiscard]] std::int64_t column(std::int32_t d) const { return std::int64_t{head_} * std::ssize(keys_) + d; }
  [[nodiscard]] Stored key_under(std::int32_t d, double scale) const {
    return stored_key(want_.keys.at(token_, column(d)), want_.key_bounds[static_cast<std::size_t>(token_ * want_.keys.cols + column(d))], scale, dtype());
  }
  [[nodiscard]] Stored value_under(std::int32_t d, double scale) const { return {stored_value(want_.values.at(token_, column(d)), scale, dtype()), 0.0}; }
  // Every number of the token is what these scales would have stored.
  [[nodiscard]] bool stored_under(double key_scale, double value_scale) const {
    for (std::int32_t d = 0; d < std::ssize(keys_); ++d) {
      const Stored key = key_under(d, key_scale);
      if (!(std::fabs(keys_[static_cast<std::size_t>(d)] - key.value) <= key.bound) || values_[static_cast<std::size_t>(d)] != value_under(d, value_scale).value) return false;
    }
    return true;
  }

  const StepFacts& f_;
  std::int32_t layer_;
  const NewCells& want_;
  std::int64_t token_;
  std::int32_t head_;
  std::span<const double> keys_, values_;
};

void audit_new_cells(const StepFacts& f, std::int32_t layer, const LayerCells& cells, const NewCells& want, Tally& tally) {
  for (std::int64_t t = 0; t < f.num_tokens(); ++t)
    for (std::int32_t head = 0; head < f.cells.block_layout().num_kv_heads; ++head)
      NewCellCheck(f, layer, cells, want, t, head).add(tally.line("key write", class_of(f.batch, t), layer), tally.line("value write", class_of(f.batch, t), layer));
}

void audit_rope_and_cells(const StepFacts& f, const LayerSnapshot& s, const LayerCells& cells, Tally& tally) {
  const model::ModelSpec& spec = f.config.spec;
  const std::int64_t d = spec.head_dim, q_size = spec.num_heads * d, kv_size = spec.num_kv_heads * d;
  const HeadTurn turn(f.config, f.weights, f.stream, s.layer);
  const DType cache = f.cells.block_layout().dtype, key_dtype = is_fp8(cache) ? DType::kF32 : cache;
  const HeadTurn::Turned want_q = turn.turn(columns(s.qkv, 0, q_size), f.step.positions, HeadTurn::Of::kQueries, DType::kF32);
  const HeadTurn::Turned want_k = turn.turn(columns(s.qkv, q_size, kv_size), f.step.positions, HeadTurn::Of::kKeys, key_dtype);
  for (std::int64_t t = 0; t < f.num_tokens(); ++t) {
    Tally::Line line = tally.line("rope", class_of(f.batch, t), s.layer);
    for (std::int64_t c = 0; c < q_size; ++c) line.add(s.q.at(t, c), want_q.values.at(t, c), want_q.bounds[static_cast<std::size_t>(t * q_size + c)], [&] { return f.element_name(s.layer, t, c / d, c % d); });
  }
  audit_new_cells(f, s.layer, cells, {want_k.values, want_k.bounds, columns(s.qkv, q_size + kv_size, kv_size)}, tally);
}

}  // namespace

std::string StepFacts::element_name(std::int32_t layer, std::int64_t token, std::int64_t head, std::int64_t dim) const {
  return "layer " + std::to_string(layer) + ", " + place_of(batch, token) + ", head " + std::to_string(head) + ", dim " + std::to_string(dim);
}

void audit_layer(const StepFacts& f, const LayerSnapshot& s, Tally& tally) {
  const LayerCells cells(f, s.layer);
  audit_rope_and_cells(f, s, cells, tally);
  std::int64_t token = 0;
  for (const BatchRow& row : f.batch.rows) {
    audit_attention(f, s, cells, {row, token}, tally.line("attention", row_class_name(row.row_class), s.layer));
    token += row.shape.num_new;
  }
}

// A padded row has no keys: nobody computes it (the mark stays), or it is zero. Layers share one buffer, so the last one shows it all.
void audit_padding(const StepFacts& f, Tally& tally) {
  const LayerSnapshot& s = f.step.layers.back();
  for (std::int64_t token = f.num_tokens(); token < f.step.padded_tokens; ++token) {
    Tally::Line line = tally.line("attention", "padded");
    for (std::int64_t c = 0; c < s.attended.cols; ++c) {
      const double got = s.attended.at(token, c);
      line.add(std::isnan(got) ? 0.0 : got, 0.0, 0.0, [&] { return place_of(f.batch, token) + ", column " + std::to_string(c); });
    }
  }
}

void audit_foreign_cells(const StepFacts& f, Tally& tally) {
  tally.line("cells of no new token", "any").add(static_cast<double>(f.step.foreign_bytes), 0.0, 0.0, [&] {
    return f.step.foreign_bytes == 0 ? std::string("bytes changed") : "bytes changed, first in " + f.step.first_foreign;
  });
}

void audit_step(const StepFacts& f, Tally& tally) {
  for (const LayerSnapshot& layer : f.step.layers) {
    audit_layer(f, layer, tally);
    audit_quantised_qkv(f, layer, tally);
  }
  audit_padding(f, tally);
  audit_foreign_cells(f, tally);
  audit_layer_ops(f, tally);
  audit_head(f, tally);
}

}  // namespace quire::selfcheck
