#include "runner/runner.h"

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "attention/workspace.h"
#include "device/workspace.h"
#include "model/forward.h"
#include "ops/sample.h"
#include "runner/recorded_steps.h"
#include "runner/step_buffers.h"
#include "runner/step_inputs.h"

namespace quire::runner {
namespace {

// Rows of logits computed at once; a step with more (prompt log-probabilities) goes through them in turns.
constexpr std::int64_t kLogitsTile = 256;

std::int64_t max_blocks_per_row(const SchedulerConfig& l) { return ceil_div(l.max_model_len, l.block_size); }
std::int64_t history_stride(const SchedulerConfig& l) { return std::int64_t{l.max_model_len} + 1; }

attention::DecodeLimits decode_limits(const RunnerConfig& c) {
  return attention::DecodeLimits{.max_rows = c.limits.max_num_seqs, .max_seq_len = c.limits.max_model_len, .num_heads = c.spec.num_heads, .num_kv_heads = c.spec.num_kv_heads, .head_dim = c.spec.head_dim};
}

attention::PlanRules plan_rules(const RunnerConfig& c) {
  const attention::DecodeLimits l = decode_limits(c);
  return attention::PlanRules{.group = l.num_heads / l.num_kv_heads, .decode_query_len = l.decode_query_len, .partial_slots = attention::partial_slots(*c.backend, l)};
}

StepLimits step_limits(const RunnerConfig& c) {
  const SchedulerConfig& l = c.limits;
  return StepLimits{.max_tokens = l.max_num_batched_tokens,
                    .max_rows = l.max_num_seqs,
                    .max_work = attention::max_work(l.max_num_batched_tokens, l.max_num_seqs, c.spec.num_heads / c.spec.num_kv_heads),
                    .max_parts = attention::max_decode_parts(*c.backend, decode_limits(c)),
                    .max_logits = std::int64_t{l.max_num_batched_tokens} + l.max_num_seqs,
                    .top_stride = c.max_logprobs < 0 ? c.spec.vocab_size : std::max(c.max_logprobs, 1)};
}

// What sequences keep on the device between steps, one row each.
struct SequenceMemory {
  TensorView history, block_table, lists, states;

  template <class V>
  void visit(V& v, const SchedulerConfig& l) {
    v.tensor(history, DType::kI32, {l.max_num_seqs, history_stride(l)});
    v.tensor(block_table, DType::kI32, {l.max_num_seqs, max_blocks_per_row(l)});
    v.tensor(lists, DType::kI32, {l.max_num_seqs, kMaxSamplingListEntries});
    v.tensor(states, DType::kU8, {l.max_num_seqs, static_cast<std::int64_t>(sizeof(ops::SamplingState))});
  }
};

// A submitted step: where its results are and how to read them.
struct InFlight {
  StepPlan plan;
  std::vector<std::int32_t> logits_begin;
  std::vector<std::pair<std::int32_t, std::int32_t>> num_top;  // per plan row: output, prompt log-probabilities wanted (-1: none)
  std::size_t buffers = 0;
};

Error row_failure(const ops::LogitsResult& result, const RowPlan& plan) {
  if (result.failed == ops::LogitsFailure::kNotFinite) return Error{ErrorCode::kInternal, "the model gave a NaN or infinite logit", {}};
  return invalid("output token " + std::to_string(plan.output_index) + ": allowed_token_ids, bad_words, min_tokens and stop_token_ids together leave no token to choose");
}

// Entries that attention's kernels are launched for.
struct LaunchSizes {
  std::int64_t decode = 0, prefill = 0, all = 0, parts = 0, combine = 0;
};

}  // namespace

struct ModelRunner::Impl {
  Impl(device::Device& device, RunnerConfig c, const model::Weights& w, kv::KvStore& store)
      : config(std::move(c)), weights(w), kv(store), stream(device.make_stream()), rows(static_cast<std::size_t>(config.limits.max_num_seqs)), recorded(static_cast<std::size_t>(config.limits.depth)) {}

