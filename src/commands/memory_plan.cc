#include "commands/memory_plan.h"

#include <algorithm>
#include <utility>

#include "attention/device_family.h"
#include "base/check.h"
#include "base/checked.h"
#include "commands/memory_advice.h"
#include "commands/run_setup.h"
#include "device/cpu/cpu_device.h"
#include "device/dry_device.h"
#include "graph/mode.h"
#include "kv/store/kv_store.h"
#include "model/weights.h"
#include "runner/runner.h"

namespace quire::commands {
namespace {

const std::string kDevice(attention::kServedFamily);

struct Account {
  const char* item;
  const char* what;  // the device's name of it; nullptr: not allocated under a name
};
constexpr Account kAccounts[] = {{"weights", "weights"},         {"activations", "activations"},     {"workspace", "attention workspace"},
                                 {"graphs", nullptr},            {"communication", "communication"}, {"step_inputs", "step inputs"},
                                 {"sequence_state", "sequence state"}, {"kv_pool", "KV cache"},       {"kv_scales", "KV scales"},       {"slack", nullptr}};

// Every item of a run, by running what makes them.
Result<std::vector<MemoryItem>> dry_run(const RunSetup& setup, device::Device& device, runner::RecordedGraphs& recorded) {
  const auto weights = model::Weights::place(device, setup.runner.spec, setup.weights);
  if (!weights.ok()) return weights.error();
  auto kv = kv::KvStore::create(device, setup.layout);
  if (!kv.ok()) return kv.error();
  const auto runner = runner::ModelRunner::create(device, setup.runner, weights.value(), kv.value());
  if (!runner.ok()) return runner.error();
  recorded = runner.value()->record_graphs();
  return memory_items(device, recorded.bytes);
}

std::string number(std::int64_t n) { return std::to_string(n); }

// In the order of kAccounts.
std::vector<std::string> reasons(const config::ResolvedConfig& c, const RunSetup& setup, const runner::RecordedGraphs& recorded) {
  const SchedulerConfig& s = c.engine.scheduler;
  const std::string tokens = "--max-num-batched-tokens " + number(s.max_num_batched_tokens), seqs = "--max-num-seqs " + number(s.max_num_seqs),
                    length = "--max-model-len " + number(s.max_model_len), flight = number(s.depth) + (s.depth == 1 ? " step" : " steps") + " in flight (--async-scheduling)";
  const std::string backend = "--attention-backend " + std::string(setup.selection.backend->name);
  const std::string graphs = setup.graphs.buckets.sizes().empty() && setup.graphs.buckets.decode_sizes().empty()
                                 ? std::string("no graphs are recorded (mode ") + graph::graph_mode_name(setup.graphs.mode) + ")"
                                 : std::string("cudagraph_mode ") + graph::graph_mode_name(setup.graphs.mode) + ": " + number(static_cast<std::int64_t>(recorded.num_keys)) + " shapes, " +
                                       number(static_cast<std::int64_t>(recorded.num_graphs)) + " graphs (--cudagraph-capture-sizes, --max-cudagraph-capture-size), " + flight;
  const std::string quantised = c.model.quant.any_fp8_weight() ? ", " + c.model.quant.summary() : "";
  return {"model shapes, --dtype " + std::string(dtype_name(c.engine.dtype)) + quantised + ", " + length + " (rotary table)",
          "model widths, " + tokens,
          backend + ", " + seqs + ", " + length,
          graphs,
          "one rank (--tensor-parallel-size 1)",
          tokens + ", " + seqs + ", --max-logprobs " + number(c.engine.max_logprobs) + ", " + flight,
          seqs + ", " + length,
          number(s.num_blocks) + " blocks of --block-size " + number(s.block_size) + ", --kv-cache-dtype " + dtype_name(c.engine.kv_dtype) +
              " (--kv-cache-memory-bytes, --num-gpu-blocks-override)",
          is_fp8(c.engine.kv_dtype) ? "one for each layer, head and part" : "a cache that is not FP8 has none",
          "allocations take whole pages of " + number(static_cast<std::int64_t>(device::kCpuPageBytes)) + " bytes"};
}

}  // namespace

std::vector<MemoryItem> memory_items(const device::Device& device, std::size_t graph_bytes) {
  std::vector<MemoryItem> items;
  std::size_t known = 0;
  for (const Account& a : kAccounts) {
    std::size_t bytes = 0;
    if (a.what != nullptr) {
      const auto found = device.accounts().find(a.what);
      bytes = found == device.accounts().end() ? 0 : found->second;
      known += bytes;
    } else {
      bytes = a.item == std::string("graphs") ? graph_bytes : device.rounding_bytes();
    }
    items.push_back({a.item, bytes});
  }
  QUIRE_CHECK_EQ(known, device.allocated_bytes()) << "an allocation belongs to no item of the memory plan";
  return items;
}

Error allocation_error(const Error& error, const device::Device& device, const std::vector<std::string>& follows) {
  if (error.code != ErrorCode::kResourceExhausted) return error;
  for (std::size_t i = 0; i < std::size(kAccounts); ++i)
    if (kAccounts[i].what != nullptr && device.failed_account() == kAccounts[i].what)
      return Error{error.code, error.message + ", whose size follows from " + follows[i] + "; lower one of these", error.param};
  return error;
}

std::size_t MemoryPlan::total_bytes() const {
  std::size_t total = 0;
  for (const MemoryItem& item : items) total += item.bytes;
  return total;
}

std::size_t MemoryPlan::bytes_of(const std::string& item) const {
  const auto found = std::find_if(items.begin(), items.end(), [&](const MemoryItem& i) { return i.name == item; });
  QUIRE_CHECK(found != items.end()) << "no item " << item;
  return found->bytes;
}

Result<MemoryPlan> plan_without_advice(const PlanInputs& in) {
  const config::ResolvedConfig& c = in.config;
  const SchedulerConfig& s = c.engine.scheduler;
  const auto setup = set_up_run(c, kDevice, in.forced_mode);
  if (!setup.ok()) return setup.error();
  MemoryPlan plan;
  runner::RecordedGraphs recorded;
  device::DryDevice device(device::DeviceProfile{.family = kDevice, .name = "the address space"}, device::kCpuPageBytes);
  auto items = dry_run(setup.value(), device, recorded);
  if (!items.ok()) return allocation_error(items.error(), device, reasons(c, setup.value(), recorded));
  plan.items = std::move(items).value();
  plan.follows = reasons(c, setup.value(), recorded);
  QUIRE_CHECK_EQ(plan.follows.size(), plan.items.size());
  plan.model = c.api.served_names.empty() ? c.engine.model_arg : c.api.served_names.front();
  plan.device = kDevice;
  plan.backend = setup->selection.backend->name;
  plan.graph_mode = graph::graph_mode_name(setup->graphs.mode);
  plan.available_bytes = in.machine.free_memory_bytes;
  plan.max_model_len = s.max_model_len;
  plan.pool_tokens = std::int64_t{s.num_blocks} * s.block_size;
  plan.longest_context = std::min<std::int64_t>(s.max_model_len, plan.pool_tokens);
  plan.largest_batch = std::min<std::int64_t>(s.max_num_seqs, s.num_blocks / ceil_div<std::int64_t>(std::max(s.max_model_len, 1), s.block_size));
  return plan;
}

Result<MemoryPlan> plan_memory(const PlanInputs& in) {
  auto plan = plan_without_advice(in);
  if (!plan.ok()) return plan;
  if (plan->available_bytes > 0 && plan->total_bytes() > static_cast<std::size_t>(plan->available_bytes)) plan->advice = memory_advice(in, plan.value());
  return plan;
}

Status check_fit(const MemoryPlan& plan) {
  if (plan.fits()) return {};
  return Error{ErrorCode::kResourceExhausted, plan.advice, {}};
}

}  // namespace quire::commands
