// A bench's results for people, programs and pictures. Pure functions.
#include <boost/json/array.hpp>
#include <cmath>

#include "base/text.h"
#include "commands/bench_attention.h"
#include "commands/version.h"

namespace quire::commands {
namespace {

namespace json = boost::json;

const char* status_of(const AttentionResult& r) {
  if (r.verdict.has_value() && !r.verdict->passed) return "wrong";
  return r.timing.has_value() ? "measured" : "skipped";
}

double bytes_of(const AttentionResult& r, const BenchAttentionReport& report) { return static_cast<double>(compulsory_bytes(r.shape, report.request.kv_dtype)); }

// Error of the worst sampled element in parts of its bound.
double bound_used(const selfcheck::Verdict& v) { return v.bound > 0.0 ? v.worst_error / v.bound : v.passed ? 0.0 : HUGE_VAL; }

std::string label(const AttentionShape& shape) { return shape.name() + (shape.in_table() ? "" : " *"); }

using Row = std::vector<std::string>;

Row result_row(const AttentionResult& r, const BenchAttentionReport& report) {
  if (r.verdict.has_value() && !r.verdict->passed) return {label(r.shape), r.backend, "WRONG: " + r.verdict->where};
  if (!r.timing.has_value()) return {label(r.shape), r.backend, "skipped: " + r.skipped};
  const AttentionRates rates = attention_rates(r, report);
  std::string kernels;
  for (const std::string& k : r.kernels) kernels += (kernels.empty() ? "" : " + ") + k;
  return {label(r.shape),
          r.backend,
          duration_text(r.timing->median()),
          duration_text(r.timing->min()),
          formatted("%.1f %%", r.timing->spread() * 100.0),
          std::to_string(r.timing->seconds.size()),
          formatted("%.1f MB", bytes_of(r, report) * 1e-6),
          formatted("%.2f", rates.gb_per_s),
          r.sizes.from_memory ? formatted("%.0f %%", rates.read_share * 100.0) : "cached",
          formatted("%.1f", rates.gflop_per_s),
          formatted("%.0f %%", rates.fma_share * 100.0),
          formatted("%.0e", bound_used(*r.verdict)),
          kernels};
}

// Columns after the second are aligned to the right, except the last and texts that stand instead of numbers.
std::string aligned(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths(rows.front().size(), 0);
  for (const Row& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c)
      if (row.size() == widths.size() || c < 2) widths[c] = std::max(widths[c], row[c].size());
  std::string out;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) {
      const bool free = c + 1 == row.size(), left = c < 2 || free;
      const std::size_t gap = free ? 0 : widths[c] - row[c].size();
      line += (c == 0 ? "" : "  ") + std::string(left ? 0 : gap, ' ') + row[c] + std::string(left ? gap : 0, ' ');
    }
    out += line + "\n";
  }
  return out;
}

json::object settings_json(const BenchAttentionRequest& q) {
  return {{"kv_dtype", dtype_name(q.kv_dtype)}, {"block_size", q.block_size}, {"causal", true}, {"min_time_s", q.timing.min_seconds}, {"time_limit_s", q.timing.limit_seconds}};
}

json::object measured_json(const AttentionResult& r, const BenchAttentionReport& report) {
  const AttentionRates rates = attention_rates(r, report);
  json::object out = timing_json(*r.timing);
  out["gb_per_s"] = rates.gb_per_s;
  out["read_share"] = r.sizes.from_memory ? json::value(rates.read_share) : json::value(nullptr);
  out["gflop_per_s"] = rates.gflop_per_s;
  out["fma_share"] = rates.fma_share;
  return out;
}

json::object result_json(const AttentionResult& r, const BenchAttentionReport& report) {
  json::object out{{"shape", r.shape.name()},
                   {"in_table", r.shape.in_table()},
                   {"phase", r.shape.phase == BenchPhase::kDecode ? "decode" : "prefill"},
                   {"head_dim", r.shape.head_dim},
                   {"num_sequences", r.shape.num_sequences},
                   {"num_tokens", r.shape.num_tokens},
                   {"num_heads", r.shape.num_heads},
                   {"num_kv_heads", r.shape.num_kv_heads},
                   {"backend", r.backend},
                   {"bytes", compulsory_bytes(r.shape, report.request.kv_dtype)},
                   {"flops", attention_flops(r.shape)},
                   {"status", status_of(r)}};
  if (!r.skipped.empty()) out["reason"] = r.skipped;
  if (!r.verdict.has_value()) return out;
  json::array kernels;
  for (const std::string& k : r.kernels) kernels.emplace_back(k);
  const double used = bound_used(*r.verdict);
  out["kernels"] = std::move(kernels);
  out["units"] = r.launched_units;
  out["layers_in_turn"] = r.sizes.num_layers;
  out["from_memory"] = r.sizes.from_memory;
  out["check"] = json::object{{"passed", r.verdict->passed}, {"bound_used", std::isfinite(used) ? json::value(used) : json::value(nullptr)}, {"worst", r.verdict->where}};
  if (r.timing.has_value()) out["time"] = measured_json(r, report);
  return out;
}

}  // namespace