  RunnerConfig config;
  const model::Weights& weights;
  kv::KvStore& kv;
  std::unique_ptr<device::Stream> stream;
  device::Buffer activation_memory, attention_memory, sequence_memory;
  model::Activations activations;
  attention::AttentionWorkspace attention_workspace;
  SequenceMemory sequences;
  std::vector<StepBuffers> buffers;
  std::vector<RowState> rows;   // by StateRow
  StepInputs inputs;
  std::deque<InFlight> in_flight;
  std::uint64_t last_step = 0;
  RecordedSteps recorded;
  graph::GraphChoice choice;    // of the last submitted step

  void upload(const StateUpload& u);
  void append_blocks(const BlockAppend& a);
  void fill(StepBuffers& b, std::uint64_t step);
  [[nodiscard]] LaunchSizes eager_sizes() const;
  [[nodiscard]] LaunchSizes recorded_sizes(const graph::GraphKey& key) const;
  [[nodiscard]] attention::DeviceWork device_work(const StepBuffers& b, const LaunchSizes& sizes) const;
  [[nodiscard]] model::ForwardModel forward_model() const { return {config.spec, weights, *config.backend, kv, activations}; }
  [[nodiscard]] model::StepView step_view(const StepBuffers& b, std::int64_t num_tokens, const attention::DeviceWork& work) const;
  void gather(const StepBuffers& b, std::int64_t num_tokens);
  void record(const graph::GraphKey& key, std::size_t buffers);
  [[nodiscard]] graph::GraphChoice choose(const StepPlan& plan) const;
  void run_model(std::size_t buffers, std::uint64_t step, const StepOptions& options);
  void run_logits(StepBuffers& b);
  [[nodiscard]] RowResult read_row(const InFlight& f, std::size_t row, const std::vector<ops::LogitsResult>& results, const StepBuffers& b);
  [[nodiscard]] TokenLogprobs read_logprobs(const ops::LogitsResult& r, std::int64_t index, std::int32_t num_top, const StepBuffers& b);
};

void ModelRunner::Impl::upload(const StateUpload& u) {
  RowState& row = rows.at(static_cast<std::size_t>(u.row.value));
  row = RowState{u.request, u.num_prompt_tokens, u.sampling->logprobs.value_or(-1), u.sampling->prompt_logprobs.value_or(-1), {}};
  QUIRE_CHECK_LE(static_cast<std::int64_t>(u.tokens.size()), history_stride(config.limits));
  stream->copy_to_device(sequences.history.as<std::int32_t>() + u.row.value * history_stride(config.limits), u.tokens.data(), u.tokens.size() * sizeof(TokenId));
  std::vector<std::int32_t> lists;
  const auto state = ops::encode_sampling(*u.sampling, u.num_prompt_tokens, lists);
  QUIRE_CHECK(state.ok()) << "admission lets only encodable parameters through: " << state.error().message;
  stream->copy_to_device(sequences.lists.as<std::int32_t>() + std::int64_t{u.row.value} * kMaxSamplingListEntries, lists.data(), lists.size() * sizeof(std::int32_t));
  stream->copy_to_device(static_cast<ops::SamplingState*>(sequences.states.data) + u.row.value, &state.value(), sizeof(ops::SamplingState));
}

void ModelRunner::Impl::append_blocks(const BlockAppend& a) {
  RowState& row = rows.at(static_cast<std::size_t>(a.row.value));
  const std::size_t first = row.blocks.size();
  for (const BlockId b : a.blocks) {
    QUIRE_CHECK(b.value >= 0 && b.value < kv.layout().num_blocks) << "block " << b.value;
    row.blocks.push_back(b.value);
  }
  const std::int64_t stride = max_blocks_per_row(config.limits);
  QUIRE_CHECK_LE(static_cast<std::int64_t>(row.blocks.size()), stride);
  stream->copy_to_device(sequences.block_table.as<std::int32_t>() + a.row.value * stride + static_cast<std::int64_t>(first), row.blocks.data() + first,
                         a.blocks.size() * sizeof(std::int32_t));
}

void ModelRunner::Impl::fill(StepBuffers& b, std::uint64_t step) {
  const auto put = [&](Field f, const auto& v) { b.fill(*stream, f, v.data(), v.size(), step); };
  put(Field::kRowOfToken, inputs.row_of_token);
  put(Field::kPositions, inputs.positions);
  put(Field::kSlots, inputs.slots);
  put(Field::kQueryStart, inputs.query_start);
  put(Field::kSeqLens, inputs.seq_lens);
  put(Field::kWorkDecode, inputs.plan.decode);
  put(Field::kWorkParts, inputs.plan.decode_parts);
  put(Field::kWorkPrefill, inputs.work_prefill);
  put(Field::kWorkAll, inputs.work_all);
  put(Field::kWorkCounts, inputs.work_counts);
  put(Field::kTokenRows, inputs.token_rows);
  put(Field::kLogitsRows, inputs.logits_rows);
}

attention::DeviceWork ModelRunner::Impl::device_work(const StepBuffers& b, const LaunchSizes& sizes) const {
  const auto* counts = b.get<std::int32_t>(Field::kWorkCounts);
  return attention::DeviceWork{.decode = b.get<attention::AttnWork>(Field::kWorkDecode),
                               .prefill = b.get<attention::AttnWork>(Field::kWorkPrefill),
                               .all = b.get<attention::AttnWork>(Field::kWorkAll),
                               .num_decode = counts,
                               .num_prefill = counts + 1,
                               .num_all = counts + 2,
                               .launch_decode = sizes.decode,
                               .launch_prefill = sizes.prefill,
                               .launch_all = sizes.all,
                               .parts = b.get<attention::DecodePart>(Field::kWorkParts),
                               .num_parts = counts + 3,
                               .launch_parts = sizes.parts,
                               .launch_combine = sizes.combine,
                               .decode_query_len = decode_limits(config).decode_query_len,
                               .partials = attention_workspace.partials()};
}

model::StepView ModelRunner::Impl::step_view(const StepBuffers& b, std::int64_t num_tokens, const attention::DeviceWork& work) const {
  return model::StepView{.num_tokens = num_tokens,
                         .token_ids = b.get<std::int32_t>(Field::kTokenIds),
                         .positions = b.get<std::int32_t>(Field::kPositions),
                         .slots = b.get<std::int64_t>(Field::kSlots),
                         .query_start = b.get<std::int32_t>(Field::kQueryStart),
                         .seq_lens = b.get<std::int32_t>(Field::kSeqLens),
                         .block_table = sequences.block_table.as<std::int32_t>(),
                         .block_table_stride = max_blocks_per_row(config.limits),
                         .work = work};
}

void ModelRunner::Impl::gather(const StepBuffers& b, std::int64_t num_tokens) {
  ops::gather_tokens(*stream,
                     ops::GatherTokensParams{sequences.history.as<std::int32_t>(), history_stride(config.limits), b.get<std::int32_t>(Field::kRowOfToken),
                                             b.get<std::int32_t>(Field::kPositions), b.get<std::int32_t>(Field::kTokenIds)},
                     num_tokens);
}

LaunchSizes ModelRunner::Impl::eager_sizes() const {
  const auto& n = inputs.work_counts;
  return LaunchSizes{.decode = n[0], .prefill = n[1], .all = n[2], .parts = n[3], .combine = inputs.plan.num_split > 0 ? n[0] : 0};
}

// A recorded launch keeps its geometry, so attention is launched for the most work that a batch of this key can have; the counts on the
// device say how much of it is real. A uniform key has decode rows alone, and so has every graph of a backend that supports no others in
// one: its prefill kernels are never recorded. A mode that lets mixed batches into such graphs is a wrong pairing; the self-check finds it.
LaunchSizes ModelRunner::Impl::recorded_sizes(const graph::GraphKey& key) const {
  attention::DecodeLimits l = decode_limits(config);
  const bool decode_alone = key.uniform || !attention::graph_holds(config.backend->graph_support, attention::BatchClass::kMixed);
  if (decode_alone) l.max_rows = key.num_rows;
  const std::int64_t most = decode_alone ? key.num_rows : attention::max_work(key.num_tokens, config.limits.max_num_seqs, l.num_heads / l.num_kv_heads);
  const std::int64_t parts = attention::max_decode_parts(*config.backend, l);
  return LaunchSizes{.decode = most, .prefill = decode_alone ? 0 : most, .all = most, .parts = parts, .combine = attention::partial_slots(*config.backend, l) > 0 ? most : 0};
}

void ModelRunner::Impl::record(const graph::GraphKey& key, std::size_t buffers_index) {
  const StepBuffers& b = buffers[buffers_index];
  const model::StepView view = step_view(b, key.num_tokens, device_work(b, recorded_sizes(key)));
  const model::ForwardModel m = forward_model();
  RecordedStep step;
  const auto into = [&](const auto& launches) {
    stream->begin_record(step.pieces.emplace_back());
    launches();
    stream->end_record();
  };
  if (key.mode == graph::RuntimeMode::kFull) {
    into([&] { gather(b, key.num_tokens); model::forward(*stream, m, view); });
  } else {
    for (std::int32_t piece = 0; piece <= config.spec.num_layers; ++piece) {
      into([&] {
        if (piece == 0) gather(b, key.num_tokens);
        model::forward_piece(*stream, m, view, piece);
      });
    }
  }
  recorded.add(buffers_index, key, std::move(step));
}

graph::GraphChoice ModelRunner::Impl::choose(const StepPlan& plan) const {
  std::int32_t longest = 0;
  for (const RowPlan& row : plan.rows) longest = std::max(longest, row.num_new);
  const auto batch = graph::describe_batch(plan.num_tokens, static_cast<std::int32_t>(plan.rows.size()), longest, config.buckets.decode_query_len());
  return graph::choose_graph(batch, config.graph_mode, config.buckets);
}

void ModelRunner::Impl::run_model(std::size_t buffers_index, std::uint64_t step, const StepOptions& options) {
  StepBuffers& b = buffers[buffers_index];
  b.stamp(Field::kTokenIds, step);  // its producer, gather_tokens, is the first launch below
  b.require(step);
  const auto num_tokens = static_cast<std::int64_t>(inputs.positions.size());
  const model::StepView view = step_view(b, num_tokens, device_work(b, eager_sizes()));
  model::ForwardModel m = forward_model();
  const RecordedStep* graphs = choice.has_graph() ? recorded.find(buffers_index, choice.key) : nullptr;
  QUIRE_CHECK(!choice.has_graph() || graphs != nullptr) << choice.key.describe() << " was never recorded";
  if (graphs != nullptr && choice.key.mode == graph::RuntimeMode::kFull) return stream->replay(graphs->pieces.front());
  if (graphs == nullptr) gather(b, num_tokens);
  if (graphs == nullptr && options.at_site) m.observer = &options.at_site;
  for (std::int32_t piece = 0; piece <= config.spec.num_layers; ++piece) {
    if (graphs != nullptr) stream->replay(graphs->pieces[static_cast<std::size_t>(piece)]);
    if (graphs == nullptr) model::forward_piece(*stream, m, view, piece);
    if (piece == config.spec.num_layers) break;
    model::forward_attention(*stream, m, view, piece);
    if (options.after_attention) options.after_attention(piece);
  }
}

void ModelRunner::Impl::run_logits(StepBuffers& b) {
  const model::ForwardModel m = forward_model();
  const auto total = static_cast<std::int64_t>(inputs.logits_rows.size());
  const std::int64_t tile = activations.logits.dim(0), top_stride = step_limits(config).top_stride;
  for (std::int64_t first = 0; first < total; first += tile) {
    const std::int64_t count = std::min(tile, total - first);
    model::logits(*stream, m, b.get<std::int32_t>(Field::kTokenRows) + first, count);
    ops::sample(*stream,
                ops::SampleParams{.logits = activations.logits.as<float>(),
                                  .rows = b.get<ops::LogitsRow>(Field::kLogitsRows) + first,
                                  .states = static_cast<const ops::SamplingState*>(sequences.states.data),
                                  .lists = sequences.lists.as<std::int32_t>(),
                                  .history = sequences.history.as<std::int32_t>(),
                                  .results = b.results() + first,
                                  .top_ids = b.top_ids() + first * top_stride,
                                  .top_logprobs = b.top_logprobs() + first * top_stride,
                                  .history_stride = history_stride(config.limits),
                                  .vocab = config.spec.vocab_size,
                                  .top_stride = top_stride},
                count);
  }
}

TokenLogprobs ModelRunner::Impl::read_logprobs(const ops::LogitsResult& r, std::int64_t index, std::int32_t num_top, const StepBuffers& b) {
  TokenLogprobs out{r.token, r.logprob, r.rank, {}};
  const std::int64_t stride = step_limits(config).top_stride;
  const auto n = static_cast<std::size_t>(std::min<std::int64_t>({num_top, stride, config.spec.vocab_size}));
  std::vector<std::int32_t> ids(n);
  std::vector<float> logprobs(n);
  stream->copy_to_host(ids.data(), b.top_ids() + index * stride, n * sizeof(std::int32_t));
  stream->copy_to_host(logprobs.data(), b.top_logprobs() + index * stride, n * sizeof(float));
  for (std::size_t i = 0; i < n; ++i) out.top.emplace_back(ids[i], logprobs[i]);
  return out;
}

RowResult ModelRunner::Impl::read_row(const InFlight& f, std::size_t row, const std::vector<ops::LogitsResult>& results, const StepBuffers& b) {
  const RowPlan& plan = f.plan.rows[row];
  RowResult out;
  out.request = plan.request;
  for (std::int32_t i = f.logits_begin[row]; i < f.logits_begin[row + 1]; ++i) {
    const ops::LogitsResult& r = results[static_cast<std::size_t>(i)];
    if (r.failed != ops::LogitsFailure::kNone) {
      return RowResult{plan.request, {}, {}, {}, row_failure(r, plan)};
    }
    const bool sampled = plan.samples && i + 1 == f.logits_begin[row + 1];
    const auto [num_output, num_prompt] = f.num_top[row];
    if (!sampled) out.prompt_logprobs.push_back(read_logprobs(r, i, num_prompt, b));
    if (sampled) out.token = r.token;
    if (sampled && num_output >= 0) out.logprobs = read_logprobs(r, i, num_output, b);
  }
  return out;
}

ModelRunner::ModelRunner(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ModelRunner::~ModelRunner() = default;

Result<std::unique_ptr<ModelRunner>> ModelRunner::create(device::Device& device, const RunnerConfig& config, const model::Weights& weights, kv::KvStore& kv) {
  QUIRE_CHECK(config.backend != nullptr);
  auto impl = std::make_unique<Impl>(device, config, weights, kv);
  const auto place = [&](const char* what, device::Buffer& buffer, auto visit) -> Status {
    auto memory = device::place_workspace(device, what, visit);
    if (!memory.ok()) return memory.error();
    buffer = std::move(memory).value();
    return {};
  };
  const model::QuantisedNeeds needs = model::quantised_needs(weights);
  QUIRE_RETURN_IF_ERROR(place("activations", impl->activation_memory, [&](auto& v) { impl->activations.visit(v, config.spec, needs, config.limits.max_num_batched_tokens, kLogitsTile); }));
  QUIRE_RETURN_IF_ERROR(place("attention workspace", impl->attention_memory, [&](auto& v) { impl->attention_workspace.visit(v, *config.backend, decode_limits(config)); }));
  QUIRE_RETURN_IF_ERROR(place("sequence state", impl->sequence_memory, [&](auto& v) { impl->sequences.visit(v, config.limits); }));
  for (std::int32_t i = 0; i < config.limits.depth; ++i) {
    auto b = StepBuffers::create(device, step_limits(config));
    if (!b.ok()) return b.error();
    impl->buffers.push_back(std::move(b).value());
  }
  return std::unique_ptr<ModelRunner>(new ModelRunner(std::move(impl)));
}

RecordedGraphs ModelRunner::record_graphs(const std::function<void(std::size_t done, std::size_t total)>& progress) {
  const auto keys = graph::keys_to_record(impl_->config.graph_mode, impl_->config.buckets);
  std::size_t done = 0;
  for (std::size_t b = 0; b < impl_->buffers.size(); ++b)
    for (const graph::GraphKey& key : keys) {
      impl_->record(key, b);
      if (progress) progress(++done, keys.size() * impl_->buffers.size());
    }
  return {keys.size(), impl_->recorded.num_graphs(), impl_->recorded.bytes()};
}

const graph::GraphChoice& ModelRunner::last_choice() const { return impl_->choice; }

StepTrace ModelRunner::trace() const { return StepTrace{&impl_->inputs, &impl_->activations, impl_->stream.get()}; }

void ModelRunner::forget_sequences() {
  Impl& r = *impl_;
  QUIRE_CHECK(r.in_flight.empty());
  std::fill(r.rows.begin(), r.rows.end(), RowState{});
  for (StepBuffers& b : r.buffers) b.forget();
  r.choice = {};
  r.last_step = 0;
}

void ModelRunner::submit(const StepPlan& plan, const StepOptions& options) {
  Impl& r = *impl_;
  QUIRE_CHECK_LT(r.in_flight.size(), r.buffers.size()) << "too many steps in flight";
  QUIRE_CHECK_EQ(plan.step_id, r.last_step + 1) << "steps come in order";
  r.last_step = plan.step_id;
  for (const StateUpload& u : plan.uploads) r.upload(u);
  for (const BlockAppend& a : plan.block_appends) r.append_blocks(a);
  build_inputs(plan, r.rows, r.config.limits.block_size, plan_rules(r.config), r.inputs);
  InFlight f{plan, r.inputs.logits_begin, {}, plan.step_id % r.buffers.size()};
  for (const RowPlan& row : plan.rows) {
    const RowState& state = r.rows[static_cast<std::size_t>(row.row.value)];
    f.num_top.emplace_back(state.num_logprobs, state.num_prompt_logprobs);
  }
  r.choice = options.path == StepPath::kEager ? graph::GraphChoice{{}, graph::EagerReason::kModeNone} : r.choose(plan);
  if (r.choice.has_graph()) pad_inputs(r.inputs, r.choice.key.num_tokens, r.choice.key.num_rows);
  StepBuffers& b = r.buffers[f.buffers];
  r.fill(b, plan.step_id);
  r.run_model(f.buffers, plan.step_id, options);
  r.run_logits(b);
  r.in_flight.push_back(std::move(f));
}

Result<StepResult> ModelRunner::collect() {
  Impl& r = *impl_;
  QUIRE_CHECK(!r.in_flight.empty());
  r.stream->synchronize();
  const InFlight f = std::move(r.in_flight.front());
  r.in_flight.pop_front();
  const StepBuffers& b = r.buffers[f.buffers];
  std::vector<ops::LogitsResult> results(static_cast<std::size_t>(f.logits_begin.back()));
  r.stream->copy_to_host(results.data(), b.results(), results.size() * sizeof(ops::LogitsResult));
  StepResult out{f.plan.step_id, {}};
  for (std::size_t row = 0; row < f.plan.rows.size(); ++row) out.rows.push_back(r.read_row(f, row, results, b));
  return out;
}

}  // namespace quire::runner
