#include "config/print.h"

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

namespace quire::config {
namespace {

namespace json = boost::json;

template <class T>
json::array list(const std::vector<T>& items) {
  json::array out;
  for (const T& item : items) out.push_back(json::value(item));
  return out;
}

template <class T>
json::value maybe(const std::optional<T>& value) {
  return value ? json::value(*value) : json::value(nullptr);
}

std::string backend_name(const EngineSettings& e) { return e.attention_backend.empty() ? "auto" : e.attention_backend; }

json::object model_json(const ResolvedConfig& c) {
  const model::ModelSpec& m = c.model;
  return {{"architecture", m.architecture},
          {"hidden_size", m.hidden_size},
          {"intermediate_size", m.intermediate_size},
          {"num_layers", m.num_layers},
          {"num_heads", m.num_heads},
          {"num_kv_heads", m.num_kv_heads},
          {"head_dim", m.head_dim},
          {"vocab_size", m.vocab_size},
          {"max_position_embeddings", m.max_position_embeddings},
          {"checkpoint_dtype", dtype_name(m.dtype)},
          {"quantization", m.quant.summary()},
          {"tie_word_embeddings", m.tie_word_embeddings}};
}

json::object engine_json(const EngineSettings& e) {
  return {{"model_dir", e.model_dir},
          {"tokenizer_dir", e.tokenizer_dir},
          {"load_format", load_format_name(e.load_format)},
          {"relaxed", list(e.relaxed)},
          {"dtype", dtype_name(e.dtype)},
          {"kv_cache_dtype", dtype_name(e.kv_dtype)},
          {"seed", e.seed},
          {"kv_cache_bytes", e.kv_cache_bytes},
          {"num_blocks_override", maybe(e.num_blocks_override)},
          {"attention_backend", backend_name(e)},
          {"num_threads", e.num_threads},
          {"cpu_isa", e.cpu_isa},
          {"enforce_eager", e.enforce_eager},
          {"graph_mode_asked", e.graph.mode},
          {"graph_sizes_asked", list(e.graph.capture_sizes)},
          {"max_graph_size_asked", maybe(e.graph.max_capture_size)},
          {"max_logprobs", e.max_logprobs},
          {"max_queue", e.max_queue},
          {"request_timeout_seconds", e.request_timeout_seconds}};
}

json::object scheduler_json(const SchedulerConfig& s) {
  return {{"max_model_len", s.max_model_len},
          {"max_num_batched_tokens", s.max_num_batched_tokens},
          {"max_num_seqs", s.max_num_seqs},
          {"block_size", s.block_size},
          {"num_blocks", s.num_blocks},
          {"long_prefill_token_threshold", s.long_prefill_token_threshold},
          {"enable_chunked_prefill", s.enable_chunked_prefill},
          {"enable_prefix_caching", s.enable_prefix_caching},
          {"policy", s.policy == SchedulingPolicy::kPriority ? "priority" : "fcfs"},
          {"steps_in_flight", s.depth}};
}

json::object api_json(const ApiSettings& a) {
  const model::GenerationDefaults& d = a.defaults;
  return {{"served_names", list(a.served_names)},
          {"chat_template", a.chat_template_text ? "given" : "from the tokenizer"},
          {"allow_control_tokens_in_content", a.allow_control_tokens_in_content},
          {"response_role", a.response_role},
          {"return_tokens_as_token_ids", a.return_tokens_as_token_ids},
          {"enable_prompt_tokens_details", a.enable_prompt_tokens_details},
          {"enable_force_include_usage", a.enable_force_include_usage},
          {"enable_tokenizer_info", a.enable_tokenizer_info},
          {"temperature", maybe(d.temperature)},
          {"top_p", maybe(d.top_p)},
          {"min_p", maybe(d.min_p)},
          {"top_k", maybe(d.top_k)},
          {"repetition_penalty", maybe(d.repetition_penalty)},
          {"max_new_tokens", maybe(d.max_new_tokens)},
          {"eos_token_ids", list(d.eos_token_ids)},
          {"max_prompts_per_request", a.max_prompts_per_request},
          {"max_stop_strings", a.max_stop_strings},
          {"max_n", a.max_n}};
}

json::object http_json(const HttpSettings& h) {
  return {{"host", h.host},
          {"port", h.port},
          {"uds", h.uds},
          {"api_keys", h.api_keys.size()},
          {"cors_origins", list(h.cors_origins)},
          {"cors_methods", list(h.cors_methods)},
          {"cors_headers", list(h.cors_headers)},
          {"cors_credentials", h.cors_credentials},
          {"max_body_bytes", h.max_body_bytes},
          {"max_connections", h.max_connections},
          {"keep_alive_seconds", h.keep_alive_seconds},
          {"header_timeout_seconds", h.header_timeout_seconds},
          {"write_timeout_seconds", h.write_timeout_seconds},
          {"shutdown_timeout_seconds", h.shutdown_timeout_seconds},
          {"io_threads", h.io_threads},
          {"tokenizer_threads", h.tokenizer_threads},
          {"access_log", h.access_log},
          {"request_id_headers", h.request_id_headers},
          {"server_load_tracking", h.server_load_tracking},
          {"log_requests", h.log_requests},
          {"log_stats", h.log_stats},
          {"log_stats_interval_seconds", h.log_stats_interval_seconds},
          {"root_path", h.root_path}};
}

const char* severity_name(Adjustment::Severity severity) { return severity == Adjustment::Severity::kWarning ? "warning" : "info"; }

}  // namespace

const char* load_format_name(LoadFormat format) {
  switch (format) {
    case LoadFormat::kAuto: return "auto";
    case LoadFormat::kSafetensors: return "safetensors";
    case LoadFormat::kGguf: return "gguf";
    case LoadFormat::kDummy: return "dummy";
  }
  return "";
}

json::object config_json(const ResolvedConfig& config) {
  json::object out{{"model", model_json(config)},
                   {"engine", engine_json(config.engine)},
                   {"scheduler", scheduler_json(config.engine.scheduler)},
                   {"api", api_json(config.api)},
                   {"http", http_json(config.http)}};
  json::array adjustments;
  for (const Adjustment& a : config.adjustments)
    adjustments.push_back(json::object{{"severity", severity_name(a.severity)}, {"flag", a.flag}, {"text", a.text}});
  json::object args;
  for (const auto& [name, value] : config.non_default_args) args.emplace(name, value);
  out.emplace("adjustments", std::move(adjustments));
  out.emplace("non_default_args", std::move(args));
  return out;
}

std::string config_text(const ResolvedConfig& config) {
  std::string out;
  const json::object all = config_json(config);
  for (const auto& [section, values] : all) {
    if (!values.is_object()) continue;
    for (const auto& [name, value] : values.get_object()) {
      out += std::string(section) + "." + std::string(name) + ": " + (value.is_string() ? std::string(value.get_string()) : json::serialize(value)) +
             "\n";
    }
  }
  for (const Adjustment& a : config.adjustments) out += std::string(severity_name(a.severity)) + ": " + a.flag + " " + a.text + "\n";
  return out;
}

}  // namespace quire::config
