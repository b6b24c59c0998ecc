#include "selfcheck/audit.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <unordered_map>

#include "reference/attention.h"
#include "reference/bounds.h"
#include "reference/kv_cache.h"
#include "reference/rope.h"
#include "reference/rounding.h"

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
  // Positions [begin, end) of a row's context under one KV head, [end - begin, head_dim].
  [[nodiscard]] Matrix context(kv::Part part, const BatchRow& row, std::int32_t head, std::int64_t begin, std::int64_t end) const {
    const kv::KvLayout& one = f_.cells.block_layout();
    const double scale = f_.cells.scale(layer_, part, head);
    Matrix out(end - begin, one.head_dim);
    for (std::int64_t t = begin; t < end; ++t)
      std::ranges::transform(token(part, row.blocks[static_cast<std::size_t>(t / one.block_size)], head, static_cast<std::int32_t>(t % one.block_size)), out.row(t - begin).begin(),
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

void audit_attention(const StepFacts& f, const LayerSnapshot& s, const LayerCells& cells, const RowPlace& place, Tally::Line line) {
  const kv::KvLayout& one = f.cells.block_layout();
  const RowShape& shape = place.row.shape;
  const std::int32_t d = one.head_dim, group = f.config.spec.num_heads / one.num_kv_heads;
  const std::optional<Extent> extent = extent_of(f, s.layer, shape);
  if (!extent.has_value()) return;
  const model::LayerMask mask = f.config.spec.mask_of(s.layer);
  const reference::AttentionMasks masks{.window = mask.window, .chunk = mask.chunk};
  const reference::ScoreRule rule{.scale = static_cast<double>(static_cast<float>(1.0 / std::sqrt(static_cast<double>(d)))), .soft_cap = static_cast<double>(static_cast<float>(mask.soft_cap))};
  const reference::Precision precision{.cache_scale_roundings = is_fp8(one.dtype) ? 1 : 0};
  for (const std::int32_t kv_head : chosen(one.num_kv_heads, *extent))
    for (const std::int32_t i : chosen(shape.num_new, *extent)) {
      const std::int64_t position = shape.num_computed + i, begin = reference::first_visible(masks, position);
      const Matrix keys = cells.context(kv::Part::kKey, place.row, kv_head, begin, position + 1), values = cells.context(kv::Part::kValue, place.row, kv_head, begin, position + 1);
      for (const std::int32_t g : chosen(group, *extent)) {
        const std::int64_t token = place.first_token + i, head = std::int64_t{kv_head} * group + g;
        const reference::AttentionBounds want = reference::attend_bounds(s.q.row(token).subspan(static_cast<std::size_t>(head * d), static_cast<std::size_t>(d)), keys, values, rule, precision);
        for (std::int32_t dim = 0; dim < d; ++dim)
          line.add(s.attended.at(token, head * d + dim), want.exact.out[static_cast<std::size_t>(dim)], want.out[static_cast<std::size_t>(dim)], [&] { return f.element_name(s.layer, token, head, dim); });
      }
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

void audit_new_cells(const StepFacts& f, std::int32_t layer, const LayerCells& cells, const NewCells& want, Tally& tally) {
  const kv::KvLayout& one = f.cells.block_layout();
  for (std::int64_t t = 0; t < f.num_tokens(); ++t) {
    Tally::Line key_line = tally.line("key write", class_of(f.batch, t), layer), value_line = tally.line("value write", class_of(f.batch, t), layer);
    const std::int64_t slot = f.step.slots[static_cast<std::size_t>(t)];
    for (std::int32_t head = 0; head < one.num_kv_heads; ++head) {
      const auto at = [&](kv::Part part) { return cells.token(part, static_cast<std::int32_t>(slot / one.block_size), head, static_cast<std::int32_t>(slot % one.block_size)); };
      const std::span<const double> keys = at(kv::Part::kKey), values = at(kv::Part::kValue);
      for (std::int32_t d = 0; d < one.head_dim; ++d) {
        const std::int64_t c = std::int64_t{head} * one.head_dim + d;
        const auto name = [&] { return f.element_name(layer, t, head, d); };
        const Stored key = stored_key(want.keys.at(t, c), want.key_bounds[static_cast<std::size_t>(t * want.keys.cols + c)], f.cells.scale(layer, kv::Part::kKey, head), one.dtype);
        key_line.add(keys[static_cast<std::size_t>(d)], key.value, key.bound, name);
        value_line.add(values[static_cast<std::size_t>(d)], stored_value(want.values.at(t, c), f.cells.scale(layer, kv::Part::kValue, head), one.dtype), 0.0, name);
      }
    }
  }
}

void audit_rope_and_cells(const StepFacts& f, const LayerSnapshot& s, const LayerCells& cells, Tally& tally) {
  const model::ModelSpec& spec = f.config.spec;
  const std::int64_t d = spec.head_dim, q_size = spec.num_heads * d, kv_size = spec.num_kv_heads * d;
  reference::Rotation rotation = reference::rotation_of({spec.rope, spec.head_dim, spec.max_position_embeddings, f.config.limits.max_model_len});
  rotation.angles = reference::AnglePrecision::kFloat32;
  const auto turned = [&](const Matrix& x, DType output, std::vector<double>& bounds) {
    bounds = reference::rope_bounds(x, f.step.positions, rotation.frequencies, rotation.attention_scale, {.output = output});
    return reference::rope(x, f.step.positions, rotation);
  };
  const DType cache = f.cells.block_layout().dtype, key_dtype = is_fp8(cache) ? DType::kF32 : cache;
  std::vector<double> q_bounds, k_bounds;
  const Matrix want_q = turned(columns(s.qkv, 0, q_size), DType::kF32, q_bounds), want_k = turned(columns(s.qkv, q_size, kv_size), key_dtype, k_bounds);
  for (std::int64_t t = 0; t < f.num_tokens(); ++t) {
    Tally::Line line = tally.line("rope", class_of(f.batch, t), s.layer);
    for (std::int64_t c = 0; c < q_size; ++c) line.add(s.q.at(t, c), want_q.at(t, c), q_bounds[static_cast<std::size_t>(t * q_size + c)], [&] { return f.element_name(s.layer, t, c / d, c % d); });
  }
  audit_new_cells(f, s.layer, cells, {want_k, k_bounds, columns(s.qkv, q_size + kv_size, kv_size)}, tally);
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
