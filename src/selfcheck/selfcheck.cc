#include "selfcheck/selfcheck.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <utility>

#include "base/check.h"
#include "base/text.h"
#include "selfcheck/agree.h"
#include "selfcheck/audit.h"
#include "selfcheck/batches.h"
#include "selfcheck/cells.h"
#include "selfcheck/snapshot.h"
#include "selfcheck/tally.h"

namespace quire::selfcheck {
namespace {

using attention::BatchClass;
using graph::RuntimeMode;

constexpr const char* kPairing = "graph support";

// Whole graphs may hold only batches that the backend supports inside them (#25104: a mixed batch in a graph of a decode-only backend).
void check_pairing(const runner::RunnerConfig& c, std::vector<Verdict>& out) {
  if (c.graph_mode == graph::GraphMode::kNone) return;
  const attention::BackendCaps& backend = *c.backend;
  const auto add = [&](const char* batch, const char* row_class, BatchClass held, RuntimeMode mode) {
    if (mode != RuntimeMode::kFull) return;
    Verdict v{.check = kPairing, .batch = batch, .row_class = row_class};
    v.passed = attention::graph_holds(backend.graph_support, held);
    v.where = std::string(backend.name) + " supports " + attention::graph_support_name(backend.graph_support) + ", mode " + graph::graph_mode_name(c.graph_mode) + " records " + batch;
    out.push_back(std::move(v));
  };
  const bool one = c.buckets.decode_query_len() == 1;
  add("decode batches in FULL graphs", "decode", one ? BatchClass::kSingleTokenDecode : BatchClass::kUniform, graph::decode_half(c.graph_mode));
  add("mixed batches in FULL graphs", "mixed (decode with extend and prefill)", BatchClass::kMixed, graph::mixed_half(c.graph_mode));
}

class Check {
 public:
  explicit Check(const Subject& s) : s_(s), cells_(s.kv, *s.runner.trace().stream, usable_blocks(s.kv.layout())) { cells_.fill(stream(), cells_.blocks(), Fill::kImages); }

  // What the kernels scale by, against what they should.
  void check_scales(Report& report) const {
    QUIRE_CHECK_EQ(s_.kv_scales.size(), kv::KvStore::num_scales(s_.kv.layout())) << "the self-check does not know the cache's scales";
    const ScaleTable right{{s_.kv_scales.begin(), s_.kv_scales.end()}, cells_.num_layers(), s_.kv.layout().num_kv_heads};
    for (Verdict& v : compare_scales(cells_.scales(), right, s_.kv.layout().dtype)) report.verdicts.push_back(std::move(v));
  }
  void run(const Scenario& scenario, Report& report) {
    Tally first, again, eager;
    RuntimeMode mode = RuntimeMode::kNone;
    for (std::size_t v = 0; v < scenario.variants.size(); ++v) mode = run_variant(make_case(scenario, v), v == 0 ? first : again, eager);
    const std::string how = mode == RuntimeMode::kNone ? "eager" : std::string(graph::runtime_mode_name(mode)) + (mode == RuntimeMode::kFull ? " graph" : " graphs");
    collect(first, scenario.name + ", " + how, report);
    collect(again, scenario.name + ", " + how + (mode == RuntimeMode::kNone ? ", again" : ", replayed") + " with other lengths and blocks", report);
    collect(eager, scenario.name + ", eager", report);
    report.num_steps = num_steps_;
  }

  // Leaves nothing behind.
  void finish() {
    s_.runner.forget_sequences();
    cells_.fill(stream(), cells_.blocks(), Fill::kZeros);
    unmark_attended(s_.runner.trace());
  }

 private:
  // A batch in its blocks, and the tokens of its rows.
  struct Case {
    Batch batch;
    std::vector<std::vector<TokenId>> tokens;
  };
  [[nodiscard]] device::Stream& stream() { return *s_.runner.trace().stream; }
  static void collect(const Tally& tally, const std::string& batch, Report& report) {
    for (Verdict v : tally.verdicts()) {
      v.batch = batch;
      report.verdicts.push_back(std::move(v));
    }
  }
  [[nodiscard]] Case make_case(const Scenario& scenario, std::size_t variant);
  // By shape in each instance of the step buffers, which have graphs of their own; then, if that was recorded, eager.
  [[nodiscard]] RuntimeMode run_variant(const Case& c, Tally& by_shape, Tally& eager);
  [[nodiscard]] StepSnapshot step(const Case& c, runner::StepPath path);
  [[nodiscard]] StepPlan plan_of(const Case& c);

