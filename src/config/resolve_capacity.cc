#include "config/resolve_parts.h"

#include <algorithm>

#include "base/checked.h"
#include "base/text.h"

namespace quire::config {
namespace {

using Severity = Adjustment::Severity;
constexpr std::int64_t kGib = std::int64_t{1} << 30;
constexpr std::int64_t kMaxBlocks = INT32_MAX;

std::string gib(std::int64_t bytes) { return formatted("%.3f GiB", static_cast<double>(bytes) / static_cast<double>(kGib)); }

void resolve_block_size(Resolution& r) {
  const std::int64_t size = number_of(r.in.options, "block-size");
  if (size % 16 != 0) {
    const std::int64_t near = std::max<std::int64_t>(16, (size + 8) / 16 * 16);
    r.problems.add("--block-size", r.in.options.spelling("block-size") + " " + std::to_string(size) +
                                       ": must be a multiple of 16 (nearest: " + std::to_string(near) + ")");
    return;
  }
  r.out.engine.scheduler.block_size = static_cast<std::int32_t>(size);
}

// The length asked for, or the model's own; 0: `auto`, to be fitted to the pool. After a problem still a length, for the later rules.
std::int64_t asked_length(Resolution& r, const LengthLimit& limit) {
  if (!r.in.options.given("max-model-len")) return limit.tokens;
  check_model_len(r.in.options, r.in.environment, limit, r.out.adjustments, r.problems);
  const std::int64_t asked = r.in.options.integer("max-model-len").value_or(0);
  return r.in.environment.allow_long_max_model_len ? asked : std::min(asked, limit.tokens);
}

// The KV pool and what its size comes from: that is what a message blames and what a user changes.
struct Pool {
  std::int64_t bytes = 0, blocks = 0;
  std::string flag = "--kv-cache-memory-bytes";
  std::string asked;  // "--num-gpu-blocks-override 3"; "": the machine's rule
};

// By --kv-cache-memory-bytes, VLLM_CPU_KVCACHE_SPACE, or a quarter of the free memory.
Pool pool_of_bytes(Resolution& r) {
  const MachineFacts& machine = r.in.machine;
  Pool pool;
  if (const auto bytes = r.in.options.integer("kv-cache-memory-bytes")) {
    pool.bytes = *bytes;
    pool.asked = r.in.options.spelling("kv-cache-memory-bytes") + " " + std::to_string(*bytes);
    if (machine.total_memory_bytes > 0 && *bytes > machine.total_memory_bytes) {
      r.problems.add("--kv-cache-memory-bytes", pool.asked + ": the machine has " + std::to_string(machine.total_memory_bytes) + " bytes of memory");
    } else if (machine.free_memory_bytes > 0 && *bytes > machine.free_memory_bytes) {
      r.note(Severity::kWarning, "--kv-cache-memory-bytes",
             gib(*bytes) + " is more than the " + gib(machine.free_memory_bytes) + " that are free now");
    }
  } else if (const auto space = r.in.environment.kv_cache_gib) {
    pool.bytes = *space * kGib;
    pool.flag = "VLLM_CPU_KVCACHE_SPACE";
    pool.asked = pool.flag + " " + std::to_string(*space);
  } else {
    pool.bytes = std::min(machine.free_memory_bytes / 4, 4 * kGib);
  }
  return pool;
}

// --num-gpu-blocks-override wins over every rule of bytes.
Pool pool_of(Resolution& r, std::int64_t block_bytes) {
  Pool pool = pool_of_bytes(r);
  pool.blocks = std::min(pool.bytes / block_bytes, kMaxBlocks);
  const auto forced = r.in.options.integer("num-gpu-blocks-override");
  if (!forced) return pool;
  r.note(Severity::kInfo, "--num-gpu-blocks-override", std::to_string(*forced) + " KV blocks instead of " + std::to_string(pool.blocks));
  r.out.engine.num_blocks_override = static_cast<std::int32_t>(*forced);
  const auto bytes = checked_mul(*forced, block_bytes);
  pool = Pool{.bytes = bytes.value_or(INT64_MAX), .blocks = *forced, .flag = "--num-gpu-blocks-override", .asked = r.in.options.spelling("num-gpu-blocks-override") + " " + std::to_string(*forced)};
  if (!bytes) r.problems.add(pool.flag, pool.asked + ": the pool's size overflows");
  return pool;
}

Error too_small(const Pool& pool, std::int64_t length, std::int64_t needed_blocks, const SchedulerConfig& scheduler, std::int64_t block_bytes) {
  const auto needed = checked_mul(needed_blocks, block_bytes);
  const bool by_blocks = pool.flag == "--num-gpu-blocks-override";
  const std::int64_t feasible = pool.blocks * scheduler.block_size;
  std::string message = (pool.asked.empty() ? "KV pool too small" : pool.asked + ": KV pool too small") + std::string(": one request of ") + std::to_string(length) + " tokens (--max-model-len) needs ";
  if (by_blocks)
    message += std::to_string(needed_blocks) + " blocks";
  else
    message += (needed ? gib(*needed) : "more than 2^63 bytes") + ", available " + gib(pool.bytes);
  if (feasible >= 2) message += "; the estimated feasible --max-model-len is " + std::to_string(feasible) + " (or auto)";
  return Error{ErrorCode::kResourceExhausted, message + "; or raise " + pool.flag, pool.flag};
}

void resolve_length_and_pool(Resolution& r) {
  SchedulerConfig& scheduler = r.out.engine.scheduler;
  const LengthLimit limit = length_limit(r.in.model, r.in.tokenizer);
  std::int64_t length = asked_length(r, limit);
  const bool fitted = length == 0;
  const auto block_bytes = kv_block_bytes(r.in.model, r.out.engine.kv_dtype, scheduler.block_size);
  if (!block_bytes) r.problems.add("--block-size", "one KV block of this model would not fit into 2^63 bytes");
  const Pool pool = pool_of(r, block_bytes.value_or(1));
  if (fitted) length = std::min(limit.tokens, pool.blocks * scheduler.block_size);
  scheduler.max_model_len = static_cast<std::int32_t>(std::min<std::int64_t>(length, INT32_MAX));  // later rules need it even if the pool is too small
  const std::int64_t needed_length = std::max<std::int64_t>(length, 2), needed_blocks = ceil_div<std::int64_t>(needed_length, scheduler.block_size);
  if (block_bytes && needed_blocks > pool.blocks) r.problems.add(too_small(pool, needed_length, needed_blocks, scheduler, *block_bytes));
  if (length > INT32_MAX) r.problems.add("--max-model-len", "--max-model-len " + std::to_string(length) + ": must be at most 2147483647");
  if (fitted) r.note(Severity::kInfo, "--max-model-len", "auto: " + std::to_string(length) + " tokens");
  scheduler.num_blocks = static_cast<std::int32_t>(pool.blocks);
  r.out.engine.kv_cache_bytes = pool.bytes;
}

// vLLM's defaults and validations of the two step limits.
void resolve_budget(Resolution& r) {
  const Options& options = r.in.options;
  SchedulerConfig& scheduler = r.out.engine.scheduler;
  const std::int64_t asked_tokens = number_of(options, "max-num-batched-tokens");
  std::int64_t tokens = asked_tokens;
  std::int64_t seqs = number_of(options, "max-num-seqs");
  const bool tokens_given = options.given("max-num-batched-tokens"), seqs_given = options.given("max-num-seqs");
  const std::int64_t length = scheduler.max_model_len;
  const std::int64_t most_useful = seqs * length;
  if (!tokens_given) {
    tokens = std::max(std::min(tokens, most_useful), seqs);
    if (!scheduler.enable_chunked_prefill) tokens = std::max(tokens, length);
    if (tokens != asked_tokens)
      r.note(Severity::kInfo, "--max-num-batched-tokens", std::to_string(tokens) + " instead of " + std::to_string(asked_tokens) + ", to suit --max-num-seqs and --max-model-len");
  } else if (!seqs_given && tokens < seqs) {
    r.note(Severity::kInfo, "--max-num-seqs",
           std::to_string(tokens) + " instead of " + std::to_string(seqs) + ": no more than --max-num-batched-tokens");
    seqs = tokens;
  }
  const std::string flag = options.spelling("max-num-batched-tokens") + " " + std::to_string(tokens);
  if (tokens < seqs) r.problems.add("--max-num-batched-tokens", flag + ": must be at least --max-num-seqs (" + std::to_string(seqs) + ")");
  if (!scheduler.enable_chunked_prefill && tokens < length) {
    r.problems.add("--max-num-batched-tokens", flag + ": with --no-enable-chunked-prefill it must be at least --max-model-len (" +
                                                   std::to_string(length) + "), or longer prompts could never run");
  }
  if (tokens > seqs * length) {
    r.note(Severity::kWarning, "--max-num-batched-tokens",
           std::to_string(tokens) + " is more than --max-num-seqs times --max-model-len (" + std::to_string(seqs * length) +
               "); a step never holds that many");
  }
  scheduler.max_num_batched_tokens = static_cast<std::int32_t>(tokens);
  scheduler.max_num_seqs = static_cast<std::int32_t>(seqs);
}

}  // namespace

LengthLimit length_limit(const model::ModelSpec& model, const TokenizerFacts& tokenizer) {
  LengthLimit limit{.tokens = model::derived_max_model_len(model, tokenizer.model_max_length)};
  if (limit.tokens < model::derived_max_model_len(model, 0)) limit.source = "tokenizer_config.json's model_max_length " + std::to_string(tokenizer.model_max_length);
  return limit;
}

void check_model_len(const Options& options, const Environment& environment, const LengthLimit& limit, std::vector<Adjustment>& notes, Problems& problems) {
  const std::int64_t asked = options.integer("max-model-len").value_or(0);
  if (limit.tokens == 0 || !options.given("max-model-len") || asked <= limit.tokens) return;
  const std::string flag = options.spelling("max-model-len");
  const std::string allows = limit.source + " allows at most " + std::to_string(limit.tokens) + " tokens";
  if (environment.allow_long_max_model_len)
    notes.push_back({Severity::kWarning, flag, std::to_string(asked) + ": " + allows + "; VLLM_ALLOW_LONG_MAX_MODEL_LEN goes beyond, where answers may be wrong"});
  else
    problems.add("--max-model-len", flag + " " + std::to_string(asked) + ": " + allows + "; VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 overrides this at the risk of wrong answers");
}

std::optional<std::int64_t> kv_block_bytes(const model::ModelSpec& model, DType kv_dtype, std::int32_t block_size) {
  std::optional<std::int64_t> bytes = 2 * static_cast<std::int64_t>(dtype_bytes(kv_dtype));
  for (const std::int64_t factor : {model.num_layers, model.num_kv_heads, model.head_dim, block_size}) {
    if (bytes) bytes = checked_mul(*bytes, std::max<std::int64_t>(factor, 1));
  }
  return bytes;
}

void resolve_capacity(Resolution& r) {
  const Options& options = r.in.options;
  SchedulerConfig& scheduler = r.out.engine.scheduler;
  resolve_block_size(r);
  scheduler.enable_chunked_prefill = options.boolean("enable-chunked-prefill");
  scheduler.enable_prefix_caching = options.boolean("enable-prefix-caching");
  scheduler.policy = options.text("scheduling-policy") == "priority" ? SchedulingPolicy::kPriority : SchedulingPolicy::kFcfs;
  scheduler.depth = options.boolean("async-scheduling") ? 2 : 1;
  resolve_length_and_pool(r);
  resolve_budget(r);
  const std::int64_t threshold = number_of(options, "long-prefill-token-threshold");
  if (scheduler.max_model_len >= 2 && threshold > scheduler.max_model_len) {
    r.problems.add("--long-prefill-token-threshold", options.spelling("long-prefill-token-threshold") + " " + std::to_string(threshold) +
                                                         ": must be at most --max-model-len (" + std::to_string(scheduler.max_model_len) + ")");
  }
  scheduler.long_prefill_token_threshold = static_cast<std::int32_t>(threshold);
}

}  // namespace quire::config
