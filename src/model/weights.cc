#include "model/weights.h"

#include <array>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "base/checked.h"
#include "device/workspace.h"
#include "model/fused_linears.h"
#include "model/norm_names.h"
#include "model/weight_fill.h"
#include "ops/linear_table.h"
#include "ops/pack.h"

namespace quire::model {
namespace {

ops::WeightFormat format_of(DType t) {
  QUIRE_CHECK(t == DType::kF32 || t == DType::kF16 || t == DType::kBF16);
  return t == DType::kF32 ? ops::WeightFormat::kF32 : t == DType::kF16 ? ops::WeightFormat::kF16 : ops::WeightFormat::kBF16;
}

ops::WeightFormat fp8_format(const WeightsOptions& o) { return o.fp8_fnuz ? ops::WeightFormat::kFp8E4m3Fnuz : ops::WeightFormat::kFp8E4m3; }

ops::ActScaling act_scaling(InputScaling scaling) {
  switch (scaling) {
    case InputScaling::kNone: return ops::ActScaling::kNone;
    case InputScaling::kStatic: return ops::ActScaling::kStatic;
    case InputScaling::kPerToken: return ops::ActScaling::kPerToken;
    case InputScaling::kPerGroup: return ops::ActScaling::kPerGroup;
  }
  return ops::ActScaling::kNone;
}

static_assert(kQkv.num_parts <= ops::kMaxParts && kGateUp.num_parts <= ops::kMaxParts && kScaleBlock == ops::kScaleGroup);

constexpr char kEmbedding[] = "model.embed_tokens.weight", kHead[] = "lm_head.weight";

// A matrix without its memory.
struct MatrixShape {
  ops::Weight weight;  // no pointers; input without scales
  LinearScheme scheme;
  bool has_bias = false;
};

// `w` holds its parts in blocks of these types.
void keep_blocks(ops::Weight& w, std::span<const gguf::TensorType> types) {
  for (std::size_t p = 0; p < types.size(); ++p) w.coded[p].format = ops::coded_format(types[p]);
  w.format = w.coded[0].format;
  w.input = ops::kInt8Input;
}

// The output matrix, which is the embedding table too where they are tied.
MatrixShape head_shape(const ModelSpec& s, const WeightsOptions& o) {
  MatrixShape out{.weight = {.format = format_of(o.dtype), .n = s.vocab_size, .k = s.hidden_size}};
  if (const auto kept = kept_type(s, o.gguf, s.tie_word_embeddings ? kEmbedding : kHead)) keep_blocks(out.weight, {&*kept, 1});
  return out;
}

MatrixShape shape_of(const ModelSpec& s, const WeightsOptions& o, std::int32_t layer, const FusedLinear& fused) {
  MatrixShape out;
  out.has_bias = has_bias(s, fused.first);
  const LinearScheme scheme = out.scheme = s.quant.scheme_of(layer, fused.first);
  ops::Weight& w = out.weight;
  w.k = linear_columns(s, fused.first);
  w.num_parts = fused.num_parts;
  for (int p = 0; p < fused.num_parts; ++p) {
    const auto kind = static_cast<LinearKind>(static_cast<int>(fused.first) + p);
    QUIRE_CHECK(s.quant.scheme_of(layer, kind) == scheme) << "parts of one projection are quantised alike";
    w.first_rows[static_cast<std::size_t>(p)] = w.n;
    w.n += linear_rows(s, kind);
  }
  w.format = format_of(o.dtype);
  if (const auto kept = kept_types(s, o.gguf, layer, fused); !kept.empty()) keep_blocks(w, kept);
  if (scheme.weight == WeightScaling::kNone) return out;
  w.format = fp8_format(o);
  w.scale_group = scheme.weight == WeightScaling::kBlock ? kScaleBlock : w.k;
  w.input.scaling = act_scaling(scheme.input);
  if (w.input.quantised()) w.input.format = o.fp8_fnuz ? ops::ActFormat::kFp8E4m3Fnuz : ops::ActFormat::kFp8E4m3;
  return out;
}

std::int64_t blocks_bytes(ops::WeightFormat format, std::int64_t rows, std::int64_t columns) { return static_cast<std::int64_t>(ops::coded_bytes(format, rows, columns)); }

// A packed matrix, with its scales and its bias.
struct MatrixMemory {
  TensorView packed, scales, bias;
  std::array<TensorView, ops::kMaxParts> coded;  // instead of `packed`
  MatrixShape shape;
  std::array<float, ops::kMaxParts> input_scales{1.0f, 1.0f, 1.0f};  // kStatic, of each part

