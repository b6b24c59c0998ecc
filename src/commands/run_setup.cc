#include "commands/run_setup.h"

#include <optional>
#include <utility>

#include "base/check.h"
#include "commands/model_masks.h"
#include "kv/store/kv_format.h"

namespace quire::commands {
namespace {

kv::KvLayout layout_of(const config::ResolvedConfig& c, const attention::BackendCaps& backend) {
  kv::KvLayout layout;
  layout.num_layers = c.model.num_layers;
  layout.num_kv_heads = c.model.num_kv_heads;
  layout.head_dim = c.model.head_dim;
  layout.block_size = c.engine.scheduler.block_size;
  layout.num_blocks = c.engine.scheduler.num_blocks;
  layout.dtype = c.engine.kv_dtype;
  layout.key_order = backend.key_order;
  layout.value_order = backend.value_order;
  return layout;
}

}  // namespace

Result<RunSetup> set_up_run(const config::ResolvedConfig& c, const std::string& device_family, std::optional<graph::GraphMode> forced_mode) {
  const SchedulerConfig& s = c.engine.scheduler;
  const attention::AttnProblem problem{.num_heads = c.model.num_heads,
                                       .num_kv_heads = c.model.num_kv_heads,
                                       .head_dim = c.model.head_dim,
                                       .block_size = s.block_size,
                                       .kv_format = kv::kv_format_of(c.engine.kv_dtype).value_or(kv::KvFormat::kOther),
                                       .query_dtype = c.engine.dtype,
                                       .masks = masks_of(c.model),
                                       .max_context = s.max_model_len};
  auto selection = attention::select_backend(problem, device_family, c.engine.attention_backend.empty() ? std::nullopt : std::optional(c.engine.attention_backend));
  if (!selection.ok()) return selection.error();
  QUIRE_CHECK(selection->set.one_row()) << "the runner launches one row's kernels";
  const attention::BackendCaps& backend = *selection->backend;
  config::GraphRequest asked = c.engine.graph;
  if (forced_mode.has_value()) asked.mode = graph::graph_mode_name(*forced_mode);
  const graph::GraphSupport support = forced_mode.has_value() ? graph::GraphSupport::kAlways : backend.graph_support;
  auto graphs = graph::graph_settings(asked, graph::GraphFacts{.attention = {std::string(backend.name), support},
                                                                        .max_num_seqs = s.max_num_seqs,
                                                                        .max_num_batched_tokens = s.max_num_batched_tokens,
                                                                        .enforce_eager = c.engine.enforce_eager});
  if (!graphs.ok()) return graphs.error();
  runner::RunnerConfig runner{c.model, s, c.engine.max_logprobs, &backend, graphs->mode, graphs->buckets};
  return RunSetup{std::move(selection).value(), layout_of(c, backend), std::move(graphs).value(), model::WeightsOptions{c.engine.dtype, s.max_model_len, c.engine.fp8_fnuz, c.engine.gguf_weights}, std::move(runner)};
}

}  // namespace quire::commands
