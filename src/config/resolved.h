// What runs: one immutable value, made once from what was asked (options.h), the model and the machine. Every later reader
// trusts it; every difference from what was asked is an Adjustment that is printed at start.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "model/kept_blocks.h"
#include "model/spec.h"
#include "scheduler/scheduler_config.h"

namespace quire::config {

struct Adjustment {
  enum class Severity : std::uint8_t { kInfo, kWarning } severity = Severity::kInfo;
  std::string flag;  // "--swap-space"
  std::string text;  // what was asked, what runs instead and why; names the replacement
};

enum class LoadFormat : std::uint8_t { kAuto, kSafetensors, kGguf, kDummy };

// What --compilation-config, -O and the capture flags ask for, in vLLM's words. Which mode runs is decided against the attention
// backend's row when graphs are set up.
struct GraphRequest {
  std::string mode;                              // "": none asked for; else NONE, PIECEWISE, FULL, FULL_DECODE_ONLY, FULL_AND_PIECEWISE
  std::vector<std::int32_t> capture_sizes;       // sorted, distinct; empty: derived
  std::optional<std::int32_t> max_capture_size;  // nullopt: derived
};

// Model, numerics and memory.
struct EngineSettings {
  std::string model_dir;  // resolved folder, or a GGUF file
  std::string model_arg;  // as given
  std::string tokenizer_dir;
  LoadFormat load_format = LoadFormat::kAuto;
  bool relaxed_unused_tensors = false;  // --relaxed unused-tensors
  bool relaxed_self_check = false;      // --relaxed self-check
  bool relaxed_kv_scales = false;       // --relaxed kv-scales
  std::vector<std::string> relaxed;     // as given, for the banner
  model::GgufWeights gguf_weights = model::GgufWeights::kBlocks;  // --gguf-weights
  DType dtype = DType::kBF16;           // weights (and activations' storage) after loading
  DType kv_dtype = DType::kBF16;        // KV cache
  bool calculate_kv_scales = false;     // --calculate-kv-scales: those of a checkpoint that has none, for an e4m3 cache
  std::int32_t k_scale_constant = 200, v_scale_constant = 100;  // their divisors (K_SCALE_CONSTANT, V_SCALE_CONSTANT)
  bool fp8_fnuz = false;                // e4m3 is FNUZ (QUIRE_FP8_FLAVOR)
  std::uint64_t seed = 0;
  std::int64_t kv_cache_bytes = 0;  // KV pool size on this device (from --kv-cache-memory-bytes or the CPU rule)
  std::optional<std::int32_t> num_blocks_override;  // --num-gpu-blocks-override; kv_cache_bytes then follows from it
  std::string attention_backend;  // a row of the attention table; "": the table's order decides
  std::int32_t num_threads = 0;  // CPU compute threads; >= 1
  SchedulerConfig scheduler;     // num_blocks: as many as kv_cache_bytes holds
  bool enforce_eager = false;
  GraphRequest graph;
  std::string cpu_isa = "auto";    // QUIRE_CPU_ISA: auto, or the widest instruction set that kernels may use
  std::int32_t max_logprobs = 20;  // -1: whole vocabulary
  std::int32_t max_queue = 4096;   // sequences waiting or running; one more is refused
  double request_timeout_seconds = 0;  // 0: none
};

// Text, sampling defaults and names.
struct ApiSettings {
  std::vector<std::string> served_names;          // first is echoed
  std::optional<std::string> chat_template_text;  // contents of --chat-template
  bool allow_control_tokens_in_content = false;
  std::string response_role = "assistant";
  bool return_tokens_as_token_ids = false;
  bool enable_prompt_tokens_details = false;
  bool enable_force_include_usage = false;
  bool enable_tokenizer_info = false;
  model::GenerationDefaults defaults;           // from generation_config.json, --generation-config, --override-generation-config
  std::int32_t max_prompts_per_request = 1024;  // list prompts x n in one body
  std::int32_t max_stop_strings = 64;
  std::int32_t max_n = 128;
};

struct HttpSettings {
  std::string host;           // empty: all interfaces
  std::uint16_t port = 8000;  // 0: any free port (printed)
  std::string uds;            // Unix socket path instead of host and port
  std::vector<std::string> api_keys;
  std::vector<std::string> cors_origins{"*"}, cors_methods{"*"}, cors_headers{"*"};
  bool cors_credentials = false;
  std::int64_t max_body_bytes = 32 << 20;
  std::int32_t max_connections = 4096;
  std::int32_t keep_alive_seconds = 5;
  std::int32_t header_timeout_seconds = 30;
  std::int32_t write_timeout_seconds = 120;    // a client that never reads
  std::int32_t heartbeat_seconds = 15;         // silence on a stream before a comment line
  std::int32_t shutdown_timeout_seconds = 30;  // drain bound after SIGTERM
  std::int32_t io_threads = 1;
  std::int32_t tokenizer_threads = 2;  // that read text; one more for everything else of requests
  bool access_log = true;
  bool request_id_headers = false;
  bool server_load_tracking = false;
  bool log_requests = false;
  bool log_stats = true;
  double log_stats_interval_seconds = 10;  // VLLM_LOG_STATS_INTERVAL
  std::string root_path;
};

struct ResolvedConfig {
  model::ModelSpec model;
  EngineSettings engine;
  ApiSettings api;
  HttpSettings http;
  std::vector<Adjustment> adjustments;
  std::vector<std::pair<std::string, std::string>> non_default_args;  // keys redacted
};

}  // namespace quire::config
