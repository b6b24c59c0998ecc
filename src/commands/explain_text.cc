// An explanation for people and for programs. Pure functions; stable, golden-tested.
#include <boost/json/array.hpp>

#include "commands/explain.h"
#include "ops/linear_table.h"

namespace quire::commands {
namespace {

namespace json = boost::json;
using attention::BackendCaps;
using attention::Candidate;
using attention::RowClass;

std::string marked(const BackendCaps& row) { return std::string(row.name) + (row.built == attention::Built::kNo ? " (not built)" : ""); }

bool serves_a_class(const Explanation& e, const BackendCaps* row) {
  for (const RowClass p : attention::kRowClasses)
    if (e.selection.set.of(p) == row) return true;
  return false;
}

const char* verdict(const Explanation& e, const Candidate& c) {
  if (serves_a_class(e, c.row)) return "taken";
  return c.reasons.empty() ? "passed over" : "refused";
}

std::string yes_no(bool b) { return b ? "yes" : "no"; }

std::string graph_line(attention::GraphSupport s) {
  return std::string(attention::graph_support_name(s)) + " (single-token decode " + yes_no(graph_holds(s, attention::BatchClass::kSingleTokenDecode)) + ", uniform batch " +
         yes_no(graph_holds(s, attention::BatchClass::kUniform)) + ", mixed batch " + yes_no(graph_holds(s, attention::BatchClass::kMixed)) + ")";
}

std::string device_line(const attention::DeviceFamily& d) {
  std::string out = std::string(d.name) + ": " + std::string(d.summary) + ", " + attention::platform_name(d.platform);
  if (d.wave_width > 0) out += ", waves of " + std::to_string(d.wave_width);
  return out + ", FP8 " + (d.fp8 == attention::Fp8Encoding::kFnuz ? "FNUZ" : "OCP") + (d.fp8_hardware == attention::Fp8Hardware::kNone ? " in software" : "");
}

std::string candidate_lines(const Explanation& e, const Candidate& c) {
  std::string out = "  " + marked(*c.row) + ": " + verdict(e, c) + "\n";
  for (const attention::Reason& r : c.reasons) out += "    - " + r.to_string() + "\n";
  if (!c.passed_over.empty()) out += "    - " + c.passed_over + "\n";
  return out;
}

std::string nearest_line(const attention::Nearest& n) {
  std::string out = marked(*n.row);
  for (std::size_t i = 0; i < n.changes.size(); ++i) out += (i == 0 ? " with " : ", ") + n.changes[i];
  return out;
}

json::array strings(const std::vector<std::string>& list) {
  json::array out;
  for (const std::string& s : list) out.emplace_back(s);
  return out;
}

std::vector<std::string> linears_of(const attention::DeviceFamily& d) {
  return ops::linear_lines(d.platform == attention::Platform::kCpu ? ops::LinearDevice::kCpu : d.platform == attention::Platform::kCuda ? ops::LinearDevice::kCuda : ops::LinearDevice::kRocm);
}

json::object problem_json(const attention::AttnProblem& q) {
  json::array masks;
  for (const attention::Mask m : attention::kMasks)
    if (q.masks.has(m)) masks.emplace_back(attention::mask_name(m));
  return {{"num_heads", q.num_heads},
          {"num_kv_heads", q.num_kv_heads},
          {"head_size", q.head_dim},
          {"block_size", q.block_size},
          {"kv_format", q.kv_format_text()},
          {"query_dtype", dtype_name(q.query_dtype)},
          {"masks", std::move(masks)},
          {"max_context", q.max_context},
          {"tensor_parallel_size", q.num_ranks}};
}

json::value selected_json(const Explanation& e) {
  const attention::ClassSet& set = e.selection.set;
  if (set.empty()) return nullptr;
  const auto name = [](const BackendCaps* row) { return json::string(row->name); };
  const attention::GraphSupport graphs = set.graph_support();
  return json::object{{"writer", name(set.writer)},
                      {"decode", name(set.decode)},
                      {"extend", name(set.extend)},
                      {"prefill", name(set.prefill)},
                      {"built", set.decode->built == attention::Built::kYes && set.extend->built == attention::Built::kYes && set.prefill->built == attention::Built::kYes},
                      {"chosen_by", e.selection.chosen_by.empty() ? "order of the table" : e.selection.chosen_by},
                      {"graph_support", attention::graph_support_name(graphs)},
                      {"graphs",
                       json::object{{"single_token_decode", graph_holds(graphs, attention::BatchClass::kSingleTokenDecode)},
                                    {"uniform", graph_holds(graphs, attention::BatchClass::kUniform)},
                                    {"mixed", graph_holds(graphs, attention::BatchClass::kMixed)}}}};
}

json::object candidate_json(const Explanation& e, const Candidate& c) {
  json::array reasons;
  for (const attention::Reason& r : c.reasons) reasons.emplace_back(r.to_string());
  return {{"name", c.row->name},
          {"verdict", verdict(e, c)},
          {"built", c.row->built == attention::Built::kYes},
          {"opt_in", c.row->opt_in == attention::OptIn::kByName},
          {"graph_support", attention::graph_support_name(c.row->graph_support)},
          {"reasons", std::move(reasons)},
          {"passed_over", c.passed_over}};
}

}  // namespace

std::string explanation_text(const Explanation& e) {
  const attention::Selection& s = e.selection;
  std::string out = "model     " + e.model + "\ndevice    " + device_line(*e.device) + "\nquestion  " + e.problem.describe() + "\n";
  if (e.quantization != "none") out += "weights   quantised by " + e.quantization + "\n";
  if (s.set.empty()) {
    out += "answer    nothing serves" + (s.asked == nullptr ? "" : ": " + s.chosen_by + " names " + std::string(s.asked->name) + ", and an explicit choice is never replaced") + "\n";
    if (s.nearest.has_value()) out += "nearest   " + nearest_line(*s.nearest) + "\n";
  } else {
    out += "answer    decode " + marked(*s.set.decode) + ", extend " + marked(*s.set.extend) + ", prefill " + marked(*s.set.prefill) + "; chosen by " +
           (s.chosen_by.empty() ? "the table's order" : s.chosen_by) + "\n";
    out += "graphs    " + graph_line(s.set.graph_support()) + "\n";
    out += "mode      " + (e.graph_mode.empty() ? "nothing asked for" : e.graph_mode + " asked for") + ", " + (e.graph_runs.empty() ? "refused" : e.graph_runs + " runs") + "\n";
    for (const std::string& change : e.graph_changes) out += "          - " + change + "\n";
  }
  out += std::string("serve     ") + (e.runnable() ? "this program can serve it here" : "not in this program") + "\n";
  out += "candidates\n";
  for (const Candidate& c : s.candidates) out += candidate_lines(e, c);
  if (!s.fallbacks.empty()) out += "fallbacks\n";
  for (const attention::Fallback& f : s.fallbacks) out += "  from " + f.from + " to " + f.to + ": " + f.why + "\n";
  out += "linear (weights by input)\n";
  for (const std::string& line : linears_of(*e.device)) out += "  " + line + "\n";
  if (!e.not_built.empty()) out += "not built\n";
  for (const std::string& text : e.not_built) out += "  " + text + "\n";
  if (!e.notes.empty()) out += "notes\n";
  for (const config::Adjustment& n : e.notes)
    out += std::string("  ") + (n.severity == config::Adjustment::Severity::kWarning ? "warning " : "info ") + n.flag + " " + n.text + "\n";
  return out;
}

json::object explanation_json(const Explanation& e) {
  json::array candidates, fallbacks, notes;
  for (const Candidate& c : e.selection.candidates) candidates.push_back(candidate_json(e, c));
  for (const attention::Fallback& f : e.selection.fallbacks) fallbacks.push_back(json::object{{"from", f.from}, {"to", f.to}, {"why", f.why}});
  for (const config::Adjustment& n : e.notes)
    notes.push_back(json::object{{"severity", n.severity == config::Adjustment::Severity::kWarning ? "warning" : "info"}, {"flag", n.flag}, {"text", n.text}});
  json::value nearest = nullptr;
  if (e.selection.nearest.has_value())
    nearest = json::object{{"name", e.selection.nearest->row->name}, {"question", problem_json(e.selection.nearest->problem)}, {"changes", strings(e.selection.nearest->changes)}};
  return {{"model", e.model},
          {"device", e.device->name},
          {"platform", attention::platform_name(e.device->platform)},
          {"wave_width", e.device->wave_width},
          {"fp8", e.device->fp8 == attention::Fp8Encoding::kFnuz ? "FNUZ" : "OCP"},
          {"question", problem_json(e.problem)},
          {"quantization", e.quantization},
          {"selected", selected_json(e)},
          {"nearest", std::move(nearest)},
          {"runnable", e.runnable()},
          {"graph_mode_asked", e.graph_mode.empty() ? json::value(nullptr) : json::value(e.graph_mode)},
          {"graph_mode", e.graph_runs.empty() ? json::value(nullptr) : json::value(e.graph_runs)},
          {"graph_mode_changes", strings(e.graph_changes)},
          {"candidates", std::move(candidates)},
          {"fallbacks", std::move(fallbacks)},
          {"linear", strings(linears_of(*e.device))},
          {"not_built", strings(e.not_built)},
          {"notes", std::move(notes)}};
}

}  // namespace quire::commands
