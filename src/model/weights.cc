#include "model/weights.h"

#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "device/workspace.h"
#include "model/finite_scan.h"
#include "ops/pack.h"

namespace quire::model {
namespace {

ops::WeightFormat format_of(DType t) {
  QUIRE_CHECK(t == DType::kF32 || t == DType::kF16 || t == DType::kBF16);
  return t == DType::kF32 ? ops::WeightFormat::kF32 : t == DType::kF16 ? ops::WeightFormat::kF16 : ops::WeightFormat::kBF16;
}

// A packed matrix of n outputs and k inputs, with its bias.
struct MatrixMemory {
  TensorView packed, bias;
  template <class V>
  void visit(V& v, DType dtype, std::int64_t n, std::int64_t k, bool has_bias) {
    v.tensor(packed, dtype, {round_up(n, ops::kPanel), k});
    if (has_bias) v.tensor(bias, DType::kF32, {n});
  }
  [[nodiscard]] ops::Weight weight(DType dtype, std::int64_t n, std::int64_t k) const { return ops::Weight{format_of(dtype), n, k, packed.data, bias.as<float>()}; }
};

struct LayerMemory {
  TensorView input_norm, post_norm;
  MatrixMemory qkv, o, gate_up, down;
};

std::int64_t q_size(const ModelSpec& s) { return std::int64_t{s.num_heads} * s.head_dim; }
std::int64_t kv_size(const ModelSpec& s) { return std::int64_t{s.num_kv_heads} * s.head_dim; }

struct ArenaMemory {
  TensorView embedding, final_norm, cos_sin;
  MatrixMemory lm_head;
  std::vector<LayerMemory> layers;

