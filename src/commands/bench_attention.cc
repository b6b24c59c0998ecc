#include "commands/bench_attention.h"

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <utility>

#include "attention/select.h"
#include "base/log.h"
#include "base/suggest.h"
#include "base/text.h"
#include "commands/console.h"
#include "config/machine.h"
#include "config/problems.h"
#include "config/resolve.h"
#include "kv/store/kv_format.h"

namespace quire::commands {
namespace {

using attention::BackendCaps;

constexpr std::string_view kCommand = "bench attention";
constexpr std::string_view kDevice = "cpu";
constexpr std::int64_t kMemoryShare = 10;  // one part in so many of the free memory stays free

Result<std::vector<const BackendCaps*>> chosen_backends(const std::string& asked) {
  std::vector<const BackendCaps*> out;
  std::vector<std::string_view> names{"all"};
  for (const BackendCaps& row : attention::backend_table()) {
    if (!row.on(kDevice) || row.built != attention::Built::kYes) continue;
    names.push_back(row.name);
    if (upper(asked) == "ALL" || row.answers_to(upper(asked))) out.push_back(&row);
  }
  if (!out.empty()) return out;
  std::string list;
  for (const std::string_view n : names) list += (list.empty() ? "" : ", ") + std::string(n);
  return invalid("--backend " + config::quote_value(asked) + ": must be one of " + list + did_you_mean(upper(asked), names), "--backend");
}

// Why the backend does not take the shape; "": it does.
std::string refusal(const BackendCaps& backend, const AttentionShape& shape, const BenchAttentionRequest& request) {
  const attention::AttnProblem problem{.num_heads = shape.num_heads,
                                       .num_kv_heads = shape.num_kv_heads,
                                       .head_dim = shape.head_dim,
                                       .block_size = request.block_size,
                                       .kv_format = kv::kv_format_of(request.kv_dtype).value_or(kv::KvFormat::kOther),
                                       .query_dtype = request.model_dtype,
                                       .max_context = shape.num_tokens};
  const auto selection = attention::select_backend(problem, std::string(kDevice), std::string(backend.name));
  return selection.ok() ? "" : selection.error().message;
}

// The least that a check and one repeat can take on this machine.
double least_seconds(const AttentionShape& shape, const BenchAttentionRequest& request, const ops::MachineRates& rates) {
  const double reading = static_cast<double>(compulsory_bytes(shape, request.kv_dtype)) / rates.read_bytes_per_second;
  const double computing = static_cast<double>(attention_flops(shape)) / rates.flops_per_second;
  return 2.0 * std::max(reading, computing);
}

std::string over_limit(const std::string& what, double seconds, double limit) { return what + " " + duration_text(seconds) + ", --time-limit is " + duration_text(limit); }

class Bench {
 public:
  Bench(BenchDevice& device, const BenchAttentionRequest& request) : device_(device), report_{device.machine, request, {}} {}

  BenchAttentionReport run() {
    for (std::size_t i = 0; i < report_.request.shapes.size(); ++i) {
      place_ = "[" + std::to_string(i + 1) + "/" + std::to_string(report_.request.shapes.size()) + "] " + report_.request.shapes[i].name();
      run_shape(report_.request.shapes[i]);
    }
    return std::move(report_);
  }

 private:
  void run_shape(const AttentionShape& shape) {
    const BenchAttentionRequest& request = report_.request;
    std::vector<const BackendCaps*> takers;
    for (const BackendCaps* backend : request.backends) {
      const std::string why = refusal(*backend, shape, request);
      if (why.empty())
        takers.push_back(backend);
      else
        skip(shape, *backend, why);
    }
    const CaseSettings settings{request.kv_dtype, request.block_size, report_.machine.last_cache_bytes, config::this_machine().free_memory_bytes / kMemoryShare * (kMemoryShare - 1)};
    const auto sizes = case_sizes(shape, settings);
    const double least = least_seconds(shape, request, report_.machine.rates);
    std::string why = sizes.ok() ? "" : sizes.error().message;
    if (why.empty() && least > request.timing.limit_seconds) why = over_limit("a check and one repeat take at least", least, request.timing.limit_seconds);
    if (why.empty() && !takers.empty()) why = run_case(shape, settings, sizes.value(), takers);
    if (why.empty()) return;
    for (const BackendCaps* backend : takers) skip(shape, *backend, why);
  }

  // Why the case could not be made; "": every taker has its result.
  std::string run_case(const AttentionShape& shape, const CaseSettings& settings, const CaseSizes& sizes, const std::vector<const BackendCaps*>& takers) {
    QUIRE_LOG_INFO("{}: filling {} MiB ({} layers)", place_, sizes.total_bytes >> 20, sizes.num_layers);
    for (const BackendCaps* backend : takers) QUIRE_CHECK(backend->same_layout(*takers.front())) << backend->name << " reads other cells than " << takers.front()->name;
    const auto made = AttentionCase::create(*device_.device, shape, settings, *takers.front());
    if (!made.ok()) return made.error().message;
    for (const BackendCaps* backend : takers) run_backend(*made.value(), shape, *backend);
    return "";
  }

