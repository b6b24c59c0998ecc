// The memory plan: every byte that a run will hold, before any of it is taken. Made by running the allocating and recording code on a
// device of addresses alone, so that the plan and the run cannot disagree. Used by `quire plan`, by start-up's fit check and by tests.
#pragma once
#include <boost/json/object.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "config/machine.h"
#include "config/resolved.h"
#include "device/device.h"
#include "graph/mode.h"

namespace quire::commands {

struct MemoryItem {
  std::string name;  // "weights", "kv_pool", ...: a label of quire:memory_bytes
  std::size_t bytes = 0;
  friend bool operator==(const MemoryItem&, const MemoryItem&) = default;
};

// What lies on a device now, item by item, always the same items in the same order; `graph_bytes`: of recorded launches.
// An allocation that belongs to no item is our own bug and ends the process.
[[nodiscard]] std::vector<MemoryItem> memory_items(const device::Device& device, std::size_t graph_bytes);

// `error` of an allocation that failed on `device`, with the flags that its size follows from (`follows`: of a plan). Others stay as they are.
[[nodiscard]] Error allocation_error(const Error& error, const device::Device& device, const std::vector<std::string>& follows);

struct MemoryPlan {
  std::vector<MemoryItem> items;
  std::vector<std::string> follows;  // parallel to items: from which flags and facts the bytes follow
  std::string model, device, backend, graph_mode;
  std::int64_t available_bytes = 0;  // of the machine, now; 0: not known
  std::int64_t longest_context = 0;  // tokens of one request alone: --max-model-len, or the pool where that is smaller
  std::int64_t pool_tokens = 0;      // that the KV pool holds
  std::int64_t largest_batch = 0;    // requests of max_model_len tokens that the pool and the step limits hold at once
  std::int64_t max_model_len = 0;
  std::string advice;                // when it does not fit: which flag to change and to what

  [[nodiscard]] std::size_t total_bytes() const;
  [[nodiscard]] std::size_t bytes_of(const std::string& item) const;
  [[nodiscard]] bool fits() const { return advice.empty(); }
};

struct PlanInputs {
  const config::ResolvedConfig& config;
  config::MachineFacts machine;
  std::optional<graph::GraphMode> forced_mode = std::nullopt;  // as for set_up_run
};

// Errors: what serve refuses before it allocates (no backend, no such graphs). Not fitting is no error.
[[nodiscard]] Result<MemoryPlan> plan_memory(const PlanInputs& inputs);
// kResourceExhausted, naming the flag to change, when the plan does not fit.
[[nodiscard]] Status check_fit(const MemoryPlan& plan);

// A table with a total; lines end in '\n'.
[[nodiscard]] std::string plan_text(const MemoryPlan& plan);
[[nodiscard]] boost::json::object plan_json(const MemoryPlan& plan);
// "1.5 MiB"
[[nodiscard]] std::string mebibytes(std::size_t bytes);

}  // namespace quire::commands
