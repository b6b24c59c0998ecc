// Rows of the flag table: `quire quantize`. A table.
#include "config/flag_table.h"

namespace quire::config {
namespace {

using K = ValueKind;
using G = FlagGroup;

// One row, one line.
// clang-format off
constexpr FlagRow kRows[] = {
    {.name = "format", .kind = K::kChoice, .allowed = "fp8|fp8-dynamic|fp8-block|compressed-tensors|quark|modelopt", .help = "Form of the checkpoint that is written; docs/QUANTIZE.md says what each holds", .group = G::kQuantize, .audience = Audience::kQuantize},
    {.name = "output", .help = "Folder of the new checkpoint; an unfinished one is gone on with", .group = G::kQuantize, .audience = Audience::kQuantize},
    {.name = "calibration", .help = "UTF-8 text to run the 16-bit model over; without it a built-in one", .group = G::kQuantize, .audience = Audience::kQuantize},
    {.name = "kv", .kind = K::kChoice, .fallback = "tensor", .allowed = "none|tensor|head", .help = "KV scales to write: one for a layer's keys and one for its values, one for each KV head, or none", .group = G::kQuantize, .audience = Audience::kQuantize},
    {.name = "max-shard-size", .kind = K::kInt, .allowed = "1..", .help = "Bytes of tensors in one file at most, e.g. 5G; without it the files are cut as the source's", .group = G::kQuantize, .audience = Audience::kQuantize},
    {.name = "overwrite", .kind = K::kBool, .fallback = "false", .help = "Replace the checkpoint that --output holds, whole or unfinished", .group = G::kQuantize, .audience = Audience::kQuantize},
};
// clang-format on

}  // namespace

std::span<const FlagRow> quantize_flag_rows() { return kRows; }

}  // namespace quire::config