  template <class V>
  void visit(V& v, const MatrixShape& of) {
    shape = of;
    const ops::Weight& w = shape.weight;
    const std::int64_t rows = round_up(w.n, ops::kPanel);
    if (ops::is_coded(w.format))
      for (int p = 0; p < w.num_parts; ++p) v.tensor(coded[static_cast<std::size_t>(p)], DType::kU8, {blocks_bytes(w.coded[static_cast<std::size_t>(p)].format, w.part_rows(p), w.k)});
    else
      v.tensor(packed, ops::storage_dtype(w.format), {rows, w.k});
    if (ops::is_fp8(w.format)) v.tensor(scales, DType::kF32, {ops::Weight::scale_rows(w.k, w.scale_group), rows});
    if (shape.has_bias) v.tensor(bias, DType::kF32, {w.n});
  }
  [[nodiscard]] ops::Weight weight() const {
    ops::Weight w = shape.weight;
    w.packed = packed.data;
    for (std::size_t p = 0; p < w.coded.size(); ++p) w.coded[p].packed = coded[p].data;
    w.scales = scales.as<float>();
    w.bias = bias.as<float>();
    if (w.input.scaling == ops::ActScaling::kStatic) {
      bool alike = true;
      for (int p = 1; p < w.num_parts; ++p) alike = alike && input_scales[static_cast<std::size_t>(p)] == input_scales[0];
      w.input.num_scales = alike ? 1 : w.num_parts;
      for (int p = 0; p < w.input.num_scales; ++p) w.input.scales[static_cast<std::size_t>(p)] = input_scales[static_cast<std::size_t>(p)];
    }
    return w;
  }
  [[nodiscard]] PartScales part_scales(int part) const {
    const ops::Weight& w = shape.weight;
    const std::int64_t first = w.first_rows[static_cast<std::size_t>(part)];
    return {scales.as<float>(), round_up(w.n, ops::kPanel), first, w.end_row(part) - first, w.k, w.scale_group};
  }
};

struct LayerMemory {
  TensorView input_norm, feed_forward_norm, attended_norm, fed_norm, q_norm, k_norm;
  MatrixMemory qkv, o, gate_up, down;
};

struct ArenaMemory {
  TensorView embedding, final_norm, cos_sin, local_cos_sin;
  ops::WeightFormat embedding_format = ops::WeightFormat::kBF16;  // where it is a tensor of its own
  MatrixMemory lm_head;
  std::vector<LayerMemory> layers;