AttentionRates attention_rates(const AttentionResult& r, const BenchAttentionReport& report) {
  const double seconds = r.timing->median(), bytes = bytes_of(r, report), flops = static_cast<double>(attention_flops(r.shape));
  const ops::MachineRates& peak = report.machine.rates;
  return {bytes / seconds * 1e-9, bytes / seconds / peak.read_bytes_per_second, flops / seconds * 1e-9, flops / seconds / peak.flops_per_second};
}

std::string bench_attention_text(const BenchAttentionReport& report) {
  const BenchAttentionRequest& q = report.request;
  std::vector<Row> rows{{"shape", "backend", "median", "min", "spread", "runs", "bytes", "GB/s", "of reads", "GFLOP/s", "of FMA", "check", "kernels"}};
  bool foreign = false, cached = false;
  for (const AttentionResult& r : report.results) {
    rows.push_back(result_row(r, report));
    foreign = foreign || !r.shape.in_table();
    cached = cached || (r.timing.has_value() && !r.sizes.from_memory);
  }
  std::string out = machine_text(report.machine) + "attention: one layer, causal, " + std::to_string(AttentionShape{}.num_heads) + " query heads, " + std::to_string(AttentionShape{}.num_kv_heads) +
                    " KV heads, cache of " + dtype_name(q.kv_dtype) + ", block " + std::to_string(q.block_size) + "\n\n" + aligned(rows) +
                    "\nbytes: cache, queries and results, each once. check: error of the worst sampled element, in parts of its bound.\n";
  if (foreign) out += "* not a shape of the table\n";
  if (cached) out += "cached: the caches of all layers measured in turn may stay in the processor's cache\n";
  if (!report.all_right()) out += "WRONG results are not timed\n";
  return out;
}

json::object bench_attention_json(const BenchAttentionReport& report) {
  json::array results;
  for (const AttentionResult& r : report.results) results.push_back(result_json(r, report));
  return {{"bench", "attention"}, {"version", kVersion}, {"machine", machine_json(report.machine)}, {"settings", settings_json(report.request)}, {"results", std::move(results)}};
}

BarChart bench_attention_chart(const BenchAttentionReport& report) {
  BarChart chart{.title = "Attention, one layer, " + std::string(dtype_name(report.request.kv_dtype)) + " cache, block " + std::to_string(report.request.block_size),
                 .subtitle = report.machine.cpu + ", " + std::to_string(report.machine.num_threads) + " threads, " + report.machine.isa};
  for (const attention::BackendCaps* backend : report.request.backends) chart.series.emplace_back(backend->name);
  ChartPanel decode{.axis = "decode: GB/s of cache, queries and results", .reference = report.machine.rates.read_bytes_per_second * 1e-9, .reference_label = "plain reads"};
  ChartPanel prefill{.axis = "prefill: GFLOP/s", .reference = report.machine.rates.flops_per_second * 1e-9, .reference_label = "float32 multiply-adds"};
  for (const AttentionShape& shape : report.request.shapes) {
    ChartGroup group{.label = label(shape), .bars = std::vector<ChartBar>(chart.series.size())};
    for (const AttentionResult& r : report.results) {
      if (!(r.shape == shape)) continue;
      std::size_t series = 0;
      while (chart.series[series] != r.backend) ++series;
      group.bars[series].note = r.timing.has_value() ? duration_text(r.timing->median()) : status_of(r);
      if (!r.timing.has_value()) continue;
      const AttentionRates rates = attention_rates(r, report);
      group.bars[series].value = shape.phase == BenchPhase::kDecode ? rates.gb_per_s : rates.gflop_per_s;
    }
    (shape.phase == BenchPhase::kDecode ? decode : prefill).groups.push_back(std::move(group));
  }
  for (ChartPanel& panel : {std::ref(decode), std::ref(prefill)})
    if (!panel.groups.empty()) chart.panels.push_back(std::move(panel));
  return chart;
}

}  // namespace quire::commands
