#include "commands/memory_advice.h"

#include <algorithm>
#include <optional>

#include "base/checked.h"
#include "config/resolve.h"

namespace quire::commands {
namespace {

// The limits that may be lowered, together with the smallest pool that then serves one whole request.
enum class Limit : std::uint8_t { kBatchedTokens, kSeqs, kModelLen };
constexpr Limit kLimits[] = {Limit::kBatchedTokens, Limit::kSeqs, Limit::kModelLen};

const char* flag_of(Limit l) {
  switch (l) {
    case Limit::kBatchedTokens: return "--max-num-batched-tokens";
    case Limit::kSeqs: return "--max-num-seqs";
    case Limit::kModelLen: return "--max-model-len";
  }
  return "";
}

std::int32_t& value_of(config::ResolvedConfig& c, Limit l) {
  SchedulerConfig& s = c.engine.scheduler;
  return l == Limit::kBatchedTokens ? s.max_num_batched_tokens : l == Limit::kSeqs ? s.max_num_seqs : s.max_model_len;
}

// Below this another rule of resolution would be broken.
std::int32_t least(const config::ResolvedConfig& c, Limit l) {
  const SchedulerConfig& s = c.engine.scheduler;
  switch (l) {
    case Limit::kBatchedTokens: return s.enable_chunked_prefill ? s.max_num_seqs : std::max(s.max_num_seqs, s.max_model_len);
    case Limit::kSeqs: return 1;
    case Limit::kModelLen: return std::max(2, s.block_size);
  }
  return 1;
}

class Adviser {
 public:
  Adviser(const PlanInputs& in, const MemoryPlan& plan) : in_(in), plan_(plan) {}

  std::string text() const {
    std::string out = "not enough memory: the plan takes " + mebibytes(plan_.total_bytes()) + ", available are " + mebibytes(available()) + "; ";
    if (const auto pool = smaller_pool()) return out + *pool;
    for (const Limit l : kLimits) {
      config::ResolvedConfig c = in_.config;
      if (lower(c, l)) return out + told(c);
    }
    config::ResolvedConfig c = in_.config;
    for (const Limit l : kLimits)
      if (lower(c, l)) return out + told(c);
    return out + hopeless();
  }

 private:
  [[nodiscard]] std::size_t available() const { return static_cast<std::size_t>(plan_.available_bytes); }
  [[nodiscard]] bool fits(const config::ResolvedConfig& c) const {
    const auto plan = plan_without_advice({c, in_.machine});
    return plan.ok() && plan->total_bytes() <= available();
  }
  [[nodiscard]] static std::int64_t block_bytes(const config::ResolvedConfig& c) {
    return config::kv_block_bytes(c.model, c.engine.kv_dtype, c.engine.scheduler.block_size).value_or(1);
  }
  static void set_blocks(config::ResolvedConfig& c, std::int64_t blocks) {
    c.engine.scheduler.num_blocks = static_cast<std::int32_t>(blocks);
    c.engine.kv_cache_bytes = blocks * block_bytes(c);
  }
  [[nodiscard]] static std::int64_t least_blocks(const config::ResolvedConfig& c) { return ceil_div<std::int64_t>(std::max(2, c.engine.scheduler.max_model_len), c.engine.scheduler.block_size); }
  static void shrink_pool(config::ResolvedConfig& c) { set_blocks(c, std::min<std::int64_t>(c.engine.scheduler.num_blocks, least_blocks(c))); }

  // Only the pool made smaller: by what is missing, and a block for the rounding to pages.
  [[nodiscard]] std::optional<std::string> smaller_pool() const {
    config::ResolvedConfig c = in_.config;
    const auto missing = static_cast<std::int64_t>(plan_.total_bytes() - available());
    const std::int64_t blocks = c.engine.scheduler.num_blocks - ceil_div(missing, block_bytes(c)) - 1;
    if (blocks < least_blocks(c)) return std::nullopt;
    set_blocks(c, blocks);
    if (!fits(c)) return std::nullopt;
    return told(c);
  }
  // Halves one limit until everything fits; false when it does not fit even at the least.
  [[nodiscard]] bool lower(config::ResolvedConfig& c, Limit l) const {
    shrink_pool(c);
    const std::int32_t floor = std::min(value_of(c, l), least(c, l));
    while (true) {
      if (fits(c)) return true;
      if (value_of(c, l) <= floor) return false;
      value_of(c, l) = std::max(floor, value_of(c, l) / 2);
      shrink_pool(c);
    }
  }
  // "lower --kv-cache-memory-bytes to 1048576 and --max-num-seqs to 64"
  [[nodiscard]] std::string told(config::ResolvedConfig c) const {
    config::ResolvedConfig asked = in_.config;
    std::string out;
    const auto add = [&](const std::string& flag, std::int64_t value) { out += (out.empty() ? "lower " : " and ") + flag + " to " + std::to_string(value); };
    for (const Limit l : kLimits)
      if (value_of(c, l) != value_of(asked, l)) add(flag_of(l), value_of(c, l));
    if (c.engine.scheduler.num_blocks != asked.engine.scheduler.num_blocks) {
      if (asked.engine.num_blocks_override.has_value()) {
        add("--num-gpu-blocks-override", c.engine.scheduler.num_blocks);
      } else {
        add("--kv-cache-memory-bytes", c.engine.kv_cache_bytes);
      }
    }
    return out;
  }
  [[nodiscard]] std::string hopeless() const {
    const std::string weights = "the weights alone take " + mebibytes(plan_.bytes_of("weights")) + " (--dtype " + dtype_name(in_.config.engine.dtype) + ")";
    if (in_.config.engine.dtype == DType::kF32) return weights + "; --dtype bfloat16 halves them";
    return weights + ": no flag makes this model fit into this machine";
  }

  const PlanInputs& in_;
  const MemoryPlan& plan_;
};

}  // namespace

std::string memory_advice(const PlanInputs& inputs, const MemoryPlan& plan) { return Adviser(inputs, plan).text(); }

}  // namespace quire::commands
