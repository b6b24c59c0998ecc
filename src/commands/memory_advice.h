// What to change when a memory plan does not fit: every value that is named was planned with and fits. Internal to the memory plan.
#pragma once
#include <string>

#include "commands/memory_plan.h"

namespace quire::commands {

// For a plan that takes more than is available.
[[nodiscard]] std::string memory_advice(const PlanInputs& inputs, const MemoryPlan& plan);

// plan_memory() without its advice.
[[nodiscard]] Result<MemoryPlan> plan_without_advice(const PlanInputs& inputs);

}  // namespace quire::commands