  Subject s_;
  Cells cells_;
  std::mt19937_64 rng_{7};
  std::int64_t num_steps_ = 0;
  std::uint64_t next_request_ = 1;
};

Check::Case Check::make_case(const Scenario& scenario, std::size_t variant) {
  Case c{place(scenario.variants[variant], static_cast<std::int32_t>(variant), cells_.blocks(), s_.config.limits), {}};
  std::uniform_int_distribution<TokenId> any_token(0, s_.config.spec.vocab_size - 1);
  for (const BatchRow& row : c.batch.rows) {
    std::vector<TokenId>& tokens = c.tokens.emplace_back(static_cast<std::size_t>(row.shape.num_computed + row.shape.num_new));
    for (TokenId& t : tokens) t = any_token(rng_);
  }
  return c;
}

StepPlan Check::plan_of(const Case& c) {
  StepPlan plan;
  plan.step_id = static_cast<std::uint64_t>(++num_steps_);
  plan.num_tokens = c.batch.num_tokens;
  auto sampling = std::make_shared<SamplingParams>();
  sampling->temperature = 0.0;
  for (std::size_t i = 0; i < c.batch.rows.size(); ++i) {
    const BatchRow& row = c.batch.rows[i];
    const StateRow state{row.state_row};
    const RequestId request{next_request_++};
    BlockAppend blocks{state, {}};
    for (const std::int32_t b : row.blocks) blocks.blocks.push_back(BlockId{b});
    plan.uploads.push_back(StateUpload{state, request, c.tokens[i], row.shape.num_computed + row.shape.num_new, sampling});
    plan.block_appends.push_back(std::move(blocks));
    plan.rows.push_back(RowPlan{.row = state, .request = request, .num_computed = row.shape.num_computed, .num_new = row.shape.num_new, .samples = true});
  }
  return plan;
}

RuntimeMode Check::run_variant(const Case& c, Tally& by_shape, Tally& eager) {
  if (c.batch.rows.empty()) return RuntimeMode::kNone;
  std::vector<StepSnapshot> steps;
  for (std::int32_t i = 0; i < s_.config.limits.depth; ++i) steps.push_back(step(c, runner::StepPath::kByShape));
  const RuntimeMode mode = s_.runner.last_choice().key.mode;
  if (mode != RuntimeMode::kNone) steps.push_back(step(c, runner::StepPath::kEager));
  const StepSnapshot standard = std::move(steps.back());
  steps.pop_back();
  const auto facts = [&](const StepSnapshot& snapshot) { return StepFacts{s_.config, s_.weights, stream(), c.batch, cells_, snapshot}; };
  Tally of_standard;
  audit_step(facts(standard), of_standard);
  (mode == RuntimeMode::kNone ? by_shape : eager).merge(of_standard);
  for (const StepSnapshot& snapshot : steps) {
    Tally mine;
    audit_agreement(facts(snapshot), standard, mine);
    by_shape.merge(mine);
    // The same bits deserve the same verdict.
    if (same_bits(snapshot, standard)) {
      by_shape.merge(of_standard);
      audit_padding(facts(snapshot), by_shape);
    } else {
      audit_step(facts(snapshot), by_shape);
    }
  }
  return mode;
}

// Cached tokens in a row's own blocks keep their images; from the first new position on NaN waits for the step's writes, and what it does
// not write must never be read.
StepSnapshot Check::step(const Case& c, runner::StepPath path) {
  for (const OwnBlock& b : own_blocks_of(c.batch, s_.kv.layout().block_size))
    for (std::int32_t layer = 0; layer < cells_.num_layers(); ++layer) cells_.upload(stream(), layer, b.block, cells_.poisoned(layer, b.block, b.begin));
  mark_attended(s_.runner.trace());
  std::vector<LayerSnapshot> layers;
  s_.runner.submit(plan_of(c), {.path = path, .after_attention = [&](std::int32_t layer) { layers.push_back(take_watched_layer(s_.runner.trace(), s_.weights, c.batch.num_tokens, layer)); }});
  const StepResult result = s_.runner.collect().value();
  const runner::StepTrace trace = s_.runner.trace();
  StepSnapshot snapshot = take_step({trace, s_.weights, c.batch, cells_, result}, std::move(layers));
  cells_.fill(stream(), c.batch.own_blocks, Fill::kImages);
  return snapshot;
}

std::string number(double x) { return formatted("%.3g", x); }

}  // namespace

bool Report::passed() const {
  return std::all_of(verdicts.begin(), verdicts.end(), [](const Verdict& v) { return v.passed; });
}

std::string Report::failure() const {
  std::string out;
  std::size_t failed = 0;
  bool numbers = false;
  for (const Verdict& v : verdicts) {
    if (v.passed) continue;
    const bool pairing = v.check == kPairing;
    if (failed++ > 0 && (pairing || numbers)) continue;
    out += (out.empty() ? "" : "; in the numbers: ") + v.check + " of " + v.row_class + (v.batch.empty() ? "" : " rows in " + v.batch) + ": " + v.where;
    if (!pairing) out += " (error " + number(v.worst_error) + ", bound " + number(v.bound) + ")";
    if (!v.cause.empty()) out += ", " + v.cause;
    numbers = numbers || !pairing;
  }
  if (failed > 1) out += "; " + std::to_string(failed) + " of " + std::to_string(verdicts.size()) + " checks failed";
  return out;
}

Report run(const Subject& subject) {
  const auto started = std::chrono::steady_clock::now();
  Report report;
  check_pairing(subject.config, report.verdicts);
  Check check(subject);
  check.check_scales(report);
  const std::vector<Scenario> scenarios = make_scenarios(subject.config.limits, subject.config.buckets.max_size());
  for (std::size_t i = 0; i < scenarios.size(); ++i) {
    if (subject.progress) subject.progress(static_cast<std::int32_t>(i * 100 / scenarios.size()));
    check.run(scenarios[i], report);
  }
  if (subject.progress) subject.progress(100);
  check.finish();
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  return report;
}

}  // namespace quire::selfcheck
