// The table of environment variables. A table, so longer than a source file may be.
#include "config/environment.h"

namespace quire::config {
namespace {

using K = ValueKind;
using F = EnvFate;

constexpr std::string_view kRocm = "it selects kernels of a ROCm device; elsewhere --attention-backend chooses";
constexpr std::string_view kCuda = "it concerns CUDA devices; this is a CPU";
constexpr std::string_view kPython = "there is no Python process here";
constexpr std::string_view kCollectives = "one rank has nothing to exchange";
constexpr std::string_view kUsage = "no usage statistics are ever collected";
constexpr std::string_view kCompiler = "kernels are compiled ahead of time";

// One row, one line.
// clang-format off
constexpr EnvRow kRows[] = {
    {.name = "QUIRE_LOG_LEVEL", .kind = K::kChoice, .fallback = "info", .allowed = "trace|debug|info|warning|error|critical|off", .text = "Log level"},
    {.name = "QUIRE_NUM_THREADS", .kind = K::kInt, .fallback = "all cores", .allowed = "1..1024", .text = "Compute threads; --num-threads wins"},
    {.name = "QUIRE_CPU_ISA", .kind = K::kChoice, .fallback = "auto", .allowed = "auto|scalar|sse2|ssse3|sse4|avx2|avx3|avx3_dl|avx3_zen4", .text = "Widest instruction set that kernels may use"},
    {.name = "QUIRE_FP8_FLAVOR", .kind = K::kChoice, .fallback = "ocp", .allowed = "ocp|fnuz", .text = "Encoding of e4m3 on a CPU; fnuz computes as an MI300 does, for tests"},
    {.name = "QUIRE_TEST_SEED", .text = "Seed of the unit tests' random numbers; the program does not read it", .fate = F::kDocumented},

    {.name = "VLLM_API_KEY", .text = "Key that clients must send; --api-key wins"},
    {.name = "OPENAI_API_KEY", .text = "Key that `quire chat --base-url` and `quire bench serve` send to the server"},
    {.name = "VLLM_ALLOW_LONG_MAX_MODEL_LEN", .kind = K::kBool, .fallback = "0", .text = "Allow --max-model-len above what the model was made for"},
    {.name = "VLLM_LOGGING_LEVEL", .kind = K::kChoice, .fallback = "INFO", .allowed = "DEBUG|INFO|WARNING|ERROR|CRITICAL", .text = "Log level; QUIRE_LOG_LEVEL wins"},
    {.name = "VLLM_LOG_STATS_INTERVAL", .kind = K::kFloat, .fallback = "10", .allowed = "0.1..86400", .text = "Seconds between lines of statistics"},
    {.name = "VLLM_HTTP_TIMEOUT_KEEP_ALIVE", .kind = K::kInt, .fallback = "5", .allowed = "1..86400", .text = "Seconds an idle connection stays open; --timeout-keep-alive wins"},
    {.name = "VLLM_CPU_KVCACHE_SPACE", .kind = K::kInt, .allowed = "0..1048576", .text = "KV pool in GiB; 0: the default rule; --kv-cache-memory-bytes wins"},

    {.name = "VLLM_ATTENTION_BACKEND", .text = "Attention backend, an explicit choice; --attention-backend wins"},
    {.name = "K_SCALE_CONSTANT", .kind = K::kInt, .fallback = "200", .allowed = "1..1000000", .text = "--calculate-kv-scales: the largest key divided by this is the scale of keys"},
    {.name = "V_SCALE_CONSTANT", .kind = K::kInt, .fallback = "100", .allowed = "1..1000000", .text = "--calculate-kv-scales: the largest value divided by this is the scale of values"},
    {.name = "Q_SCALE_CONSTANT", .text = "queries are never quantised here, so they have no scale", .fate = F::kReplaced},
    {.name = "VLLM_USE_V1", .text = "there is one engine", .fate = F::kReplaced},
    {.name = "VLLM_USE_V2_MODEL_RUNNER", .text = "there is one model runner", .fate = F::kReplaced},
    {.name = "VLLM_ROCM_USE_AITER", .text = kRocm, .fate = F::kReplaced},
    {.name = "VLLM_ROCM_USE_AITER_MHA", .text = kRocm, .fate = F::kReplaced},
    {.name = "VLLM_ROCM_USE_AITER_MLA", .text = kRocm, .fate = F::kReplaced},
    {.name = "VLLM_ROCM_USE_AITER_PAGED_ATTN", .text = kRocm, .fate = F::kReplaced},
    {.name = "VLLM_ROCM_USE_AITER_UNIFIED_ATTENTION", .text = kRocm, .fate = F::kReplaced},
    {.name = "VLLM_ROCM_SHUFFLE_KV_CACHE_LAYOUT", .text = kRocm, .fate = F::kReplaced},
    {.name = "VLLM_ROCM_USE_AITER_LINEAR", .text = kRocm, .fate = F::kReplaced},
    {.name = "VLLM_ROCM_USE_AITER_MOE", .text = kRocm, .fate = F::kReplaced},
    {.name = "VLLM_ROCM_USE_AITER_RMSNORM", .text = kRocm, .fate = F::kReplaced},
    {.name = "VLLM_ROCM_USE_AITER_FP8BMM", .text = kRocm, .fate = F::kReplaced},
    {.name = "VLLM_ROCM_USE_AITER_FP4BMM", .text = kRocm, .fate = F::kReplaced},
    {.name = "VLLM_ROCM_USE_AITER_TRITON_ROPE", .text = kRocm, .fate = F::kReplaced},
    {.name = "VLLM_ROCM_USE_AITER_TRITON_GEMM", .text = kRocm, .fate = F::kReplaced},
    {.name = "VLLM_ROCM_USE_AITER_FP4_ASM_GEMM", .text = kRocm, .fate = F::kReplaced},
    {.name = "VLLM_ROCM_USE_AITER_FUSION_SHARED_EXPERTS", .text = kRocm, .fate = F::kReplaced},
    {.name = "VLLM_ROCM_USE_SKINNY_GEMM", .text = kRocm, .fate = F::kReplaced},
    {.name = "VLLM_ROCM_FP8_PADDING", .text = kRocm, .fate = F::kReplaced},
    {.name = "VLLM_ROCM_MOE_PADDING", .text = kRocm, .fate = F::kReplaced},
    {.name = "VLLM_ROCM_CUSTOM_PAGED_ATTN", .text = kRocm, .fate = F::kReplaced},
    {.name = "VLLM_ROCM_FP8_MFMA_PAGE_ATTN", .text = kRocm, .fate = F::kReplaced},
    {.name = "VLLM_ROCM_QUICK_REDUCE_QUANTIZATION", .text = kCollectives, .fate = F::kReplaced},
    {.name = "VLLM_ROCM_QUICK_REDUCE_CAST_BF16_TO_FP16", .text = kCollectives, .fate = F::kReplaced},
    {.name = "VLLM_ROCM_QUICK_REDUCE_MAX_SIZE_BYTES_MB", .text = kCollectives, .fate = F::kReplaced},
    {.name = "VLLM_FLASH_ATTN_VERSION", .text = kCuda, .fate = F::kReplaced},
    {.name = "VLLM_USE_FLASHINFER_SAMPLER", .text = kCuda, .fate = F::kReplaced},
    {.name = "VLLM_USE_TRITON_FLASH_ATTN", .text = kRocm, .fate = F::kReplaced},
    {.name = "VLLM_KV_CACHE_LAYOUT", .text = "the layout belongs to the attention backend", .fate = F::kReplaced},
    {.name = "VLLM_BATCH_INVARIANT", .text = "results never depend on the batch here", .fate = F::kReplaced},
    {.name = "VLLM_DISABLE_COMPILE_CACHE", .text = kCompiler, .fate = F::kReplaced},
    {.name = "VLLM_USE_STANDALONE_COMPILE", .text = kCompiler, .fate = F::kReplaced},
    {.name = "VLLM_CPU_OMP_THREADS_BIND", .text = "replaced by --num-threads", .fate = F::kReplaced},
    {.name = "VLLM_CPU_NUM_OF_RESERVED_CPU", .text = "replaced by --num-threads", .fate = F::kReplaced},
    {.name = "VLLM_CPU_SGL_KERNEL", .text = "kernels are chosen by the instruction set", .fate = F::kReplaced},
    {.name = "VLLM_TARGET_DEVICE", .text = "replaced by --device", .fate = F::kReplaced},
    {.name = "VLLM_ENABLE_V1_MULTIPROCESSING", .text = "there is one process", .fate = F::kReplaced},
    {.name = "VLLM_WORKER_MULTIPROC_METHOD", .text = kPython, .fate = F::kReplaced},
    {.name = "VLLM_PLUGINS", .text = kPython, .fate = F::kReplaced},
    {.name = "VLLM_CONFIGURE_LOGGING", .text = "replaced by QUIRE_LOG_LEVEL", .fate = F::kReplaced},
    {.name = "VLLM_LOGGING_CONFIG_PATH", .text = "replaced by QUIRE_LOG_LEVEL", .fate = F::kReplaced},
    {.name = "VLLM_LOGGING_PREFIX", .text = "log lines have a fixed form", .fate = F::kReplaced},
    {.name = "VLLM_DEBUG_LOG_API_SERVER_RESPONSE", .text = "answers are not logged", .fate = F::kReplaced},
    {.name = "VLLM_SERVER_DEV_MODE", .text = "there are no development routes", .fate = F::kReplaced},
    {.name = "VLLM_KEEP_ALIVE_ON_ENGINE_DEATH", .text = "a failed step ends its requests, not the server", .fate = F::kReplaced},
    {.name = "VLLM_SLEEP_WHEN_IDLE", .text = "an idle engine always sleeps", .fate = F::kReplaced},
    {.name = "VLLM_ENGINE_ITERATION_TIMEOUT_S", .text = "replaced by --request-timeout", .fate = F::kReplaced},
    {.name = "VLLM_RPC_TIMEOUT", .text = "there is one process", .fate = F::kReplaced},
    {.name = "VLLM_CACHE_ROOT", .text = "nothing is cached on disk", .fate = F::kReplaced},
    {.name = "VLLM_CONFIG_ROOT", .text = "replaced by --config", .fate = F::kReplaced},
    {.name = "VLLM_ASSETS_CACHE", .text = "nothing is downloaded", .fate = F::kReplaced},
    {.name = "VLLM_USE_MODELSCOPE", .text = "nothing is downloaded", .fate = F::kReplaced},
    {.name = "VLLM_HOST_IP", .text = "replaced by --host", .fate = F::kReplaced},
    {.name = "VLLM_PORT", .text = "replaced by --port", .fate = F::kReplaced},
    {.name = "VLLM_NCCL_SO_PATH", .text = kCollectives, .fate = F::kReplaced},
    {.name = "VLLM_SKIP_P2P_CHECK", .text = kCollectives, .fate = F::kReplaced},
    {.name = "VLLM_TORCH_PROFILER_DIR", .text = kPython, .fate = F::kReplaced},
    {.name = "VLLM_NO_USAGE_STATS", .text = kUsage, .fate = F::kDocumented},
    {.name = "VLLM_DO_NOT_TRACK", .text = kUsage, .fate = F::kDocumented},
    {.name = "VLLM_USAGE_SOURCE", .text = kUsage, .fate = F::kDocumented},
    {.name = "VLLM_USAGE_STATS_SERVER", .text = kUsage, .fate = F::kDocumented},

    {.name = "HIP_VISIBLE_DEVICES", .text = "chooses ROCm devices; the model runs on the CPU", .fate = F::kIgnored},
    {.name = "ROCR_VISIBLE_DEVICES", .text = "chooses ROCm devices; the model runs on the CPU", .fate = F::kIgnored},
    {.name = "CUDA_VISIBLE_DEVICES", .text = "chooses CUDA devices; the model runs on the CPU", .fate = F::kIgnored},
    {.name = "HF_HOME", .fallback = "~/.cache/huggingface", .text = "Folder of the local Hugging Face cache, where hub ids are looked up", .fate = F::kDocumented},
    {.name = "HF_HUB_CACHE", .fallback = "HF_HOME/hub", .text = "Folder of the cached repositories; wins over HF_HOME", .fate = F::kDocumented},
    {.name = "HF_TOKEN", .text = "Not read: nothing is downloaded", .fate = F::kDocumented},
    {.name = "HF_HUB_OFFLINE", .text = "Not read: nothing is downloaded", .fate = F::kDocumented},
    {.name = "OMP_NUM_THREADS", .text = "Not read: QUIRE_NUM_THREADS or --num-threads", .fate = F::kDocumented},
};
// clang-format on

}  // namespace

std::span<const EnvRow> env_table() { return kRows; }

}  // namespace quire::config
