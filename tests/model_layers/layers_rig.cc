#include "model_layers/layers_rig.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "attention/cpu_kernels.h"
#include "attention/plan.h"
#include "kit/guarded_buffer.h"
#include "ops/cpu_kernels.h"
#include "reference/quantise.h"
#include "reference/rounding.h"

namespace quire::test {
namespace {

std::vector<device::CpuKernel> all_kernels() {
  std::vector<device::CpuKernel> all(ops::cpu_kernels().begin(), ops::cpu_kernels().end());
  all.insert(all.end(), attention::cpu_kernels().begin(), attention::cpu_kernels().end());
  return all;
}

const attention::BackendCaps& backend_named(const std::string& name) {
  for (const auto& row : attention::backend_table())
    if (row.name == name) return row;
  QUIRE_CHECK(false) << name;
  return attention::backend_table()[0];
}

}  // namespace

namespace {

DType stored_dtype(const model::ParameterSpec& parameter, DType dtype) {
  return parameter.kind == model::ParameterKind::kFloat ? dtype : parameter.kind == model::ParameterKind::kFp8 ? DType::kFp8E4m3 : DType::kBF16;
}

const model::ParameterSpec* find_parameter(const std::vector<model::ParameterSpec>& parameters, const std::string& name) {
  const auto found = std::find_if(parameters.begin(), parameters.end(), [&](const auto& p) { return p.name == name; });
  return found == parameters.end() ? nullptr : &*found;
}

}  // namespace

reference::Matrix random_parameter(const model::ParameterSpec& parameter, DType dtype, double norm_mean) {
  constexpr double kFp8Deviation = 100.0;
  std::uint64_t seed = 99;
  for (const char ch : parameter.name) seed = seed * 1099511628211ull + static_cast<unsigned char>(ch);
  std::mt19937_64 rng(seed);
  const bool matrix = parameter.shape.size() == 2, norm = parameter.name.find("norm") != std::string::npos;
  const std::int64_t rows = matrix ? parameter.shape[0] : 1, columns = parameter.shape.empty() ? 1 : parameter.shape.back();
  const bool embedding = parameter.name.find("embed") != std::string::npos;
  reference::Matrix m(rows, columns);
  const DType stored = stored_dtype(parameter, dtype);
  if (parameter.kind == model::ParameterKind::kWeightScale || parameter.kind == model::ParameterKind::kInputScale) {
    std::uniform_real_distribution<double> factor(0.5, 2.0);
    for (double& v : m.values) v = reference::round_to(stored, (parameter.kind == model::ParameterKind::kInputScale ? 0.02 : 0.1 / kFp8Deviation) * factor(rng));
    return m;
  }
  const double weight_deviation = parameter.kind == model::ParameterKind::kFp8 ? kFp8Deviation : 1.3 / std::sqrt(static_cast<double>(columns));
  std::normal_distribution<double> normal(norm ? norm_mean : 0.0, norm || !matrix ? 0.3 : embedding ? 1.0 : weight_deviation);
  for (double& v : m.values) v = reference::round_to(stored, normal(rng));
  return m;
}

// One scale for all of `w`.
reference::Matrix quantised_on_load(reference::Matrix w, DType fp8) {
  double largest = 0.0;
  for (const double v : w.values) largest = std::max(largest, std::fabs(v));
  const reference::Quantised q = reference::quantise_with(w, fp8, reference::round_to(DType::kF32, largest / (fp8 == DType::kFp8E4m3 ? 448.0 : 240.0)));
  for (std::size_t i = 0; i < w.values.size(); ++i) w.values[i] = q.stored.values[i] * q.scales.values[0];
  return w;
}

reference::Matrix random_weight(const model::ModelSpec& spec, const std::string& name, DType dtype, DType fp8) {
  const auto parameters = model::parameters_of(spec);
  reference::Matrix w = random_parameter(*find_parameter(parameters, name + "weight"), dtype, 1.0 - spec.norm_weight_offset);
  for (const char* scale_name : {"weight_scale", "weight_scale_inv"}) {
    const model::ParameterSpec* scale = find_parameter(parameters, name + scale_name);
    if (scale == nullptr) continue;
    const reference::Matrix s = random_parameter(*scale, dtype);
    for (std::int64_t r = 0; r < w.rows; ++r)
      for (std::int64_t c = 0; c < w.cols; ++c) w.at(r, c) *= scale->shape.size() == 2 ? s.at(r / 128, c / 128) : s.at(0, scale->shape.empty() ? 0 : r);
  }
  if (!spec.quant.on_load || name.find("_proj.") == std::string::npos) return w;
  if (spec.quant.scheme_of(0, model::LinearKind::kQ).weight == model::WeightScaling::kTensor) return quantised_on_load(w, fp8);
  for (std::int64_t r = 0; r < w.rows; ++r) {
    reference::Matrix row(1, w.cols);
    for (std::int64_t c = 0; c < w.cols; ++c) row.at(0, c) = w.at(r, c);
    row = quantised_on_load(row, fp8);
    for (std::int64_t c = 0; c < w.cols; ++c) w.at(r, c) = row.at(0, c);
  }
  return w;
}

Result<model::WeightSource::Raw> RandomWeights::read(const model::ParameterSpec& parameter) {
  ++reads[parameter.name];
  bytes_.clear();
  const DType dtype = stored_dtype(parameter, dtype_);
  for (const double v : random_parameter(parameter, dtype_, norm_mean_).values) {
    const std::uint32_t bits = reference::encode(dtype, v);
    for (std::size_t i = 0; i < dtype_bytes(dtype); ++i) bytes_.push_back(static_cast<std::byte>(bits >> (8 * i) & 0xffu));
  }
  return Raw{dtype, bytes_};
}

model::ModelSpec small_spec(std::int32_t num_kv_heads, std::int32_t head_dim) {
  model::ModelSpec s;
  s.architecture = "LlamaForCausalLM";
  s.model_type = "llama";
  s.hidden_size = 40;  // never num_heads * head_dim
  s.intermediate_size = 70;
  s.num_layers = 2;
  s.num_heads = 8;
  s.num_kv_heads = num_kv_heads;
  s.head_dim = head_dim;
  s.vocab_size = 91;
  s.max_position_embeddings = 64;
  s.rms_norm_eps = 1e-5;
  return s;
}

reference::LlamaReference reference_of(const LayersCase& c) {
  const auto parameters = model::parameters_of(c.spec);
  const DType fp8 = c.fp8_fnuz ? DType::kFp8E4m3Fnuz : DType::kFp8E4m3;
  const auto load = [&](const std::string& name) {
    if (name.ends_with(".weight")) return random_weight(c.spec, name.substr(0, name.size() - 6), c.dtype, fp8);
    reference::Matrix m = random_parameter(*find_parameter(parameters, name), c.dtype);
    if (c.fp8_fnuz && name.ends_with(".input_scale")) m.values[0] *= 2.0;
    return m;
  };
  return reference::LlamaReference(c.spec, load,
                                   {.max_model_len = kMaxModelLen, .angles = reference::AnglePrecision::kFloat32, .kv_dtype = c.kv_dtype == DType::kF32 ? std::nullopt : std::optional(c.kv_dtype), .weight_dtype = c.dtype, .fp8 = fp8});
}

LayersRig::LayersRig(const LayersCase& layers, const std::vector<std::vector<TokenId>>& s, model::WeightSource* given)
    : c(layers), sequences(s), device(std::make_unique<device::CpuDevice>(layers.threads, all_kernels())), stream(device->make_stream()) {
  RandomWeights random(c.dtype, 1.0 - c.spec.norm_weight_offset);
  model::LoadProgress progress;
  weights = std::make_unique<model::Weights>(model::Weights::load(*device, c.spec, {c.dtype, kMaxModelLen, c.fp8_fnuz}, given != nullptr ? *given : random, progress).value());
  const auto per_sequence = static_cast<std::int32_t>(ceil_div(kMaxModelLen, std::int64_t{c.block_size}));
  std::vector<std::int32_t> ids(static_cast<std::size_t>(per_sequence) * sequences.size() + 1);
  std::iota(ids.begin(), ids.end(), 0);
  std::mt19937_64 rng(7);
  std::shuffle(ids.begin(), ids.end(), rng);
  for (std::size_t i = 0; i < sequences.size(); ++i) blocks_.emplace_back(ids.begin() + static_cast<std::ptrdiff_t>(i) * per_sequence, ids.begin() + static_cast<std::ptrdiff_t>(i + 1) * per_sequence);
  table_stride_ = per_sequence;
  const kv::KvLayout layout{c.spec.num_layers, c.spec.num_kv_heads, c.spec.head_dim, c.block_size, std::ssize(ids), c.kv_dtype, kv::CellOrder::kDimMajor, kv::CellOrder::kTokenMajor};
  kv = std::make_unique<kv::KvStore>(kv::KvStore::create(*device, layout).value());
  kv->set_scales(std::vector<float>(kv::KvStore::num_scales(layout), 0.37f));
  poison({static_cast<std::byte*>(kv->data()), static_cast<std::size_t>(layout.total_bytes())}, c.kv_dtype);
  memory = device::place_workspace(*device, "activations", [&](auto& v) { act.visit(v, c.spec, model::quantised_needs(*weights), kMaxTokens, kMaxTokens); }).value();
  const auto tokens = static_cast<std::size_t>(kMaxTokens), rows = static_cast<std::size_t>(kMaxRows);
  for (auto* v : {&token_ids_, &positions_, &token_rows_}) v->resize(tokens);
  slots_.resize(tokens);
  query_start_.resize(rows + 1);
  seq_lens_.resize(rows);
  block_table_.resize(sequences.size() * static_cast<std::size_t>(table_stride_));
  for (auto* v : {&decode_, &prefill_, &all_}) v->resize(static_cast<std::size_t>(attention::max_work(kMaxTokens, kMaxRows, 1)) + tokens);
  parts_.resize(rows);
  counts_.resize(4);
}

void LayersRig::fill(const std::vector<StepRow>& rows) {
  std::fill(token_ids_.begin(), token_ids_.end(), 0);
  std::fill(positions_.begin(), positions_.end(), 0);
  std::fill(slots_.begin(), slots_.end(), -1);
  std::fill(token_rows_.begin(), token_rows_.end(), -1);
  std::vector<attention::RowLengths> lengths;
  std::size_t t = 0;
  query_start_[0] = 0;
  for (std::size_t r = 0; r < static_cast<std::size_t>(kMaxRows); ++r) {
    seq_lens_[r] = 0;
    if (r < rows.size()) {
      const StepRow& row = rows[r];
      for (std::int32_t p = row.num_computed; p < row.num_computed + row.num_new; ++p, ++t) {
        token_ids_[t] = sequences[row.sequence].at(static_cast<std::size_t>(p));
        positions_[t] = p;
        slots_[t] = std::int64_t{blocks_[row.sequence].at(static_cast<std::size_t>(p / c.block_size))} * c.block_size + p % c.block_size;
        token_rows_[t] = static_cast<std::int32_t>(t);
      }
      seq_lens_[r] = row.num_computed + row.num_new;
      lengths.push_back({row.num_computed, row.num_new, static_cast<std::int32_t>(row.sequence)});
    }
    query_start_[r + 1] = static_cast<std::int32_t>(t);
  }
  num_tokens_ = static_cast<std::int64_t>(t);
  for (std::size_t s = 0; s < blocks_.size(); ++s) std::copy(blocks_[s].begin(), blocks_[s].end(), block_table_.begin() + static_cast<std::ptrdiff_t>(s) * table_stride_);
  attention::AttnPlan plan;
  attention::build_plan(lengths, {.group = c.spec.num_heads / c.spec.num_kv_heads}, plan);
  std::copy(plan.decode.begin(), plan.decode.end(), decode_.begin());
  std::copy(plan.decode_parts.begin(), plan.decode_parts.end(), parts_.begin());
  const auto end = std::copy(plan.extend.begin(), plan.extend.end(), prefill_.begin());
  const auto num_prefill = std::copy(plan.prefill.begin(), plan.prefill.end(), end) - prefill_.begin();
  std::copy(prefill_.begin(), prefill_.begin() + num_prefill, std::copy(plan.decode.begin(), plan.decode.end(), all_.begin()));
  counts_ = {static_cast<std::int32_t>(plan.decode.size()), static_cast<std::int32_t>(num_prefill), static_cast<std::int32_t>(std::ssize(plan.decode) + num_prefill), static_cast<std::int32_t>(plan.decode_parts.size())};
}

attention::DeviceWork LayersRig::work(bool recorded) const {
  attention::DeviceWork w{decode_.data(), prefill_.data(), all_.data(), &counts_[0], &counts_[1], &counts_[2]};
  const std::int64_t most = attention::max_work(kMaxTokens, kMaxRows, c.spec.num_heads / c.spec.num_kv_heads);
  w.launch_decode = recorded ? kMaxRows : counts_[0];
  w.launch_prefill = recorded ? most : counts_[1];
  w.launch_all = recorded ? most : counts_[2];
  w.parts = parts_.data();
  w.num_parts = &counts_[3];
  w.launch_parts = recorded ? kMaxRows : counts_[3];
  w.launch_combine = recorded ? kMaxRows : 0;
  return w;
}

void LayersRig::launch(std::int64_t num_tokens, const attention::DeviceWork& w) {
  const model::ForwardModel m{c.spec, *weights, backend_named(c.backend), *kv, act};
  model::StepView step;
  step.num_tokens = num_tokens;
  step.token_ids = token_ids_.data();
  step.positions = positions_.data();
  step.slots = slots_.data();
  step.query_start = query_start_.data();
  step.seq_lens = seq_lens_.data();
  step.block_table = block_table_.data();
  step.block_table_stride = table_stride_;
  step.work = w;
  model::forward(*stream, m, step);
  model::logits(*stream, m, token_rows_.data(), num_tokens);
}

std::vector<float> LayersRig::read_logits(std::int64_t num_tokens) const {
  const auto* first = act.logits.as<float>();
  return {first, first + num_tokens * c.spec.vocab_size};
}

std::vector<float> LayersRig::eager(const std::vector<StepRow>& rows) {
  fill(rows);
  poison({memory.data(), memory.bytes()}, DType::kF32);
  launch(num_tokens_, work(false));
  return read_logits(num_tokens_);
}

void LayersRig::record(device::Graph& graph) {
  for (auto* v : {&token_ids_, &positions_, &query_start_, &seq_lens_, &block_table_, &token_rows_, &counts_}) std::fill(v->begin(), v->end(), -12345678);
  std::fill(slots_.begin(), slots_.end(), std::int64_t{1} << 60);
  for (auto* v : {&decode_, &prefill_, &all_}) std::fill(v->begin(), v->end(), attention::AttnWork{-1, -1, -1, -1});
  std::fill(parts_.begin(), parts_.end(), attention::DecodePart{-1, -1});
  stream->begin_record(graph);
  launch(kMaxTokens, work(true));
  stream->end_record();
}

std::vector<float> LayersRig::replay(const device::Graph& graph, const std::vector<StepRow>& rows) {
  fill(rows);
  poison({memory.data(), memory.bytes()}, DType::kF32);
  stream->replay(graph);
  return read_logits(num_tokens_);
}

}  // namespace quire::test