  template <class V>
  void visit(V& v, const ModelSpec& s, const WeightsOptions& o) {
    if (!s.tie_word_embeddings) v.tensor(embedding, o.dtype, {s.vocab_size, s.hidden_size});
    lm_head.visit(v, o.dtype, s.vocab_size, s.hidden_size, false);
    v.tensor(final_norm, DType::kF32, {s.hidden_size});
    v.tensor(cos_sin, DType::kF32, {o.max_model_len, s.head_dim});
    layers.resize(static_cast<std::size_t>(s.num_layers));
    for (LayerMemory& l : layers) {
      v.tensor(l.input_norm, DType::kF32, {s.hidden_size});
      v.tensor(l.post_norm, DType::kF32, {s.hidden_size});
      l.qkv.visit(v, o.dtype, q_size(s) + 2 * kv_size(s), s.hidden_size, s.attention_bias);
      l.o.visit(v, o.dtype, s.hidden_size, q_size(s), s.attention_bias);
      l.gate_up.visit(v, o.dtype, 2 * std::int64_t{s.intermediate_size}, s.hidden_size, s.mlp_bias);
      l.down.visit(v, o.dtype, s.hidden_size, s.intermediate_size, s.mlp_bias);
    }
  }
};

// Where one checkpoint parameter goes.
struct Destination {
  enum class Kind { kPacked, kRowMajor, kFloat } kind = Kind::kFloat;
  void* target = nullptr;
  std::int64_t first_row = 0;
};

using Destinations = std::map<std::string, Destination>;

void matrix_destination(Destinations& to, const std::string& name, const MatrixMemory& m, std::int64_t first_row) {
  to[name + ".weight"] = {Destination::Kind::kPacked, m.packed.data, first_row};
  if (m.bias.data != nullptr) to[name + ".bias"] = {Destination::Kind::kFloat, m.bias.as<float>() + first_row, 0};
}

Destinations destinations(const ModelSpec& s, const ArenaMemory& arena) {
  Destinations to;
  if (s.tie_word_embeddings) {
    to["model.embed_tokens.weight"] = {Destination::Kind::kPacked, arena.lm_head.packed.data, 0};
  } else {
    to["model.embed_tokens.weight"] = {Destination::Kind::kRowMajor, arena.embedding.data, 0};
    to["lm_head.weight"] = {Destination::Kind::kPacked, arena.lm_head.packed.data, 0};
  }
  to["model.norm.weight"] = {Destination::Kind::kFloat, arena.final_norm.data, 0};
  for (std::size_t i = 0; i < arena.layers.size(); ++i) {
    const LayerMemory& l = arena.layers[i];
    const std::string layer = "model.layers." + std::to_string(i) + ".";
    to[layer + "input_layernorm.weight"] = {Destination::Kind::kFloat, l.input_norm.data, 0};
    to[layer + "post_attention_layernorm.weight"] = {Destination::Kind::kFloat, l.post_norm.data, 0};
    matrix_destination(to, layer + "self_attn.q_proj", l.qkv, 0);
    matrix_destination(to, layer + "self_attn.k_proj", l.qkv, q_size(s));
    matrix_destination(to, layer + "self_attn.v_proj", l.qkv, q_size(s) + kv_size(s));
    matrix_destination(to, layer + "self_attn.o_proj", l.o, 0);
    matrix_destination(to, layer + "mlp.gate_proj", l.gate_up, 0);
    matrix_destination(to, layer + "mlp.up_proj", l.gate_up, s.intermediate_size);
    matrix_destination(to, layer + "mlp.down_proj", l.down, 0);
  }
  return to;
}

Status fill(const ParameterSpec& parameter, const WeightSource::Raw& raw, const Destination& to, DType dtype) {
  if (const auto bad = first_non_finite(raw.dtype, raw.bytes))
    return Error{ErrorCode::kCorrupt, parameter.name + ": element " + std::to_string(*bad) + " is NaN or infinite; refusing to serve these weights", {}};
  ops::RawMatrix matrix{parameter.name, raw.dtype, raw.bytes, parameter.shape.size() == 2 ? parameter.shape[0] : 1, parameter.shape.back()};
  switch (to.kind) {
    case Destination::Kind::kPacked: return ops::pack_rows(matrix, format_of(dtype), to.first_row, to.target);
    case Destination::Kind::kRowMajor: return ops::store_rows(matrix, format_of(dtype), to.target);
    case Destination::Kind::kFloat: return ops::store_f32(matrix, static_cast<float*>(to.target));
  }
  return {};
}

// Angles as checkpoints were trained and as Hugging Face and vLLM serve them: frequency and product each rounded to float32. (Exact angles
// move gsm-tiny's log-probabilities by up to 1.2e-4 from position 269 on; docs/NUMERICS.md.) Sine and cosine are then rounded once.
void fill_cos_sin(const ModelSpec& s, std::int64_t max_model_len, float* out) {
  const RopeTable rope = rope_table(s.rope, s.head_dim, s.max_position_embeddings, max_model_len);
  const auto half = static_cast<std::size_t>(s.head_dim / 2);
  QUIRE_CHECK_EQ(rope.inv_freq.size(), half);
  for (std::int64_t p = 0; p < max_model_len; ++p, out += s.head_dim) {
    for (std::size_t i = 0; i < half; ++i) {
      const auto angle = static_cast<double>(static_cast<float>(p) * static_cast<float>(rope.inv_freq[i]));
      out[i] = static_cast<float>(std::cos(angle) * rope.attention_scale);
      out[half + i] = static_cast<float>(std::sin(angle) * rope.attention_scale);
    }
  }
}

}  // namespace

std::size_t Weights::arena_bytes(const ModelSpec& spec, const WeightsOptions& options) {
  ArenaMemory arena;
  device::WorkspaceCounter counter;
  arena.visit(counter, spec, options);
  return counter.bytes();
}

struct Weights::Places {
  ArenaMemory arena;
};

Result<Weights> Weights::place(device::Device& device, const ModelSpec& spec, const WeightsOptions& options, Places& places) {
  Weights w;
  ArenaMemory& arena = places.arena;
  auto buffer = device::place_workspace(device, "weights", [&](auto& v) { arena.visit(v, spec, options); });
  if (!buffer.ok()) return buffer.error();
  w.arena_ = std::move(buffer).value();
  w.lm_head_ = arena.lm_head.weight(options.dtype, spec.vocab_size, spec.hidden_size);
  w.embedding_ = spec.tie_word_embeddings ? ops::EmbeddingTable{format_of(options.dtype), spec.vocab_size, spec.hidden_size, arena.lm_head.packed.data, ops::kPanel}
                                          : ops::EmbeddingTable{format_of(options.dtype), spec.vocab_size, spec.hidden_size, arena.embedding.data, 1};
  w.final_norm_ = arena.final_norm.as<float>();
  w.cos_sin_ = arena.cos_sin.as<float>();
  for (const LayerMemory& l : arena.layers)
    w.layers_.push_back(LayerWeights{l.input_norm.as<float>(), l.post_norm.as<float>(), l.qkv.weight(options.dtype, q_size(spec) + 2 * kv_size(spec), spec.hidden_size),
                                     l.o.weight(options.dtype, spec.hidden_size, q_size(spec)),
                                     l.gate_up.weight(options.dtype, 2 * std::int64_t{spec.intermediate_size}, spec.hidden_size),
                                     l.down.weight(options.dtype, spec.hidden_size, spec.intermediate_size)});
  return w;
}

Result<Weights> Weights::place(device::Device& device, const ModelSpec& spec, const WeightsOptions& options) {
  Places places;
  return place(device, spec, options, places);
}

Result<Weights> Weights::load(device::Device& device, const ModelSpec& spec, const WeightsOptions& options, WeightSource& source, LoadProgress& progress) {
  Places places;
  auto w = place(device, spec, options, places);
  if (!w.ok()) return w.error();
  const auto parameters = parameters_of(spec);
  Destinations to = destinations(spec, places.arena);
  progress.parameters_total = static_cast<std::int64_t>(parameters.size());
  for (const ParameterSpec& parameter : parameters) {
    const auto found = to.find(parameter.name);
    QUIRE_CHECK(found != to.end()) << parameter.name << " has no place or was filled already";
    auto raw = source.read(parameter);
    if (!raw.ok()) return raw.error();
    QUIRE_RETURN_IF_ERROR(fill(parameter, raw.value(), found->second, options.dtype));
    to.erase(found);
    ++progress.parameters_done;
  }
  QUIRE_CHECK(to.empty()) << to.begin()->first << " was never filled";
  fill_cos_sin(spec, options.max_model_len, places.arena.cos_sin.as<float>());
  return w;
}

}  // namespace quire::model
