#include "commands/relaxed.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/log.h"

namespace quire::commands {
namespace {

constexpr const char *kSelfCheck = "self-check", *kKvScales = "kv-scales", *kUnusedTensors = "unused-tensors";

std::string unused_text(const std::vector<std::string>& tensors) {
  constexpr std::size_t kMost = 4;
  std::string out = std::to_string(tensors.size()) + (tensors.size() == 1 ? " tensor of the checkpoint is not used: " : " tensors of the checkpoint are not used: ");
  for (std::size_t i = 0; i < std::min(kMost, tensors.size()); ++i) out += (i == 0 ? "" : ", ") + tensors[i];
  return tensors.size() <= kMost ? out : out + " and " + std::to_string(tensors.size() - kMost) + " more";
}

class Judge {
 public:
  Judge(const CheckedModel& model, const config::EngineSettings& engine, engine::Metrics& metrics) : model_(model), engine_(engine), metrics_(metrics) {}

  Result<std::vector<std::string>> run() {
    QUIRE_RETURN_IF_ERROR(self_check());
    QUIRE_RETURN_IF_ERROR(kv_gate());
    scales();
    if (!model_.ignored_tensors.empty()) let_through(kUnusedTensors, unused_text(model_.ignored_tensors));
    for (const std::string& item : engine_.relaxed) {
      engine::MetricLabels labels = metrics_.base_labels();
      labels.emplace_back("check", item);
      metrics_.registry().gauge("quire:relaxed_checks", "--relaxed items; 1: a refusal of this name became a warning at start", labels).set(used_.contains(item) ? 1.0 : 0.0);
    }
    return std::move(warnings_);
  }

 private:
  void let_through(const char* item, const std::string& text) {
    used_.insert(item);
    warnings_.push_back(std::string("--relaxed ") + item + ": " + text);
  }
  void flag(const char* name, const char* help, bool on) { metrics_.registry().gauge(name, help, metrics_.base_labels()).set(on ? 1.0 : 0.0); }

  Status self_check() {
    const selfcheck::Report& report = model_.report;
    flag("quire:self_check_failed", "1: kernels differ from the reference and --relaxed self-check serves nevertheless", !report.passed());
    if (report.passed()) return {};
    if (!engine_.relaxed_self_check)
      return Error{ErrorCode::kUnsupported,
                   "the self-check failed: " + report.failure() +
                       ". `quire doctor` with the same flags prints every check; another --attention-backend or --enforce-eager may serve; --relaxed self-check serves with wrong answers",
                   {}};
    let_through(kSelfCheck, "answers may be wrong: " + report.failure());
    QUIRE_LOG_WARN("{}", warnings_.back());
    return {};
  }
  // The loss of an FP8 cache.
  Status kv_gate() {
    const selfcheck::KvGate& gate = model_.kv_gate;
    if (gate.layers.empty()) return {};
    const std::string failure = gate.failure();
    flag("quire:kv_gate_failed", "1: the FP8 KV cache loses more than its limits and --relaxed kv-scales serves nevertheless", !failure.empty());
    for (std::size_t i = 0; i < gate.layers.size(); ++i) {
      engine::MetricLabels labels = metrics_.base_labels();
      labels.emplace_back("layer", std::to_string(i));
      metrics_.registry().gauge("quire:kv_attention_error", "Relative error of attention's output from the FP8 KV cache against a 16-bit one, at start", labels).set(gate.layers[i].attention_error);
    }
    if (failure.empty()) return {};
    if (!engine_.relaxed_kv_scales)
      return Error{ErrorCode::kUnsupported,
                   "the FP8 KV cache loses too much of this model: " + failure +
                       ". Its scales do not fit: `quire doctor` with the same flags shows every layer, `quire eval` what it costs, and a 16-bit --kv-cache-dtype needs none; --relaxed kv-scales serves with wrong answers",
                   "--kv-cache-dtype"};
    let_through(kKvScales, "answers may be wrong: " + failure);
    QUIRE_LOG_WARN("{}", warnings_.back());
    return {};
  }
  // The log has them with the ledger.
  void scales() {
    const model::ScaleLedger& ledger = model_.scales;
    if (is_fp8(ledger.kv_dtype)) flag("quire:kv_scales_default", "1: the checkpoint has no KV scales, and the FP8 KV cache is stored with scale 1", ledger.source == model::ScaleSource::kDefault);
    if (!ledger.softened.empty()) used_.insert(kKvScales);
    for (std::string& text : ledger.warnings()) warnings_.push_back(std::move(text));
  }

  const CheckedModel& model_;
  const config::EngineSettings& engine_;
  engine::Metrics& metrics_;
  std::vector<std::string> warnings_;
  std::set<std::string> used_;  // --relaxed items that let something through
};

}  // namespace

Result<std::vector<std::string>> judge(const CheckedModel& model, const config::EngineSettings& engine, engine::Metrics& metrics) { return Judge(model, engine, metrics).run(); }

}  // namespace quire::commands
