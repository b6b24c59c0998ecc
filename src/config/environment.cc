#include "config/environment.h"

#include <unistd.h>

#include <algorithm>

#include "base/suggest.h"
#include "base/text.h"
#include "config/problems.h"
#include "config/values.h"

namespace quire::config {
namespace {

using Severity = Adjustment::Severity;

const EnvRow* find_row(std::string_view name) {
  const auto rows = env_table();
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const EnvRow& row) { return row.name == name; });
  return found == rows.end() ? nullptr : &*found;
}

void store(std::string_view name, const std::string& value, Environment& env) {
  if (name == "QUIRE_LOG_LEVEL")
    env.log_level = value;
  else if (name == "VLLM_LOGGING_LEVEL")
    env.log_level = env.log_level.value_or(lower(value));
  else if (name == "QUIRE_NUM_THREADS")
    env.num_threads = static_cast<std::int32_t>(*parse_integer(value));
  else if (name == "QUIRE_CPU_ISA")
    env.cpu_isa = value;
  else if (name == "QUIRE_FP8_FLAVOR")
    env.fp8_fnuz = value == "fnuz";
  else if (name == "VLLM_API_KEY")
    env.api_key = value;
  else if (name == "OPENAI_API_KEY")
    env.openai_api_key = value;
  else if (name == "VLLM_ALLOW_LONG_MAX_MODEL_LEN")
    env.allow_long_max_model_len = *parse_bool(value);
  else if (name == "VLLM_HTTP_TIMEOUT_KEEP_ALIVE")
    env.keep_alive_seconds = static_cast<std::int32_t>(*parse_integer(value));
  else if (name == "VLLM_LOG_STATS_INTERVAL")
    env.log_stats_interval_seconds = *parse_number(value);
  else if (name == "K_SCALE_CONSTANT")
    env.k_scale_constant = static_cast<std::int32_t>(*parse_integer(value));
  else if (name == "V_SCALE_CONSTANT")
    env.v_scale_constant = static_cast<std::int32_t>(*parse_integer(value));
  else if (name == "VLLM_ATTENTION_BACKEND")
    env.attention_backend = value;
  else if (name == "VLLM_CPU_KVCACHE_SPACE") {
    if (*parse_integer(value) > 0) env.kv_cache_gib = *parse_integer(value);
  } else
    QUIRE_CHECK(false) << "honoured variable without a reader: " << std::string(name);
}

void take(const EnvRow& row, const std::string& value, Environment& env, Problems& problems) {
  if (row.name == "VLLM_ROCM_USE_AITER") env.rocm_aiter = parse_bool(value);
  if (row.name == "VLLM_ROCM_USE_AITER_MHA") env.rocm_aiter_mha = parse_bool(value);
  switch (row.fate) {
    case EnvFate::kDocumented: return;
    case EnvFate::kIgnored: env.notes.push_back({Severity::kInfo, std::string(row.name), "is ignored: " + std::string(row.text)}); return;
    case EnvFate::kReplaced: env.notes.push_back({Severity::kWarning, std::string(row.name), "has no effect: " + std::string(row.text)}); return;
    case EnvFate::kHonoured: break;
  }
  if (value.empty()) return;  // set to nothing is as good as unset
  const bool any_case = row.name == "VLLM_LOGGING_LEVEL";
  const std::string checked = any_case ? upper(value) : value;
  const FlagRow shape{.name = row.name, .kind = row.kind, .allowed = row.allowed, .secret = row.name == "VLLM_API_KEY" || row.name == "OPENAI_API_KEY"};
  if (Status status = check_value(shape, row.name, checked); !status.ok()) {
    problems.add(std::string(row.name), status.error().message);
    return;
  }
  store(row.name, checked, env);
}

}  // namespace

Result<Environment> read_environment(const EnvVariables& variables) {
  Environment env;
  Problems problems;
  EnvVariables sorted = variables;  // the order of a process's variables means nothing; messages and QUIRE_ before VLLM_ do
  std::sort(sorted.begin(), sorted.end());
  for (const auto& [name, value] : sorted) {
    if (const EnvRow* row = find_row(name)) {
      take(*row, value, env, problems);
      continue;
    }
    const bool ours = name.starts_with("QUIRE_");
    if (!ours && !name.starts_with("VLLM_")) continue;
    std::vector<std::string_view> names;
    for (const EnvRow& row : env_table()) {
      if (row.name.starts_with(ours ? "QUIRE_" : "VLLM_")) names.push_back(row.name);
    }
    if (ours)
      problems.add(name, quote_value(name) + ": unknown environment variable" + did_you_mean(name, names));
    else
      env.notes.push_back({Severity::kWarning, name, "is not a variable that this server knows; it has no effect" + did_you_mean(name, names)});
  }
  if (!problems.empty()) return problems.to_error();
  return env;
}

EnvVariables process_variables() {
  EnvVariables out;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=');
    if (equals != std::string_view::npos) out.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return out;
}

}  // namespace quire::config
