// Rows of the flag table: `quire bench`. A table.
#include "config/flag_table.h"

namespace quire::config {
namespace {

using K = ValueKind;
using G = FlagGroup;

// One row, one line.
// clang-format off
constexpr FlagRow kRows[] = {
    {.name = "shapes", .kind = K::kTextList, .help = "What to measure, by name, e.g. decode-d128-16x8k; other sizes than the table's are labelled", .group = G::kBench, .audience = Audience::kBench, .benches = "attention", .accumulates = true},
    {.name = "filter", .help = "Measure the table's shapes whose names hold this text", .group = G::kBench, .audience = Audience::kBench, .benches = "attention"},
    {.name = "backend", .fallback = "all", .help = "Attention backend of this device, or all", .group = G::kBench, .audience = Audience::kBench, .benches = "attention"},
    {.name = "min-time", .kind = K::kFloat, .fallback = "0.5", .allowed = "0..3600", .help = "Seconds to measure at least", .group = G::kBench, .audience = Audience::kBench, .benches = "attention"},
    {.name = "time-limit", .kind = K::kFloat, .fallback = "60", .allowed = "0.001..86400", .help = "Seconds that one measurement may take; what would take longer is skipped and said", .group = G::kBench, .audience = Audience::kBench, .benches = "attention"},
    {.name = "plot", .help = "Write a bar chart of the results to this file (SVG)", .group = G::kBench, .audience = Audience::kEval, .benches = "attention|serve|latency|throughput"},

    // A server under load; latency and throughput run the engine in this process
    {.name = "endpoint", .kind = K::kChoice, .fallback = "completions", .allowed = "completions|chat|/v1/completions|/v1/chat/completions", .help = "What to call", .group = G::kBench, .audience = Audience::kBench, .benches = "serve"},
    {.name = "num-prompts", .kind = K::kInt, .fallback = "1000", .allowed = "1..10000000", .help = "Requests; with --turns: conversations", .group = G::kBench, .audience = Audience::kBench, .benches = "serve|throughput"},
    {.name = "request-rate", .kind = K::kFloat, .fallback = "inf", .allowed = "0.000001..1000000", .words = "inf", .help = "Requests that arrive in a second, on average; inf: all at once", .group = G::kBench, .audience = Audience::kBench, .benches = "serve"},
    {.name = "burstiness", .kind = K::kFloat, .fallback = "1.0", .allowed = "0.001..1000000", .help = "Shape of the gaps between arrivals (gamma distribution): 1 is a Poisson process, less comes in bursts, more is even", .group = G::kBench, .audience = Audience::kBench, .benches = "serve"},
    {.name = "max-concurrency", .kind = K::kInt, .fallback = "no limit", .allowed = "1..1000000", .help = "Requests (conversations) at a time; what is due meanwhile waits and the delay is shown", .group = G::kBench, .audience = Audience::kBench, .benches = "serve"},
    {.name = "input-len", .aliases = "--random-input-len", .kind = K::kInt, .fallback = "1024; latency: 32", .allowed = "1..10000000", .help = "Tokens of a prompt", .group = G::kBench, .audience = Audience::kBench, .benches = "serve|latency|throughput"},
    {.name = "output-len", .aliases = "--random-output-len", .kind = K::kInt, .fallback = "128", .allowed = "1..10000000", .help = "Tokens of an answer at most; exactly with --ignore-eos, and always in latency and throughput", .group = G::kBench, .audience = Audience::kBench, .benches = "serve|latency|throughput"},
    {.name = "random-range-ratio", .kind = K::kFloat, .fallback = "0.0", .allowed = "0..0.999", .help = "Lengths are drawn evenly from LEN * (1 - r) to LEN * (1 + r)", .group = G::kBench, .audience = Audience::kBench, .benches = "serve|throughput"},
    {.name = "prefix-len", .aliases = "--random-prefix-len", .kind = K::kInt, .fallback = "0", .allowed = "0..10000000", .help = "Tokens before each prompt that all have in common", .group = G::kBench, .audience = Audience::kBench, .benches = "serve|throughput"},
    {.name = "turns", .kind = K::kInt, .fallback = "1", .allowed = "1..10000", .help = "Turns of a conversation, each with the answers before it", .group = G::kBench, .audience = Audience::kBench, .benches = "serve"},
    {.name = "dataset", .aliases = "--dataset-path", .help = "File of prompts instead of random words: lines of JSON with \"prompt\" and, if wanted, \"output_tokens\"", .group = G::kBench, .audience = Audience::kBench, .benches = "serve"},
    {.name = "ignore-eos", .kind = K::kBool, .fallback = "false", .help = "Ask for answers of full length (a field that vLLM, llama.cpp and Quire know)", .group = G::kBench, .audience = Audience::kBench, .benches = "serve"},
    {.name = "percentiles", .aliases = "--metric-percentiles", .fallback = "50,90,99", .help = "Percentiles to show, separated by commas", .group = G::kBench, .audience = Audience::kBench, .benches = "serve|latency|throughput"},
    {.name = "batch-size", .kind = K::kInt, .fallback = "8", .allowed = "1..1000000", .help = "Requests at a time", .group = G::kBench, .audience = Audience::kBench, .benches = "latency"},
    {.name = "num-iters-warmup", .kind = K::kInt, .fallback = "10", .allowed = "0..1000000", .help = "Batches before measuring", .group = G::kBench, .audience = Audience::kBench, .benches = "latency"},
    {.name = "num-iters", .kind = K::kInt, .fallback = "30", .allowed = "1..1000000", .help = "Batches to measure", .group = G::kBench, .audience = Audience::kBench, .benches = "latency"},
};
// clang-format on

}  // namespace

std::span<const FlagRow> bench_flag_rows() { return kRows; }

}  // namespace quire::config
