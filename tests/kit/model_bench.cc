#include "kit/model_bench.h"

#include <map>
#include <utility>

#include "attention/cpu_kernels.h"
#include "attention/select.h"
#include "base/check.h"
#include "graph/settings.h"
#include "kit/seed.h"
#include "ops/cpu_kernels.h"

namespace quire::test {

ModelBenchOptions gsm_tiny(DType kv, std::int32_t budget) {
  ModelBenchOptions o;
  o.model_dir = std::string(QUIRE_SOURCE_DIR) + "/models/gsm-tiny";
  o.kv_dtype = kv;
  o.scheduler = SchedulerConfig{.max_num_batched_tokens = budget, .max_num_seqs = std::min(16, budget), .max_model_len = 1024, .num_blocks = 64};
  return o;
}

std::vector<device::CpuKernel> all_cpu_kernels() {
  std::vector<device::CpuKernel> all;
  for (const auto& k : ops::cpu_kernels()) all.push_back(k);
  for (const auto& k : attention::cpu_kernels()) all.push_back(k);
  return all;
}

ModelBench::ModelBench(const ModelBenchOptions& o) : spec(o.dummy.has_value() ? *o.dummy : model::read_model_spec(o.model_dir).value()) {
  if (o.on_load.has_value()) {
    spec.quant = {.method = model::QuantMethod::kFp8, .on_load = true};
    spec.quant.layers.resize(static_cast<std::size_t>(spec.num_layers));
    for (model::LayerSchemes& layer : spec.quant.layers) layer.fill(*o.on_load);
  }
  device = std::make_unique<device::CpuDevice>(o.num_threads, o.kernels.empty() ? all_cpu_kernels() : o.kernels);
  std::unique_ptr<model::WeightSource> source = o.dummy.has_value() ? model::dummy_weights(spec, 1) : model::open_checkpoint_weights(o.model_dir, spec, {}).value();
  const DType dtype = o.dtype.value_or(spec.dtype), kv_dtype = o.kv_dtype.value_or(dtype);
  model::LoadProgress progress;
  weights = std::make_unique<model::Weights>(
      model::Weights::load(*device, spec, model::WeightsOptions{dtype, o.scheduler.max_model_len, o.fp8_fnuz, o.gguf}, *source, progress).value());
  const attention::AttnProblem problem{spec.num_heads, spec.num_kv_heads, spec.head_dim, o.scheduler.block_size, kv::kv_format_of(kv_dtype).value(), dtype};
  backend = attention::select_backend(problem, "cpu", o.backend).value().backend;
  if (o.claimed_graph_support.has_value()) {
    claimed = std::make_unique<attention::BackendCaps>(*backend);
    claimed->graph_support = *o.claimed_graph_support;
    backend = claimed.get();
  }
  kv::KvLayout layout;
  layout.num_layers = spec.num_layers;
  layout.num_kv_heads = spec.num_kv_heads;
  layout.head_dim = spec.head_dim;
  layout.block_size = o.scheduler.block_size;
  layout.num_blocks = o.scheduler.num_blocks;
  layout.dtype = kv_dtype;
  layout.key_order = backend->key_order;
  layout.value_order = backend->value_order;
  kv = std::make_unique<kv::KvStore>(kv::KvStore::create(*device, layout).value());
  // No powers of two, another one for every layer, part and head.
  kv_scales.resize(kv::KvStore::num_scales(layout));
  for (std::size_t i = 0; i < kv_scales.size(); ++i) kv_scales[i] = 0.03f + 0.007f * static_cast<float>(i % 13);
  kv->set_scales(kv_scales);
  const std::string asked = o.forced_graph_mode.has_value() ? graph::graph_mode_name(*o.forced_graph_mode) : o.graph_mode;
  const auto support = o.forced_graph_mode.has_value() ? attention::GraphSupport::kAlways : backend->graph_support;
  const auto graphs = graph::graph_settings({.mode = asked}, {.attention = {std::string(backend->name), support},
                                                                     .max_num_seqs = o.scheduler.max_num_seqs,
                                                                     .max_num_batched_tokens = o.scheduler.max_num_batched_tokens})
                          .value();
  config = runner::RunnerConfig{spec, o.scheduler, 20, backend, graphs.mode, graphs.buckets};
  runner = runner::ModelRunner::create(*device, config, *weights, *kv).value();
  graphs_recorded = runner->record_graphs();
}

std::vector<SequenceSpec> scored_sequences(std::int32_t vocab_size, const std::vector<int>& prompt_lengths) {
  auto rng = seeded_rng();
  std::vector<SequenceSpec> specs;
  for (const int length : prompt_lengths) {
    SequenceSpec s;
    s.id = RequestId{specs.size()};
    for (int i = 0; i < length; ++i) s.prompt.push_back(static_cast<TokenId>(rng() % static_cast<unsigned>(vocab_size)));
    auto p = std::make_shared<SamplingParams>();
    p->temperature = 0;
    p->max_tokens = 3;
    p->ignore_eos = true;
    p->logprobs = 5;
    p->prompt_logprobs = 3;
    s.sampling = p;
    specs.push_back(s);
  }
  return specs;
}

RunResult run_all(runner::ModelRunner& runner, Scheduler& scheduler, std::vector<SequenceSpec> specs, std::int32_t depth) {
  RunResult out;
  std::map<RequestId, std::size_t> index;
  for (auto& s : specs) {
    index[s.id] = out.sequences.size();
    out.sequences.emplace_back();
    const Status added = scheduler.add(std::move(s));
    QUIRE_CHECK(added.ok()) << added.error().message;
  }
  std::int32_t in_flight = 0;
  for (std::int64_t steps = 0; scheduler.has_work(); ++steps) {
    QUIRE_CHECK_LT(steps, 1'000'000) << "no end in sight";
    std::optional<StepPlan> plan = scheduler.step_plan();
    if (plan.has_value()) {
      runner.submit(*plan);
      ++in_flight;
    }
    if (in_flight == 0 || (plan.has_value() && in_flight < depth)) continue;
    const StepResult result = runner.collect().value();
    --in_flight;
    for (SequenceOutput& o : scheduler.apply(result)) {
      FinishedSequence& f = out.sequences.at(index.at(o.id));
      if (o.token.has_value()) f.tokens.push_back(*o.token);
      if (o.logprobs.has_value()) {
        f.logprobs.push_back(o.logprobs->logprob);
        f.tops.push_back(o.logprobs->top);
      }
      for (auto& p : o.prompt_logprobs) f.prompt_logprobs.push_back(std::move(p));
      if (o.first_scheduled) f.num_cached = o.num_cached_tokens;
      if (o.finish.has_value() && o.finish->error.has_value()) f.error = o.finish->error->message;
    }
  }
  out.stats = scheduler.stats();
  return out;
}

}  // namespace quire::test
