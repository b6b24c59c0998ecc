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
    {.name = "plot", .help = "Write a bar chart of the results to this file (SVG)", .group = G::kBench, .audience = Audience::kEval, .benches = "attention"},
};
// clang-format on

}  // namespace

std::span<const FlagRow> bench_flag_rows() { return kRows; }

}  // namespace quire::config
