// Rows of the flag table: parallelism, and features that later work brings (drafts, adapters, several machines). A table.
#include "config/flag_table.h"

namespace quire::config {
namespace {

using K = ValueKind;
using G = FlagGroup;

constexpr std::string_view kRanks = "more than one rank";
constexpr std::string_view kReplicas = "data parallelism (run replicas behind a load balancer)";
constexpr std::string_view kMultimodal = "multimodal input";
constexpr std::string_view kLora = "LoRA adapters";

// One row, one line.
// clang-format off
constexpr FlagRow kRows[] = {
    {.name = "num-threads", .aliases = "--threads", .kind = K::kInt, .fallback = "all cores", .allowed = "1..1024", .help = "Compute threads; QUIRE_NUM_THREADS is the same", .group = G::kParallel, .benches = "attention"},
    {.name = "tensor-parallel-size", .aliases = "-tp", .kind = K::kInt, .fallback = "1", .allowed = "1..4096", .help = "Ranks that share each layer", .group = G::kParallel, .fate = Fate::kNotBuilt, .fate_text = kRanks},
    {.name = "pipeline-parallel-size", .aliases = "-pp", .kind = K::kInt, .fallback = "1", .allowed = "1..4096", .help = "Ranks that share the layers in turn", .group = G::kParallel, .fate = Fate::kNotBuilt, .fate_text = kRanks},
    {.name = "data-parallel-size", .aliases = "-dp", .kind = K::kInt, .fallback = "1", .allowed = "1..4096", .help = "Replicas", .group = G::kParallel, .fate = Fate::kNotBuilt, .fate_text = kReplicas},
    {.name = "data-parallel-size-local", .aliases = "-dpl", .kind = K::kInt, .fallback = "1", .allowed = "0..4096", .help = "Replicas on this machine", .group = G::kParallel, .fate = Fate::kNotBuilt, .fate_text = kReplicas},
    {.name = "data-parallel-rank", .aliases = "-dpn", .kind = K::kInt, .fallback = "0", .allowed = "0..4095", .help = "This replica", .group = G::kParallel, .fate = Fate::kNotBuilt, .fate_text = kReplicas},
    {.name = "data-parallel-start-rank", .aliases = "-dpr", .kind = K::kInt, .fallback = "0", .allowed = "0..4095", .help = "First replica here", .group = G::kParallel, .fate = Fate::kNotBuilt, .fate_text = kReplicas},
    {.name = "data-parallel-address", .aliases = "-dpa", .help = "Address of the first replica", .group = G::kParallel, .fate = Fate::kNotBuilt, .fate_text = kReplicas},
    {.name = "data-parallel-rpc-port", .aliases = "-dpp", .kind = K::kInt, .fallback = "29550", .allowed = "0..65535", .help = "Port of the first replica", .group = G::kParallel, .fate = Fate::kNotBuilt, .fate_text = kReplicas},
    {.name = "data-parallel-backend", .aliases = "-dpb", .kind = K::kChoice, .fallback = "mp", .allowed = "mp|ray", .unbuilt = "ray", .help = "Who starts replicas", .group = G::kParallel, .fate_text = kReplicas},
    {.name = "data-parallel-hybrid-lb", .aliases = "-dph", .kind = K::kBool, .fallback = "false", .help = "Balance within a machine", .group = G::kParallel, .fate = Fate::kNotBuilt, .fate_text = kReplicas},
    {.name = "data-parallel-external-lb", .aliases = "-dpe", .kind = K::kBool, .fallback = "false", .help = "Balance outside", .group = G::kParallel, .fate = Fate::kNotBuilt, .fate_text = kReplicas},
    {.name = "decode-context-parallel-size", .aliases = "-dcp", .kind = K::kInt, .fallback = "1", .allowed = "1..4096", .help = "Ranks that share a context in decode", .group = G::kParallel, .fate = Fate::kNotBuilt, .fate_text = kRanks},
    {.name = "prefill-context-parallel-size", .aliases = "-pcp", .kind = K::kInt, .fallback = "1", .allowed = "1..4096", .help = "Ranks that share a context in prefill", .group = G::kParallel, .fate = Fate::kNotBuilt, .fate_text = kRanks},
    {.name = "enable-expert-parallel", .aliases = "-ep", .kind = K::kBool, .fallback = "false", .help = "Experts over ranks", .group = G::kParallel, .fate = Fate::kNotBuilt, .fate_text = "mixture-of-experts models"},
    {.name = "enable-eplb", .kind = K::kBool, .fallback = "false", .help = "Balance experts", .group = G::kParallel, .fate = Fate::kNotBuilt, .fate_text = "mixture-of-experts models"},
    {.name = "eplb-config", .kind = K::kJson, .fallback = "{}", .help = "Balancer of experts", .group = G::kParallel, .fate = Fate::kNotBuilt, .fate_text = "mixture-of-experts models"},
    {.name = "all2all-backend", .help = "Exchange between experts", .group = G::kParallel, .fate = Fate::kNotBuilt, .fate_text = "mixture-of-experts models"},
    {.name = "nnodes", .kind = K::kInt, .fallback = "1", .allowed = "1..4096", .help = "Machines", .group = G::kParallel, .fate = Fate::kNotBuilt, .fate_text = kRanks},
    {.name = "node-rank", .kind = K::kInt, .fallback = "0", .allowed = "0..4095", .help = "This machine", .group = G::kParallel, .fate = Fate::kNotBuilt, .fate_text = kRanks},
    {.name = "master-addr", .fallback = "127.0.0.1", .help = "Address of machine 0", .group = G::kParallel, .fate = Fate::kNoEffect, .fate_text = "there is one machine"},
    {.name = "master-port", .kind = K::kInt, .fallback = "29501", .allowed = "0..65535", .help = "Port of machine 0", .group = G::kParallel, .fate = Fate::kNoEffect, .fate_text = "there is one machine"},
    {.name = "distributed-executor-backend", .kind = K::kChoice, .fallback = "uni", .allowed = "uni|mp|ray|external_launcher", .unbuilt = "ray|external_launcher", .help = "Who starts ranks", .group = G::kParallel, .fate_text = kRanks},
    {.name = "disable-custom-all-reduce", .kind = K::kBool, .fallback = "false", .help = "Library collectives only", .group = G::kParallel, .fate = Fate::kNoEffect, .fate_text = "one rank has nothing to reduce"},
    {.name = "max-parallel-loading-workers", .kind = K::kInt, .allowed = "1..", .help = "Loading processes", .group = G::kParallel, .fate = Fate::kNoEffect, .fate_text = "weights are loaded by the compute threads (--num-threads)"},
    {.name = "worker-cls", .fallback = "auto", .help = "Worker class", .group = G::kParallel, .fate = Fate::kNotBuilt, .fate_text = "worker plug-ins"},
    {.name = "worker-extension-cls", .help = "Worker extension", .group = G::kParallel, .fate = Fate::kNotBuilt, .fate_text = "worker plug-ins"},
    {.name = "device", .kind = K::kChoice, .fallback = "auto", .allowed = "auto|cpu|cuda|hip|rocm", .unbuilt = "cuda|hip|rocm", .help = "Where the model runs", .group = G::kParallel, .fate_text = "this device"},

    {.name = "speculative-config", .aliases = "-sc", .kind = K::kJson, .fallback = "{}", .help = "Draft tokens", .group = G::kExtensions, .fate = Fate::kNotBuilt, .fate_text = "speculative decoding"},
    {.name = "kv-transfer-config", .kind = K::kJson, .fallback = "{}", .help = "KV transfer between servers", .group = G::kExtensions, .fate = Fate::kNotBuilt, .fate_text = "KV transfer"},
    {.name = "kv-events-config", .kind = K::kJson, .fallback = "{}", .help = "KV events", .group = G::kExtensions, .fate = Fate::kNotBuilt, .fate_text = "KV events"},
    {.name = "ec-transfer-config", .kind = K::kJson, .fallback = "{}", .help = "Encoder cache transfer", .group = G::kExtensions, .fate = Fate::kNotBuilt, .fate_text = "encoder cache transfer"},
    {.name = "structured-outputs-config", .kind = K::kJson, .fallback = "{}", .help = "Structured outputs", .group = G::kExtensions, .fate = Fate::kNotBuilt, .fate_text = "structured outputs"},
    {.name = "guided-decoding-backend", .fallback = "auto", .help = "Structured outputs (older form)", .group = G::kExtensions, .fate = Fate::kNoEffect, .fate_text = "there is one grammar engine; replaced by --structured-outputs-config"},
    {.name = "guided-decoding-disable-fallback", .kind = K::kBool, .fallback = "false", .help = "Older form", .group = G::kExtensions, .fate = Fate::kNoEffect, .fate_text = "there is one grammar engine; replaced by --structured-outputs-config"},
    {.name = "guided-decoding-disable-any-whitespace", .kind = K::kBool, .fallback = "false", .help = "Older form", .group = G::kExtensions, .fate = Fate::kNoEffect, .fate_text = "replaced by --structured-outputs-config"},
    {.name = "guided-decoding-disable-additional-properties", .kind = K::kBool, .fallback = "false", .help = "Older form", .group = G::kExtensions, .fate = Fate::kNoEffect, .fate_text = "replaced by --structured-outputs-config"},
    {.name = "reasoning-parser", .help = "Split off reasoning text", .group = G::kExtensions, .fate = Fate::kNotBuilt, .fate_text = "reasoning parsers"},
    {.name = "reasoning-parser-plugin", .help = "Reasoning parser from a file", .group = G::kExtensions, .fate = Fate::kNotBuilt, .fate_text = "reasoning parsers"},
    {.name = "enable-lora", .kind = K::kBool, .fallback = "false", .help = "Adapters", .group = G::kExtensions, .fate = Fate::kNotBuilt, .fate_text = kLora},
    {.name = "max-loras", .kind = K::kInt, .fallback = "1", .allowed = "1..", .help = "Adapters in one step", .group = G::kExtensions, .fate = Fate::kNotBuilt, .fate_text = kLora},
    {.name = "max-lora-rank", .kind = K::kInt, .fallback = "16", .allowed = "1..", .help = "Largest rank", .group = G::kExtensions, .fate = Fate::kNotBuilt, .fate_text = kLora},
    {.name = "max-cpu-loras", .kind = K::kInt, .allowed = "1..", .help = "Adapters in host memory", .group = G::kExtensions, .fate = Fate::kNotBuilt, .fate_text = kLora},
    {.name = "lora-dtype", .fallback = "auto", .help = "Type of adapters", .group = G::kExtensions, .fate = Fate::kNotBuilt, .fate_text = kLora},
    {.name = "lora-modules", .kind = K::kTextList, .help = "Adapters by name", .group = G::kExtensions, .fate = Fate::kNotBuilt, .fate_text = kLora},
    {.name = "fully-sharded-loras", .kind = K::kBool, .fallback = "false", .help = "Adapters over ranks", .group = G::kExtensions, .fate = Fate::kNotBuilt, .fate_text = kLora},
    {.name = "enable-prompt-adapter", .kind = K::kBool, .fallback = "false", .help = "Prompt adapters (older form)", .group = G::kExtensions, .fate = Fate::kNotBuilt, .fate_text = "prompt adapters"},
    {.name = "limit-mm-per-prompt", .kind = K::kJson, .fallback = "{}", .help = "Multimodal items per prompt", .group = G::kExtensions, .fate = Fate::kNotBuilt, .fate_text = kMultimodal},
    {.name = "mm-processor-kwargs", .kind = K::kJson, .fallback = "{}", .help = "Multimodal processor", .group = G::kExtensions, .fate = Fate::kNotBuilt, .fate_text = kMultimodal},
    {.name = "mm-processor-cache-gb", .kind = K::kFloat, .fallback = "4", .allowed = "0..", .help = "Multimodal cache", .group = G::kExtensions, .fate = Fate::kNoEffect, .fate_text = "there is no multimodal input"},
    {.name = "disable-mm-preprocessor-cache", .kind = K::kBool, .fallback = "false", .help = "Multimodal cache (older form)", .group = G::kExtensions, .fate = Fate::kNoEffect, .fate_text = "there is no multimodal input"},
    {.name = "skip-mm-profiling", .kind = K::kBool, .fallback = "false", .help = "Multimodal profiling", .group = G::kExtensions, .fate = Fate::kNoEffect, .fate_text = "there is no multimodal input"},
    {.name = "media-io-kwargs", .kind = K::kJson, .fallback = "{}", .help = "Multimodal loading", .group = G::kExtensions, .fate = Fate::kNotBuilt, .fate_text = kMultimodal},
    {.name = "language-model-only", .kind = K::kBool, .fallback = "false", .help = "Text only", .group = G::kExtensions, .fate = Fate::kNoEffect, .fate_text = "only text is served"},
    {.name = "pooler-config", .aliases = "--override-pooler-config", .kind = K::kJson, .fallback = "{}", .help = "Pooling models", .group = G::kExtensions, .fate = Fate::kNotBuilt, .fate_text = "pooling models"},
    {.name = "additional-config", .kind = K::kJson, .fallback = "{}", .help = "Platform options", .group = G::kExtensions, .fate = Fate::kNoEffect, .fate_text = "this platform has no further options"},
};
// clang-format on

}  // namespace

std::span<const FlagRow> parallel_flag_rows() { return kRows; }

}  // namespace quire::config
