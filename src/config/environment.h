// The one registry of environment variables: QUIRE_* (an unknown one is an error), VLLM_* (an unknown one is a warning, because
// Kubernetes injects some) and the few others that matter. docs/ENV.md is made from it. Nothing else reads the environment,
// except the local model cache's folder variables.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "config/flag_table.h"
#include "config/resolved.h"

namespace quire::config {

enum class EnvFate : std::uint8_t {
  kHonoured,
  kReplaced,    // no effect; a warning names what replaced it
  kIgnored,     // no effect on this device; told at info level
  kDocumented,  // read elsewhere, or read by nothing and harmless: listed in docs/ENV.md only
};

struct EnvRow {
  std::string_view name;
  ValueKind kind = ValueKind::kText;  // of honoured rows
  std::string_view fallback = {};
  std::string_view allowed = {};  // as in FlagRow
  std::string_view text = {};     // what it does, or why it does nothing here and what replaced it
  EnvFate fate = EnvFate::kHonoured;
};
[[nodiscard]] std::span<const EnvRow> env_table();

struct Environment {
  std::optional<std::string> log_level;  // trace .. off
  std::optional<std::int32_t> num_threads;
  std::string cpu_isa = "auto";
  bool fp8_fnuz = false;               // QUIRE_FP8_FLAVOR=fnuz
  std::optional<std::string> api_key;  // VLLM_API_KEY, not empty
  std::string openai_api_key;          // OPENAI_API_KEY: what this program's clients send
  bool allow_long_max_model_len = false;
  std::optional<std::int32_t> keep_alive_seconds;
  std::optional<double> log_stats_interval_seconds;
  std::optional<std::int64_t> kv_cache_gib;  // VLLM_CPU_KVCACHE_SPACE
  std::optional<std::string> attention_backend;  // VLLM_ATTENTION_BACKEND, as written
  std::optional<std::int32_t> k_scale_constant, v_scale_constant;
  std::optional<bool> rocm_aiter, rocm_aiter_mha;  // VLLM_ROCM_USE_AITER and _MHA, for devices that have such a path
  std::vector<Adjustment> notes;
};

using EnvVariables = std::vector<std::pair<std::string, std::string>>;
// A bad value or an unknown QUIRE_* name is an error; every problem is listed.
[[nodiscard]] Result<Environment> read_environment(const EnvVariables& variables);
// The variables of this process.
[[nodiscard]] EnvVariables process_variables();

}  // namespace quire::config