  // What an embedding looks up: of tied ones the output matrix. Blocks lie in panels either way.
  [[nodiscard]] ops::EmbeddingTable table(const ModelSpec& s) const {
    const ops::Weight& head = lm_head.shape.weight;
    if (!s.tie_word_embeddings) return {embedding_format, s.vocab_size, s.hidden_size, embedding.data, ops::is_coded(embedding_format) ? ops::kPanel : 1};
    return {head.format, s.vocab_size, s.hidden_size, ops::is_coded(head.format) ? lm_head.coded[0].data : lm_head.packed.data, ops::kPanel};
  }
  template <class V>
  void visit(V& v, const ModelSpec& s, const WeightsOptions& o) {
    if (!s.tie_word_embeddings) {
      if (const auto kept = kept_type(s, o.gguf, kEmbedding)) {
        embedding_format = ops::coded_format(*kept);
        v.tensor(embedding, DType::kU8, {blocks_bytes(embedding_format, s.vocab_size, s.hidden_size)});
      } else {
        embedding_format = format_of(o.dtype);
        v.tensor(embedding, o.dtype, {s.vocab_size, s.hidden_size});
      }
    }
    lm_head.visit(v, head_shape(s, o));
    v.tensor(final_norm, DType::kF32, {s.hidden_size});
    v.tensor(cos_sin, DType::kF32, {o.max_model_len, s.head_dim});
    if (s.local_rope) v.tensor(local_cos_sin, DType::kF32, {o.max_model_len, s.head_dim});
    layers.resize(static_cast<std::size_t>(s.num_layers));
    for (std::int32_t i = 0; i < s.num_layers; ++i) {
      LayerMemory& l = layers[static_cast<std::size_t>(i)];
      for (TensorView* norm : {&l.input_norm, &l.feed_forward_norm}) v.tensor(*norm, DType::kF32, {s.hidden_size});
      if (s.branch_norms)
        for (TensorView* norm : {&l.attended_norm, &l.fed_norm}) v.tensor(*norm, DType::kF32, {s.hidden_size});
      if (s.qk_norm)
        for (TensorView* norm : {&l.q_norm, &l.k_norm}) v.tensor(*norm, DType::kF32, {s.head_dim});
      l.qkv.visit(v, shape_of(s, o, i, kQkv));
      l.o.visit(v, shape_of(s, o, i, kO));
      l.gate_up.visit(v, shape_of(s, o, i, kGateUp));
      l.down.visit(v, shape_of(s, o, i, kDown));
    }
  }
};

using Destinations = std::map<std::string, Destination>;

Destination blocks_destination(const TensorView& place) { return {Destination::Kind::kBlocks, place.data}; }

void norm_destination(Destinations& to, const ModelSpec& s, const std::string& name, const TensorView& norm) {
  if (norm.data != nullptr) to[name + ".weight"] = {.kind = Destination::Kind::kFloat, .target = norm.data, .added = static_cast<float>(s.norm_weight_offset)};
}

// Every part of a layer's matrix, by the names of its linear layers.
void matrix_destinations(Destinations& to, const ModelSpec& s, const std::string& layer, const FusedLinear& fused, MatrixMemory& m) {
  const ops::Weight& w = m.shape.weight;
  for (int p = 0; p < fused.num_parts; ++p) {
    const auto part = static_cast<std::size_t>(p);
    const std::string name = layer + std::string(kLinearNames[static_cast<std::size_t>(fused.first) + part]) + ".";
    const std::int64_t first = w.first_rows[part];
    Destination& weight = to[name + "weight"];
    weight = ops::is_coded(w.format) ? blocks_destination(m.coded[part]) : Destination{Destination::Kind::kPacked, m.packed.data, first};
    if (m.bias.data != nullptr) to[name + "bias"] = {Destination::Kind::kFloat, m.bias.as<float>() + first};
    if (!ops::is_fp8(w.format)) continue;
    const auto on_load = m.shape.scheme.weight == WeightScaling::kChannel ? Destination::Kind::kQuantisedRows : Destination::Kind::kQuantised;
    weight.kind = s.quant.on_load ? on_load : Destination::Kind::kFp8;
    if (s.quant.on_load) {
      weight.scales = m.part_scales(p);
      continue;
    }
    to[name + std::string(weight_scale_name(s.quant.method, m.shape.scheme.weight))] = {Destination::Kind::kWeightScale, nullptr, 0, m.part_scales(p)};
    if (w.input.scaling == ops::ActScaling::kStatic) to[name + std::string(kInputScaleName)] = {Destination::Kind::kInputScale, &m.input_scales[part]};
  }
}

Destinations destinations(const ModelSpec& s, ArenaMemory& arena) {
  Destinations to;
  const bool coded_head = ops::is_coded(arena.lm_head.shape.weight.format);
  to[s.tie_word_embeddings ? kEmbedding : kHead] = coded_head ? blocks_destination(arena.lm_head.coded[0]) : Destination{Destination::Kind::kPacked, arena.lm_head.packed.data};
  if (!s.tie_word_embeddings) to[kEmbedding] = ops::is_coded(arena.embedding_format) ? blocks_destination(arena.embedding) : Destination{Destination::Kind::kRowMajor, arena.embedding.data};
  norm_destination(to, s, "model.norm", arena.final_norm);
  for (std::size_t i = 0; i < arena.layers.size(); ++i) {
    LayerMemory& l = arena.layers[i];
    const std::string at = "model.layers." + std::to_string(i), layer = at + ".";
    const auto norm = [&](std::string_view name, const TensorView& place) { norm_destination(to, s, at + std::string(name), place); };
    norm(kInputNorm, l.input_norm);
    norm(kQNorm, l.q_norm);
    norm(kKNorm, l.k_norm);
    norm(kAttendedNorm, l.attended_norm);
    norm(feed_forward_norm_name(s), l.feed_forward_norm);
    norm(kFedNorm, l.fed_norm);
    matrix_destinations(to, s, layer, kQkv, l.qkv);
    matrix_destinations(to, s, layer, kO, l.o);
    matrix_destinations(to, s, layer, kGateUp, l.gate_up);
    matrix_destinations(to, s, layer, kDown, l.down);
  }
  return to;
}

// Angles as checkpoints were trained and as Hugging Face and vLLM serve them: frequency and product each rounded to float32. (Exact angles
// move gsm-tiny's log-probabilities by up to 1.2e-4 from position 269 on; docs/NUMERICS.md.) Sine and cosine are then rounded once.
void fill_cos_sin(const ModelSpec& s, const RopeSpec& of, std::int64_t max_model_len, float* out) {
  const RopeTable rope = rope_table(of, s.head_dim, s.max_position_embeddings, max_model_len);
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

// As a tensor of the served type would hold it: what models with scaled embeddings were trained with.
float rounded_scale(double scale, DType dtype) {
  const auto exact = static_cast<float>(scale);
  return dtype == DType::kBF16 ? to_float(to_bfloat16(exact)) : dtype == DType::kF16 ? to_float(to_float16(exact)) : exact;
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

namespace {

// Every linear layer has a kernel, before anything is read.
Status check_linears(const ArenaMemory& arena) {
  for (std::size_t i = 0; i < arena.layers.size(); ++i) {
    const LayerMemory& l = arena.layers[i];
    for (const MatrixMemory* m : {&l.qkv, &l.o, &l.gate_up, &l.down})
      if (const Status status = ops::linear_support(m->shape.weight.format, m->shape.weight.input, ops::LinearDevice::kCpu); !status.ok())
        return Error{status.error().code, "layer " + std::to_string(i) + ": " + status.error().message, status.error().param};
  }
  return {};
}

}  // namespace

namespace {

Status read_into(WeightSource& source, const ParameterSpec& parameter, const Destination& to, const FillFormats& formats) {
  if (to.kind == Destination::Kind::kBlocks) {
    const auto blocks = source.read_blocks(parameter);
    return blocks.ok() ? fill_blocks(parameter, blocks.value(), to) : Status(blocks.error());
  }
  const auto raw = source.read(parameter);
  return raw.ok() ? fill(parameter, raw.value(), to, formats) : Status(raw.error());
}

}  // namespace

Result<Weights> Weights::place(device::Device& device, const ModelSpec& spec, const WeightsOptions& options, Places& places) {
  Weights w;
  ArenaMemory& arena = places.arena;
  auto buffer = device::place_workspace(device, "weights", [&](auto& v) { arena.visit(v, spec, options); });
  if (!buffer.ok()) return buffer.error();
  QUIRE_RETURN_IF_ERROR(check_linears(arena));
  w.arena_ = std::move(buffer).value();
  w.lm_head_ = arena.lm_head.weight();
  w.embedding_ = arena.table(spec);
  w.final_norm_ = arena.final_norm.as<float>();
  w.embedding_.scale = rounded_scale(spec.embedding_scale, options.dtype);
  w.set_layers(spec, places);
  return w;
}

// Input scales are among what this copies, so it comes again once they are known.
void Weights::set_layers(const ModelSpec& spec, const Places& places) {
  const ArenaMemory& arena = places.arena;
  layers_.clear();
  for (const LayerMemory& l : arena.layers) {
    const bool local = spec.local_rope && spec.is_local(static_cast<std::int32_t>(layers_.size()));
    layers_.push_back(LayerWeights{.input_norm = l.input_norm.as<float>(),
                                   .feed_forward_norm = l.feed_forward_norm.as<float>(),
                                   .attended_norm = l.attended_norm.as<float>(),
                                   .fed_norm = l.fed_norm.as<float>(),
                                   .q_norm = l.q_norm.as<float>(),
                                   .k_norm = l.k_norm.as<float>(),
                                   .cos_sin = (local ? arena.local_cos_sin : arena.cos_sin).as<float>(),
                                   .qkv = l.qkv.weight(),
                                   .o = l.o.weight(),
                                   .gate_up = l.gate_up.weight(),
                                   .down = l.down.weight()});
  }
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
    QUIRE_RETURN_IF_ERROR(read_into(source, parameter, found->second, {format_of(options.dtype), fp8_format(options)}));
    to.erase(found);
    ++progress.parameters_done;
  }
  QUIRE_CHECK(to.empty()) << to.begin()->first << " was never filled";
  w->set_layers(spec, places);
  fill_cos_sin(spec, spec.rope, options.max_model_len, places.arena.cos_sin.as<float>());
  if (spec.local_rope) fill_cos_sin(spec, *spec.local_rope, options.max_model_len, places.arena.local_cos_sin.as<float>());
  return w;
}

}  // namespace quire::model
