#include "selfcheck/selfcheck.h"

#include <chrono>
#include <cstdio>
#include <random>

#include "selfcheck/audit.h"
#include "selfcheck/batches.h"
#include "selfcheck/cells.h"
#include "selfcheck/tally.h"

namespace quire::selfcheck {
namespace {

using attention::BatchClass;
using graph::RuntimeMode;

// Rows of a step that are marked before it: more than any batch here is padded to.
constexpr std::int64_t kMarkedRows = 64;

// Whole graphs may hold only batches that the backend supports inside them (#25104: a mixed batch in a graph of a decode-only backend).
void check_pairing(const runner::RunnerConfig& c, std::vector<Verdict>& out) {
  if (c.graph_mode == graph::GraphMode::kNone) return;
  const attention::BackendCaps& backend = *c.backend;
  const auto add = [&](const char* batch, const char* row_class, BatchClass held, RuntimeMode mode) {
    if (mode != RuntimeMode::kFull) return;
    Verdict v{.check = "graph support", .batch = batch, .row_class = row_class};
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
  explicit Check(const Subject& s) : s_(s), cells_(s.kv, usable_blocks(s.kv.layout())) {
    for (const std::int32_t b : cells_.blocks()) cells_.randomise(b, 0, s_.kv.layout().block_size);
    cells_.upload(stream(), cells_.blocks());
  }

  void run(const Scenario& scenario, Report& report) {
    // By shape first: each instance of the step buffers has graphs of its own, so the same variant runs in each before the next comes.
    Tally first(""), again("");
    RuntimeMode mode = RuntimeMode::kNone;
    for (std::size_t v = 0; v < scenario.variants.size(); ++v) {
      for (std::int32_t i = 0; i < s_.config.limits.depth; ++i) step(scenario, v, runner::StepPath::kByShape, v == 0 ? first : again);
      mode = s_.runner.last_choice().key.mode;
    }
    const std::string how = mode == RuntimeMode::kNone ? "eager" : std::string(graph::runtime_mode_name(mode)) + (mode == RuntimeMode::kFull ? " graph" : " graphs");
    collect(first, scenario.name + ", " + how, report);
    collect(again, scenario.name + ", " + how + (mode == RuntimeMode::kNone ? ", again" : ", replayed") + " with other lengths and blocks", report);
    if (mode != RuntimeMode::kNone) {
      Tally eager("");
      for (std::size_t v = 0; v < std::min<std::size_t>(2, scenario.variants.size()); ++v) step(scenario, v, runner::StepPath::kEager, eager);
      collect(eager, scenario.name + ", eager", report);
    }
    report.num_steps = num_steps_;
  }

  // Leaves nothing behind.
  void finish() {
    s_.runner.forget_sequences();
    cells_.zero_device(stream());
    const TensorView attended = s_.runner.trace().activations->attended;
    const std::vector<float> zeros(static_cast<std::size_t>(std::min(kMarkedRows, attended.dim(0)) * attended.dim(1)));
    stream().copy_to_device(attended.data, zeros.data(), zeros.size() * sizeof(float));
  }

 private:
  [[nodiscard]] device::Stream& stream() { return *s_.runner.trace().stream; }
  static void collect(const Tally& tally, const std::string& batch, Report& report) {
    for (Verdict v : tally.verdicts()) {
      v.batch = batch;
      report.verdicts.push_back(std::move(v));
    }
  }
  void step(const Scenario& scenario, std::size_t variant, runner::StepPath path, Tally& tally);
  [[nodiscard]] StepPlan plan_of(const Batch& batch);
  void prepare(const Batch& batch);

  Subject s_;
  Cells cells_;
  std::mt19937_64 rng_{7};
  std::int64_t num_steps_ = 0;
  std::uint64_t next_request_ = 1;
};

StepPlan Check::plan_of(const Batch& batch) {
  StepPlan plan;
  plan.step_id = static_cast<std::uint64_t>(++num_steps_);
  plan.num_tokens = batch.num_tokens;
  auto sampling = std::make_shared<SamplingParams>();
  sampling->temperature = 0.0;
  std::uniform_int_distribution<TokenId> any_token(0, s_.config.spec.vocab_size - 1);
  for (const BatchRow& row : batch.rows) {
    const StateRow state{row.state_row};
    const RequestId request{next_request_++};
    StateUpload upload{state, request, {}, row.shape.num_computed + row.shape.num_new, sampling};
    for (std::int32_t p = 0; p < row.shape.num_computed + row.shape.num_new; ++p) upload.tokens.push_back(any_token(rng_));
    BlockAppend blocks{state, {}};
    for (const std::int32_t b : row.blocks) blocks.blocks.push_back(BlockId{b});
    plan.uploads.push_back(std::move(upload));
    plan.block_appends.push_back(std::move(blocks));
    plan.rows.push_back(RowPlan{.row = state, .request = request, .num_computed = row.shape.num_computed, .num_new = row.shape.num_new, .samples = true});
  }
  return plan;
}

// Cached tokens in a row's own blocks keep their random cells; from the first new position on NaN waits for the step's writes, and what it
// does not write must never be read.
void Check::prepare(const Batch& batch) {
  const std::int32_t block_size = s_.kv.layout().block_size;
  for (const BatchRow& row : batch.rows)
    for (std::size_t k = static_cast<std::size_t>(row.shape.num_computed / block_size); k < row.blocks.size(); ++k)
      cells_.poison(row.blocks[k], std::clamp(row.shape.num_computed - static_cast<std::int32_t>(k) * block_size, 0, block_size), block_size);
  cells_.upload(stream(), batch.own_blocks);
}

void Check::step(const Scenario& scenario, std::size_t variant, runner::StepPath path, Tally& tally) {
  const Batch batch = place(scenario.variants[variant], static_cast<std::int32_t>(variant), cells_.blocks(), s_.config.limits);
  if (batch.rows.empty()) return;
  prepare(batch);
  poison_attended(s_.runner.trace(), kMarkedRows);
  s_.runner.submit(plan_of(batch), path);
  const StepResult result = s_.runner.collect().value();
  cells_.download(stream());
  const runner::StepTrace trace = s_.runner.trace();
  const StepFacts facts{s_.config, s_.weights, batch, cells_, trace, result};
  audit_rope_and_cache(facts, tally);
  audit_attention(facts, tally);
  audit_layer_ops(facts, tally);
  audit_head(facts, tally);
  for (const std::int32_t b : batch.own_blocks) cells_.randomise(b, 0, s_.kv.layout().block_size);
  cells_.upload(stream(), batch.own_blocks);
}

std::string number(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", x);
  return text;
}

}  // namespace

bool Report::passed() const {
  return std::all_of(verdicts.begin(), verdicts.end(), [](const Verdict& v) { return v.passed; });
}

std::string Report::failure() const {
  std::string out;
  std::size_t failed = 0;
  for (const Verdict& v : verdicts) {
    if (v.passed) continue;
    if (failed++ > 0) continue;
    out = v.check + " of " + v.row_class + " rows in " + v.batch + ": " + v.where;
    if (v.check != "graph support") out += " (error " + number(v.worst_error) + ", bound " + number(v.bound) + ")";
  }
  if (failed > 1) out += "; " + std::to_string(failed) + " of " + std::to_string(verdicts.size()) + " checks failed";
  return out;
}

Report run(const Subject& subject) {
  const auto started = std::chrono::steady_clock::now();
  Report report;
  check_pairing(subject.config, report.verdicts);
  if (report.passed()) {
    Check check(subject);
    for (const Scenario& s : make_scenarios(subject.config.limits, subject.config.buckets.max_size())) check.run(s, report);
    check.finish();
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  return report;
}

}  // namespace quire::selfcheck
