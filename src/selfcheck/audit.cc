#include "selfcheck/audit.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "reference/attention.h"
#include "reference/bounds.h"
#include "reference/kv_cache.h"
#include "reference/rope.h"
#include "reference/rounding.h"

namespace quire::selfcheck {
namespace {

using reference::Matrix;

// Multiply-adds of attention that one batch's reference may take; beyond, it looks at the first and last of heads and tokens.
constexpr std::int64_t kMostAttentionWork = 16'000'000;

Matrix columns(const Matrix& m, std::int64_t begin, std::int64_t count) {
  Matrix out(m.rows, count);
  for (std::int64_t r = 0; r < m.rows; ++r)
    for (std::int64_t c = 0; c < count; ++c) out.at(r, c) = m.at(r, begin + c);
  return out;
}

Matrix first_rows(const Matrix& m, std::int64_t n) { return Matrix(n, m.cols, std::vector<double>(m.values.begin(), m.values.begin() + n * m.cols)); }

// 0 .. n - 1, or the first and the last.
std::vector<std::int32_t> chosen(std::int32_t n, bool all) {
  std::vector<std::int32_t> out;
  for (std::int32_t i = 0; i < n; ++i)
    if (all || i == 0 || i == n - 1) out.push_back(i);
  return out;
}

std::string element_name(const StepFacts& f, std::int64_t token, std::int64_t head, std::int64_t dim) {
  return f.place_of(token) + ", head " + std::to_string(head) + ", dim " + std::to_string(dim);
}

// One row of the batch against one KV head.
struct HeadContext {
  Matrix keys, values;  // [length, head_dim]
};

HeadContext gather(const StepFacts& f, const BatchRow& row, std::int32_t kv_head) {
  const kv::KvLayout& layout = f.cells.layout();
  const std::int32_t length = row.shape.num_computed + row.shape.num_new;
  HeadContext c{Matrix(length, layout.head_dim), Matrix(length, layout.head_dim)};
  reference::KvElement e{.head = kv_head};
  for (std::int32_t t = 0; t < length; ++t) {
    e.block = f.cells.index_of(row.blocks[static_cast<std::size_t>(t / layout.block_size)]);
    e.offset = t % layout.block_size;
    for (e.dim = 0; e.dim < layout.head_dim; ++e.dim) {
      e.part = kv::Part::kKey;
      c.keys.at(t, e.dim) = reference::kv_read(layout, f.cells.after(), e);
      e.part = kv::Part::kValue;
      c.values.at(t, e.dim) = reference::kv_read(layout, f.cells.after(), e);
    }
  }
  return c;
}

struct AttentionValues {
  Matrix queries, out;
  double scale = 0.0;
};

void audit_row(const StepFacts& f, const AttentionValues& a, const BatchRow& row, std::int64_t first_token, Tally::Line line) {
  const kv::KvLayout& layout = f.cells.layout();
  const std::int32_t d = layout.head_dim, group = f.config.spec.num_heads / layout.num_kv_heads, length = row.shape.num_computed + row.shape.num_new;
  const bool all = std::int64_t{length} * row.shape.num_new * f.config.spec.num_heads * d <= kMostAttentionWork;
  for (const std::int32_t kv_head : chosen(layout.num_kv_heads, all)) {
    const HeadContext context = gather(f, row, kv_head);
    for (const std::int32_t i : chosen(row.shape.num_new, all)) {
      const Matrix keys = first_rows(context.keys, row.shape.num_computed + i + 1), values = first_rows(context.values, keys.rows);
      for (const std::int32_t g : chosen(group, all)) {
        const std::int64_t token = first_token + i, head = std::int64_t{kv_head} * group + g;
        const auto query = a.queries.row(token).subspan(static_cast<std::size_t>(head * d), static_cast<std::size_t>(d));
        const reference::HeadOutput want = reference::attend(query, keys, values, a.scale);
        const reference::AttentionBounds bounds = reference::attend_bounds(query, keys, values, a.scale, {});
        for (std::int32_t dim = 0; dim < d; ++dim)
          line.add(a.out.at(token, head * d + dim), want.out[static_cast<std::size_t>(dim)], bounds.out[static_cast<std::size_t>(dim)], [&] { return element_name(f, token, head, dim); });
      }
    }
  }
}

// The step's new cells, and that nothing else in any block changed.
void audit_cells(const StepFacts& f, const Matrix& keys, const std::vector<double>& key_bounds, const Matrix& values, Tally& tally) {
  const kv::KvLayout& layout = f.cells.layout();
  const std::size_t element_bytes = dtype_bytes(layout.dtype);
  std::vector<std::byte> rest(f.cells.after().begin(), f.cells.after().end());
  for (std::int64_t t = 0; t < f.num_tokens(); ++t) {
    Tally::Line key_line = tally.line("key write", f.class_of(t)), value_line = tally.line("value write", f.class_of(t));
    const std::int64_t slot = f.trace.inputs->slots[static_cast<std::size_t>(t)];
    reference::KvElement e{.block = f.cells.index_of(static_cast<std::int32_t>(slot / layout.block_size)), .offset = static_cast<std::int32_t>(slot % layout.block_size)};
    for (std::int64_t c = 0; c < keys.cols; ++c) {
      e.head = static_cast<std::int32_t>(c / layout.head_dim);
      e.dim = static_cast<std::int32_t>(c % layout.head_dim);
      const auto name = [&] { return element_name(f, t, e.head, e.dim); };
      for (const kv::Part part : {kv::Part::kKey, kv::Part::kValue}) {
        e.part = part;
        const double got = reference::kv_read(layout, f.cells.after(), e);
        if (part == kv::Part::kKey) key_line.add(got, keys.at(t, c), key_bounds[static_cast<std::size_t>(t * keys.cols + c)], name);
        if (part == kv::Part::kValue) value_line.add(got, reference::round_to(layout.dtype, values.at(t, c)), 0.0, name);
        const auto at = static_cast<std::size_t>(layout.element(0, e.block, part, e.head, e.offset, e.dim)) * element_bytes;
        std::memcpy(rest.data() + at, f.cells.before().data() + at, element_bytes);
      }
    }
  }
  std::size_t wrong = 0, first = 0;
  for (std::size_t i = rest.size(); i-- > 0;)
    if (rest[i] != f.cells.before()[i]) ++wrong, first = i;
  const auto block_bytes = static_cast<std::size_t>(layout.block_bytes());
  tally.line("cells of no new token", "any").add(static_cast<double>(wrong), 0.0, 0.0, [&] {
    return wrong == 0 ? std::string("bytes changed") : "bytes changed, first in block " + std::to_string(f.cells.blocks()[first / block_bytes]) + " at byte " + std::to_string(first % block_bytes);
  });
}

}  // namespace

const char* StepFacts::class_of(std::int64_t token) const {
  for (const BatchRow& row : batch.rows) {
    if (token < row.shape.num_new) return row_class_name(row.row_class);
    token -= row.shape.num_new;
  }
  return "padded";
}

std::string StepFacts::place_of(std::int64_t token) const {
  std::int64_t left = token;
  for (std::size_t i = 0; i < batch.rows.size(); ++i) {
    const RowShape& s = batch.rows[i].shape;
    if (left < s.num_new) return "row " + std::to_string(i) + " of length " + std::to_string(s.num_computed + s.num_new) + ", position " + std::to_string(s.num_computed + left);
    left -= s.num_new;
  }
  return "padded token " + std::to_string(token);
}

Matrix StepFacts::read(const TensorView& activation, std::int64_t rows) const {
  std::vector<float> host(static_cast<std::size_t>(rows * activation.dim(1)));
  trace.stream->copy_to_host(host.data(), activation.data, host.size() * sizeof(float));
  return Matrix(rows, activation.dim(1), std::vector<double>(host.begin(), host.end()));
}

void poison_attended(const runner::StepTrace& trace, std::int64_t rows) {
  const TensorView& out = trace.activations->attended;
  const std::vector<float> nans(static_cast<std::size_t>(std::min(rows, out.dim(0)) * out.dim(1)), std::numeric_limits<float>::quiet_NaN());
  trace.stream->copy_to_device(out.data, nans.data(), nans.size() * sizeof(float));
}

void audit_attention(const StepFacts& f, Tally& tally) {
  const AttentionValues a{f.read(f.trace.activations->q, f.num_tokens()), f.read(f.trace.activations->attended, f.padded_tokens()),
                          static_cast<double>(static_cast<float>(1.0 / std::sqrt(static_cast<double>(f.config.spec.head_dim))))};
  std::int64_t token = 0;
  for (const BatchRow& row : f.batch.rows) {
    audit_row(f, a, row, token, tally.line("attention", row_class_name(row.row_class)));
    token += row.shape.num_new;
  }
  // A padded row has no keys: nobody computes it (the mark stays), or it is zero.
  for (; token < f.padded_tokens(); ++token) {
    Tally::Line line = tally.line("attention", "padded");
    for (std::int64_t c = 0; c < a.out.cols; ++c) {
      const double got = a.out.at(token, c);
      line.add(std::isnan(got) ? 0.0 : got, 0.0, 0.0, [&] { return element_name(f, token, c / f.config.spec.head_dim, c % f.config.spec.head_dim); });
    }
  }
}

void audit_rope_and_cache(const StepFacts& f, Tally& tally) {
  const model::ModelSpec& spec = f.config.spec;
  const std::int64_t d = spec.head_dim, q_size = spec.num_heads * d, kv_size = spec.num_kv_heads * d;
  const Matrix qkv = f.read(f.trace.activations->qkv, f.num_tokens()), q = f.read(f.trace.activations->q, f.num_tokens());
  reference::Rotation rotation = reference::rotation_of({spec.rope, spec.head_dim, spec.max_position_embeddings, f.config.limits.max_model_len});
  rotation.angles = reference::AnglePrecision::kFloat32;
  const std::vector<std::int64_t> positions(f.trace.inputs->positions.begin(), f.trace.inputs->positions.begin() + f.num_tokens());
  const auto turned = [&](const Matrix& x, DType output, std::vector<double>& bounds) {
    bounds = reference::rope_bounds(x, positions, rotation.frequencies, rotation.attention_scale, {.output = output});
    return reference::rope(x, positions, rotation);
  };
  std::vector<double> q_bounds, k_bounds;
  const Matrix want_q = turned(columns(qkv, 0, q_size), DType::kF32, q_bounds), want_k = turned(columns(qkv, q_size, kv_size), f.cells.layout().dtype, k_bounds);
  for (std::int64_t t = 0; t < f.num_tokens(); ++t) {
    Tally::Line line = tally.line("rope", f.class_of(t));
    for (std::int64_t c = 0; c < q_size; ++c) line.add(q.at(t, c), want_q.at(t, c), q_bounds[static_cast<std::size_t>(t * q_size + c)], [&] { return element_name(f, t, c / d, c % d); });
  }
  audit_cells(f, want_k, k_bounds, columns(qkv, q_size + kv_size, kv_size), tally);
}

}  // namespace quire::selfcheck
