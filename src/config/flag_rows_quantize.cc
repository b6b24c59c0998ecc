// Rows of the flag table: `quire quantize` and `quire export-tokenizer`. A table.
#include "config/flag_table.h"

namespace quire::config {
namespace {

using K = ValueKind;
using G = FlagGroup;

// One row, one line.
// clang-format off
constexpr FlagRow kRows[] = {
    {.name = "format", .kind = K::kChoice, .allowed = "fp8|fp8-dynamic|fp8-block|compressed-tensors|quark|modelopt", .help = "Form of the checkpoint that is written; docs/QUANTIZE.md says what each holds", .group = G::kQuantize, .audience = Audience::kQuantize},
    {.name = "output", .help = "Folder to write; quantize: an unfinished checkpoint in it is gone on with", .group = G::kQuantize, .audience = Audience::kQuantizeAndExport},
    {.name = "calibration", .help = "UTF-8 text to run the 16-bit model over; without it a built-in one", .group = G::kQuantize, .audience = Audience::kQuantize},
    {.name = "kv", .kind = K::kChoice, .fallback = "tensor", .allowed = "none|tensor|head", .help = "KV scales to write: one for a layer's keys and one for its values, one for each KV head, or none", .group = G::kQuantize, .audience = Audience::kQuantize},
    {.name = "max-shard-size", .kind = K::kInt, .allowed = "1..", .help = "Bytes of tensors in one file at most, e.g. 5G; without it the files are cut as the source's", .group = G::kQuantize, .audience = Audience::kQuantize},
    {.name = "overwrite", .kind = K::kBool, .fallback = "false", .help = "Replace what --output holds: the checkpoint, whole or unfinished, or the tokenizer's files", .group = G::kQuantize, .audience = Audience::kQuantizeAndExport},
};
// clang-format on

}  // namespace

std::span<const FlagRow> quantize_flag_rows() { return kRows; }

}  // namespace quire::config