  void run_backend(AttentionCase& work, const AttentionShape& shape, const BackendCaps& backend) {
    const TimingRules& rules = report_.request.timing;
    const auto planned = work.plan(backend);
    if (!planned.ok()) return skip(shape, backend, planned.error().message);
    QUIRE_LOG_INFO("{} {}: checking", place_, backend.name);
    const AttentionCase::Checked checked = work.check(planned.value());
    AttentionResult result{.shape = shape, .backend = std::string(backend.name), .verdict = checked.verdict, .sizes = work.sizes(), .kernels = planned->kernels, .launched_units = planned->launched_units};
    if (!checked.verdict.passed) {
      QUIRE_LOG_ERROR("{} {}: WRONG: {}", place_, backend.name, checked.verdict.where);
    } else if (checked.seconds > rules.limit_seconds) {
      result.skipped = over_limit("one run takes", checked.seconds, rules.limit_seconds);
      QUIRE_LOG_WARN("{} {}: skipped: {}", place_, backend.name, result.skipped);
    } else {
      QUIRE_LOG_INFO("{} {}: timing (one run took {})", place_, backend.name, duration_text(checked.seconds));
      result.timing = work.time(planned.value(), rules);
    }
    report_.results.push_back(std::move(result));
  }

  void skip(const AttentionShape& shape, const BackendCaps& backend, std::string why) {
    QUIRE_LOG_WARN("{} {}: skipped: {}", place_, backend.name, why);
    report_.results.push_back(AttentionResult{.shape = shape, .backend = std::string(backend.name), .skipped = std::move(why)});
  }

  BenchDevice& device_;
  BenchAttentionReport report_;
  std::string place_;
};

}  // namespace

Result<BenchAttentionRequest> bench_attention_request(const config::Options& options, const config::Environment& environment) {
  BenchAttentionRequest request;
  auto shapes = choose_shapes(options.list("shapes"), options.text("filter"));
  if (!shapes.ok()) return shapes.error();
  request.shapes = std::move(shapes).value();
  auto backends = chosen_backends(options.text("backend"));
  if (!backends.ok()) return backends.error();
  request.backends = std::move(backends).value();
  // As a server of a bfloat16 checkpoint would choose.
  request.model_dtype = parse_dtype(options.text("dtype")).value_or(DType::kBF16);
  request.kv_dtype = config::kv_cache_dtype(options.text("kv-cache-dtype"), request.model_dtype, environment.fp8_fnuz ? DType::kFp8E4m3Fnuz : DType::kFp8E4m3);
  request.block_size = static_cast<std::int32_t>(options.integer("block-size").value());
  if (request.block_size % kv::kCellTokens != 0) return invalid("--block-size " + std::to_string(request.block_size) + ": must be a multiple of " + std::to_string(kv::kCellTokens), "--block-size");
  request.timing = {options.number("min-time").value(), options.number("time-limit").value()};
  return request;
}

bool BenchAttentionReport::all_right() const {
  return std::ranges::all_of(results, [](const AttentionResult& r) { return !r.verdict.has_value() || r.verdict->passed; });
}

BenchAttentionReport run_bench_attention(BenchDevice& device, const BenchAttentionRequest& request) { return Bench(device, request).run(); }

int bench_attention(const config::BenchAttentionCommand& command) {
  const auto environment = config::read_environment(config::process_variables());
  if (!environment.ok()) return report_error(kCommand, environment.error());
  if (const Status logging = init_logging(environment->log_level.value_or("info")); !logging.ok()) return report_error(kCommand, logging.error());
  const auto request = bench_attention_request(command.options, environment.value());
  if (!request.ok()) return report_error(kCommand, request.error());
  const auto plot = command.options.given_text("plot");
  if (plot) {  // before anything is measured
    if (const Status writable = check_plot(*plot); !writable.ok()) return report_error(kCommand, writable.error());
  }
  auto device = open_bench_device(command.options, environment.value());
  if (!device.ok()) return report_error(kCommand, device.error());
  const BenchAttentionReport report = run_bench_attention(device.value(), request.value());
  const std::string text = command.options.boolean("json") ? boost::json::serialize(bench_attention_json(report)) + "\n" : bench_attention_text(report);
  const int code = print_answer(kCommand, text, report.all_right() ? 0 : kFailureExitCode);
  if (plot) {
    if (const Status written = write_plot(*plot, svg_text(bench_attention_chart(report))); !written.ok()) return report_error(kCommand, written.error());
  }
  return code;
}

}  // namespace quire::commands
