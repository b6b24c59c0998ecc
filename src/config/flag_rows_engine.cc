// Rows of the flag table: model, numerics, memory, scheduler, attention and graphs, sampling defaults. A table, so longer
// than a source file may be.
#include "config/flag_table.h"
#include "graph/buckets.h"

namespace quire::config {
namespace {

using K = ValueKind;
using G = FlagGroup;

// "low..high", so that a limit that other code declares is not typed again.
class RangeText {
 public:
  constexpr RangeText(std::int64_t low, std::int64_t high) {
    append(low);
    text_[size_++] = '.';
    text_[size_++] = '.';
    append(high);
  }
  [[nodiscard]] constexpr std::string_view view() const { return {text_, size_}; }

 private:
  constexpr void append(std::int64_t n) {  // n >= 0
    if (n >= 10) append(n / 10);
    text_[size_++] = static_cast<char>('0' + n % 10);
  }
  char text_[48] = {};
  std::size_t size_ = 0;
};
constexpr RangeText kCaptureSize(1, graph::kMaxCaptureSize), kLargestCaptureSize(0, graph::kMaxCaptureSize);

// One row, one line.
// clang-format off
constexpr FlagRow kRows[] = {
    // Model and checkpoint
    {.name = "model", .aliases = "--model-tag", .help = "Model folder or hub id in the local Hugging Face cache; better given as the first argument", .group = G::kModel, .benches = "serve"},
    {.name = "revision", .fallback = "main", .help = "Branch, tag or commit of a hub id", .group = G::kModel},
    {.name = "served-model-name", .kind = K::kTextList, .fallback = "MODEL as given", .help = "Names accepted in requests; the first is echoed", .group = G::kModel, .audience = Audience::kServe},
    {.name = "tokenizer", .fallback = "same as MODEL", .help = "Folder or hub id of the tokenizer", .group = G::kModel},
    {.name = "tokenizer-revision", .fallback = "main", .help = "Branch, tag or commit of the tokenizer's hub id", .group = G::kModel},
    {.name = "tokenizer-mode", .fallback = "auto", .allowed = "auto|hf|slow|mistral|custom", .neutral = "hf", .help = "Tokenizer implementation", .group = G::kModel, .fate = Fate::kNotBuilt, .fate_text = "a tokenizer other than the checkpoint's tokenizer.json"},
    {.name = "skip-tokenizer-init", .kind = K::kBool, .fallback = "false", .help = "Serve token ids only", .group = G::kModel, .fate = Fate::kNotBuilt, .fate_text = "serving without a tokenizer"},
    {.name = "trust-remote-code", .kind = K::kBool, .fallback = "false", .help = "Allow code from the model repository", .group = G::kModel, .fate = Fate::kNoEffect, .fate_text = "no remote code is ever run; models are built in"},
    {.name = "code-revision", .help = "Revision of model code", .group = G::kModel, .fate = Fate::kNoEffect, .fate_text = "no remote code is ever run"},
    {.name = "hf-token", .help = "Token for downloads", .group = G::kModel, .fate = Fate::kNoEffect, .fate_text = "nothing is downloaded; models are read from local files", .secret = true},
    {.name = "hf-config-path", .help = "Another folder for config.json", .group = G::kModel, .fate = Fate::kNotBuilt, .fate_text = "a config.json apart from the model folder"},
    {.name = "hf-overrides", .kind = K::kJson, .fallback = "{}", .help = "Changes to config.json", .group = G::kModel, .fate = Fate::kNotBuilt, .fate_text = "overriding config.json from the command line"},
    {.name = "rope-scaling", .kind = K::kJson, .fallback = "{}", .help = "RoPE scaling (older form)", .group = G::kModel, .fate = Fate::kNotBuilt, .fate_text = "overriding config.json from the command line (edit rope_parameters in config.json)"},
    {.name = "rope-theta", .kind = K::kFloat, .help = "RoPE base (older form)", .group = G::kModel, .fate = Fate::kNotBuilt, .fate_text = "overriding config.json from the command line (edit rope_parameters in config.json)"},
    {.name = "config-format", .fallback = "auto", .allowed = "auto|hf|mistral", .neutral = "hf", .help = "Format of the configuration file", .group = G::kModel, .fate = Fate::kNotBuilt, .fate_text = "configuration formats other than Hugging Face's"},
    {.name = "runner", .kind = K::kChoice, .fallback = "auto", .allowed = "auto|generate|pooling|draft", .unbuilt = "pooling|draft", .help = "What the model is run for", .group = G::kModel, .fate_text = "models for anything but generation"},
    {.name = "convert", .kind = K::kChoice, .fallback = "auto", .allowed = "auto|none|embed|classify|reward", .unbuilt = "embed|classify|reward", .help = "Model adapter", .group = G::kModel, .fate_text = "models for anything but generation"},
    {.name = "task", .kind = K::kChoice, .fallback = "auto", .allowed = "auto|generate|embedding|embed|classify|score|reward|transcription", .unbuilt = "embedding|embed|classify|score|reward|transcription", .help = "Older form of --runner and --convert", .group = G::kModel, .fate_text = "models for anything but generation"},
    {.name = "model-impl", .fallback = "auto", .allowed = "auto|vllm|transformers|terratorch", .neutral = "vllm", .help = "Model implementation", .group = G::kModel, .fate = Fate::kNotBuilt, .fate_text = "model implementations other than the built-in one"},
    {.name = "load-format", .kind = K::kChoice, .fallback = "auto", .allowed = "auto|safetensors|dummy|hf|pt|gguf|npcache|bitsandbytes|sharded_state|runai_streamer|runai_streamer_sharded|tensorizer|mistral|fastsafetensors",
     .unbuilt = "hf|pt|npcache|bitsandbytes|sharded_state|runai_streamer|runai_streamer_sharded|tensorizer|mistral|fastsafetensors", .help = "Weight files; auto: what MODEL is; dummy: deterministic random weights of the right shapes", .group = G::kModel, .fate_text = "this weight format"},
    {.name = "gguf-weights", .kind = K::kChoice, .fallback = "blocks", .allowed = "blocks|dequantised", .help = "Quantised matrices of a GGUF file: kept in their blocks and multiplied by int8 inputs, or made --dtype while loading (docs/GGUF.md)", .group = G::kModel},
    {.name = "download-dir", .help = "Folder for downloads", .group = G::kModel, .fate = Fate::kNoEffect, .fate_text = "nothing is downloaded; HF_HOME and HF_HUB_CACHE name the local cache"},
    {.name = "model-loader-extra-config", .kind = K::kJson, .fallback = "{}", .help = "Loader options", .group = G::kModel, .fate = Fate::kNoEffect, .fate_text = "the safetensors loader has no options"},
    {.name = "ignore-patterns", .kind = K::kTextList, .help = "Files not to load", .group = G::kModel, .fate = Fate::kNoEffect, .fate_text = "only the files that the safetensors index names are read"},
    {.name = "safetensors-load-strategy", .kind = K::kChoice, .fallback = "lazy", .allowed = "lazy|eager|prefetch|torchao", .help = "How weight files are read", .group = G::kModel, .fate = Fate::kNoEffect, .fate_text = "weight files are mapped and repacked once"},
    {.name = "use-tqdm-on-load", .kind = K::kBool, .fallback = "true", .help = "Progress bar while loading", .group = G::kModel, .fate = Fate::kNoEffect, .fate_text = "loading progress is logged; QUIRE_LOG_LEVEL=warning silences it"},
    {.name = "relaxed", .kind = K::kTextList, .allowed = "kv-scales|self-check|unused-tensors", .help = "Named refusals that become repeated warnings: kv-scales, self-check, unused-tensors", .group = G::kModel},

    // Numerics
    {.name = "dtype", .kind = K::kChoice, .fallback = "auto", .allowed = "auto|half|float16|bfloat16|float|float32", .help = "Weights and activations; auto: as the checkpoint says (bench attention: bfloat16)", .group = G::kNumerics, .benches = "attention"},
    {.name = "quantization", .aliases = "-q", .kind = K::kChoice, .fallback = "none",
     .allowed = "none|None|fp8|compressed-tensors|quark|modelopt|fbgemm_fp8|ptpc_fp8|awq|awq_marlin|gptq|gptq_marlin|gptq_bitblas|bitblas|marlin|bitsandbytes|gguf|hqq|torchao|inc|auto-round|rtn|mxfp4|modelopt_fp4|petit_nvfp4|experts_int8|moe_wna16|deepspeedfp|tpu_int8|ipex",
     .unbuilt = "awq|awq_marlin|gptq|gptq_marlin|gptq_bitblas|bitblas|marlin|bitsandbytes|hqq|torchao|inc|auto-round|rtn|mxfp4|modelopt_fp4|petit_nvfp4|experts_int8|moe_wna16|deepspeedfp|tpu_int8|ipex",
     .help = "Weight quantisation; none: the checkpoint's own; a method must be the checkpoint's; fp8 and ptpc_fp8 quantise other weights while loading (docs/QUANTIZATION.md)", .group = G::kNumerics, .fate_text = "this weight quantisation"},
    {.name = "kv-cache-dtype", .kind = K::kChoice, .fallback = "auto",
     .allowed = "auto|float16|bfloat16|float32|fp8|fp8_e4m3|fp8_e5m2|fp8_inc|fp8_ds_mla|int8_per_token_head|fp8_per_token_head|int4_per_token_head|int2_per_token_head|nvfp4|turboquant_k8v4|turboquant_4bit_nc|turboquant_k3v4_nc|turboquant_3bit_nc",
     .unbuilt = "fp8_inc|fp8_ds_mla|int8_per_token_head|fp8_per_token_head|int4_per_token_head|int2_per_token_head|nvfp4|turboquant_k8v4|turboquant_4bit_nc|turboquant_k3v4_nc|turboquant_3bit_nc",
     .help = "KV cache; auto: the FP8 scheme that the checkpoint declares, else the model's type; fp8: e4m3 in the device's encoding", .group = G::kNumerics, .fate_text = "this KV cache format", .benches = "attention"},
    {.name = "kv-cache-dtype-skip-layers", .kind = K::kTextList, .help = "Layers whose KV cache stays in 16 bit", .group = G::kNumerics, .fate = Fate::kNotBuilt, .fate_text = "a KV cache of several types"},
    {.name = "calculate-kv-scales", .kind = K::kBool, .fallback = "false", .help = "Scales of an e4m3 KV cache whose checkpoint has none: calculated at start on a built-in text", .group = G::kNumerics},
    {.name = "seed", .kind = K::kInt, .fallback = "0", .allowed = "0..9223372036854775807", .help = "Seed of dummy weights and of requests without their own (run: seed of the request)", .group = G::kNumerics, .benches = "serve"},

    // Memory
    {.name = "max-model-len", .kind = K::kInt, .fallback = "from the model", .allowed = "2..1073741824", .words = "auto|-1", .help = "Longest prompt plus output in tokens; auto or -1: what fits the KV pool", .group = G::kMemory},
    {.name = "block-size", .kind = K::kInt, .fallback = "16", .allowed = "16..1024", .help = "Tokens per KV block, a multiple of 16", .group = G::kMemory, .benches = "attention"},
    {.name = "kv-cache-memory-bytes", .kind = K::kInt, .fallback = "free memory / 4, at most 4 GiB", .allowed = "1..", .help = "Size of the KV pool, e.g. 2G", .group = G::kMemory},
    {.name = "num-gpu-blocks-override", .kind = K::kInt, .allowed = "1..2147483647", .help = "Number of KV blocks, whatever the memory rule says", .group = G::kMemory},
    {.name = "gpu-memory-utilization", .kind = K::kFloat, .fallback = "0.92", .allowed = "0..1", .help = "Share of device memory to use", .group = G::kMemory, .fate = Fate::kNoEffect, .fate_text = "a CPU has no device memory to share; use --kv-cache-memory-bytes"},
    {.name = "swap-space", .kind = K::kFloat, .fallback = "0", .allowed = "0..", .help = "GiB for swapped blocks", .group = G::kMemory, .fate = Fate::kNoEffect, .fate_text = "preempted requests are recomputed, never swapped; --kv-cache-memory-bytes makes preemption rarer"},
    {.name = "cpu-offload-gb", .kind = K::kFloat, .fallback = "0", .allowed = "0..", .neutral = "0.0", .help = "GiB of weights kept in host memory", .group = G::kMemory, .fate = Fate::kNotBuilt, .fate_text = "weight offloading"},
    {.name = "kv-offloading-size", .kind = K::kFloat, .fallback = "0", .allowed = "0..", .neutral = "0.0", .help = "GiB of host memory for evicted KV blocks", .group = G::kMemory, .fate = Fate::kNotBuilt, .fate_text = "KV offloading"},
    {.name = "kv-offloading-backend", .kind = K::kChoice, .fallback = "native", .allowed = "native|lmcache", .unbuilt = "lmcache", .help = "Who offloads", .group = G::kMemory, .fate_text = "KV offloading"},
    {.name = "enable-prefix-caching", .kind = K::kBool, .fallback = "true", .help = "Share KV blocks of equal prompt prefixes", .group = G::kMemory},
    {.name = "prefix-caching-hash-algo", .kind = K::kChoice, .fallback = "sha256", .allowed = "builtin|sha256|sha256_cbor|sha256_cbor_64bit|xxhash|xxhash_cbor", .help = "Hash of prefix blocks", .group = G::kMemory, .fate = Fate::kNoEffect, .fate_text = "a prefix hit is confirmed by comparing tokens, so no hash can be wrong"},
    {.name = "enable-sleep-mode", .kind = K::kBool, .fallback = "false", .help = "Free device memory on demand", .group = G::kMemory, .fate = Fate::kNotBuilt, .fate_text = "sleep mode"},
    {.name = "disable-hybrid-kv-cache-manager", .kind = K::kBool, .fallback = "false", .help = "One KV group for all layers", .group = G::kMemory, .fate = Fate::kNoEffect, .fate_text = "there is one KV group for all layers already"},

    // Scheduler
    {.name = "max-num-batched-tokens", .kind = K::kInt, .fallback = "2048", .allowed = "1..16777216", .help = "Token budget of one step", .group = G::kScheduler},
    {.name = "max-num-seqs", .kind = K::kInt, .fallback = "256", .allowed = "1..65536", .help = "Sequences in one step", .group = G::kScheduler},
    {.name = "enable-chunked-prefill", .kind = K::kBool, .fallback = "true", .help = "Split long prompts over several steps", .group = G::kScheduler},
    {.name = "long-prefill-token-threshold", .kind = K::kInt, .fallback = "0", .allowed = "0..16777216", .help = "Longest prompt part in one step; 0: the token budget", .group = G::kScheduler},
    {.name = "max-num-partial-prefills", .kind = K::kInt, .fallback = "1", .allowed = "1..", .help = "Prompts in parts at the same time", .group = G::kScheduler, .fate = Fate::kNotBuilt, .fate_text = "a limit on concurrent partial prefills"},
    {.name = "max-long-partial-prefills", .kind = K::kInt, .fallback = "1", .allowed = "1..", .help = "Long prompts in parts at the same time", .group = G::kScheduler, .fate = Fate::kNotBuilt, .fate_text = "a limit on concurrent partial prefills"},
    {.name = "scheduling-policy", .kind = K::kChoice, .fallback = "fcfs", .allowed = "fcfs|priority", .help = "fcfs: by arrival; priority: lower value first, then arrival", .group = G::kScheduler},
    {.name = "async-scheduling", .kind = K::kBool, .fallback = "false", .help = "Two steps in flight", .group = G::kScheduler},
    {.name = "stream-interval", .kind = K::kInt, .fallback = "1", .allowed = "1..", .help = "Tokens between streamed chunks", .group = G::kScheduler, .fate = Fate::kNotBuilt, .fate_text = "streaming in groups of tokens", .audience = Audience::kServe},
    {.name = "scheduler-cls", .help = "Scheduler class", .group = G::kScheduler, .fate = Fate::kNotBuilt, .fate_text = "scheduler plug-ins"},
    {.name = "scheduler-reserve-full-isl", .kind = K::kBool, .fallback = "true", .help = "Admit only when the whole input fits", .group = G::kScheduler, .fate = Fate::kNoEffect, .fate_text = "admission checks at start that one longest request fits the pool"},
    {.name = "num-scheduler-steps", .kind = K::kInt, .fallback = "1", .allowed = "1..", .help = "Steps per scheduling round (older form)", .group = G::kScheduler, .fate = Fate::kNoEffect, .fate_text = "use --async-scheduling"},
    {.name = "preemption-mode", .help = "swap or recompute (older form)", .group = G::kScheduler, .fate = Fate::kNoEffect, .fate_text = "preempted requests are always recomputed"},
    {.name = "num-lookahead-slots", .kind = K::kInt, .fallback = "0", .allowed = "0..", .help = "Slots for drafts (older form)", .group = G::kScheduler, .fate = Fate::kNoEffect, .fate_text = "slots follow from the request"},
    {.name = "max-decode-gap-ms", .kind = K::kFloat, .fallback = "0", .allowed = "0..", .neutral = "0.0", .help = "Bound on the pause between tokens of running streams", .group = G::kScheduler, .fate = Fate::kNotBuilt, .fate_text = "a bounded decode gap"},
    {.name = "max-queue", .kind = K::kInt, .fallback = "4096", .allowed = "1..1048576", .help = "Sequences (prompts times n) that may wait or run at once; more are refused with 429, a request with more than all of them with 400", .group = G::kScheduler, .audience = Audience::kServe},
    {.name = "request-timeout", .kind = K::kFloat, .fallback = "0", .allowed = "0..31536000", .help = "Seconds until a request is ended; 0: never", .group = G::kScheduler, .audience = Audience::kServe},
    {.name = "performance-mode", .kind = K::kChoice, .fallback = "balanced", .allowed = "balanced|interactivity|throughput", .help = "Preset of scheduler and graph sizes", .group = G::kScheduler, .fate = Fate::kNoEffect, .fate_text = "use --max-num-batched-tokens and --max-num-seqs"},

    // Attention, compilation and graphs
    {.name = "attention-backend", .fallback = "auto", .help = "A row of docs/CAPABILITIES.md; an explicit choice is never replaced", .group = G::kAttention},
    {.name = "attention-config", .aliases = "-ac", .kind = K::kJson, .fallback = "{}", .help = "JSON form: {\"backend\": NAME}", .group = G::kAttention},
    {.name = "disable-sliding-window", .kind = K::kBool, .fallback = "false", .help = "Ignore sliding windows", .group = G::kAttention, .fate = Fate::kNotBuilt, .fate_text = "sliding-window attention"},
    {.name = "disable-cascade-attn", .kind = K::kBool, .fallback = "true", .help = "No shared-prefix attention", .group = G::kAttention, .fate = Fate::kNoEffect, .fate_text = "there is no cascade attention"},
    {.name = "enforce-eager", .kind = K::kBool, .fallback = "false", .help = "No graphs", .group = G::kAttention},
    {.name = "compilation-config", .aliases = "-cc", .kind = K::kJson, .fallback = "{}", .help = "Graph settings: cudagraph_mode, cudagraph_capture_sizes, ...; -O takes the same and a level", .group = G::kAttention},
    {.name = "optimization-level", .kind = K::kInt, .fallback = "2", .allowed = "0..3", .help = "0: no graphs; same as -O0 to -O3", .group = G::kAttention},
    {.name = "cudagraph-capture-sizes", .aliases = "--cuda-graph-sizes", .kind = K::kIntList, .fallback = "derived", .allowed = kCaptureSize.view(), .help = "Batch sizes with a graph", .group = G::kAttention},
    {.name = "max-cudagraph-capture-size", .kind = K::kInt, .fallback = "derived", .allowed = kLargestCaptureSize.view(), .help = "Largest batch with a graph", .group = G::kAttention},
    {.name = "max-seq-len-to-capture", .aliases = "--max-context-len-to-capture", .kind = K::kInt, .fallback = "8192", .allowed = "1..", .help = "Longest context with a graph (older form)", .group = G::kAttention, .fate = Fate::kNoEffect, .fate_text = "graphs never depend on the context length; sizes are --cudagraph-capture-sizes"},
    {.name = "use-v2-block-manager", .kind = K::kBool, .fallback = "true", .help = "Block manager (older form)", .group = G::kAttention, .fate = Fate::kNoEffect, .fate_text = "there is one block pool"},

    // Sampling defaults
    {.name = "generation-config", .fallback = "auto", .help = "Sampling defaults: auto: the model folder's generation_config.json; vllm: none; or a folder", .group = G::kSampling},
    {.name = "override-generation-config", .kind = K::kJson, .fallback = "{}", .help = "Sampling defaults that win, e.g. {\"temperature\": 0.5}", .group = G::kSampling},
    {.name = "max-logprobs", .kind = K::kInt, .fallback = "20", .allowed = "-1..1048576", .help = "Most log-probabilities per token; -1: the whole vocabulary", .group = G::kSampling},
    {.name = "logprobs-mode", .kind = K::kChoice, .fallback = "raw_logprobs", .allowed = "raw_logprobs|raw_logits|processed_logprobs|processed_logits", .unbuilt = "raw_logits|processed_logprobs|processed_logits", .help = "What log-probabilities are taken from", .group = G::kSampling, .fate_text = "this kind of log-probabilities"},
    {.name = "logits-processors", .kind = K::kTextList, .help = "Custom logits processors", .group = G::kSampling, .fate = Fate::kNotBuilt, .fate_text = "custom logits processors"},
    {.name = "logits-processor-pattern", .help = "Allowed logits processors", .group = G::kSampling, .fate = Fate::kNotBuilt, .fate_text = "custom logits processors"},
    {.name = "enable-prompt-embeds", .kind = K::kBool, .fallback = "false", .help = "Prompts as embeddings", .group = G::kSampling, .fate = Fate::kNotBuilt, .fate_text = "prompts as embeddings"},
};
// clang-format on

}  // namespace

std::span<const FlagRow> engine_flag_rows() { return kRows; }

}  // namespace quire::config
