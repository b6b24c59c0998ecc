// docs/CAPABILITIES.md from the tables.
#include "attention/capability.h"
#include "attention/device_family.h"

namespace quire::attention {
namespace {

std::string names(std::span<const std::string_view> list) {
  std::string out;
  for (const std::string_view n : list) out += (out.empty() ? "" : ", ") + std::string(n);
  return out;
}

std::string masks_text(MaskSet masks) {
  std::string out = "causal";
  for (const Mask m : kMasks)
    if (masks.has(m)) out += std::string(", ") + mask_name(m);
  return out;
}

const char* order_name(kv::CellOrder o) { return o == kv::CellOrder::kDimMajor ? "dimension-major" : "token-major"; }

std::string class_line(const BackendCaps& row, RowClass p) {
  const ClassCaps& c = row.of(p);
  std::string queries, formats;
  for (const DType t : c.query_dtypes) queries += (queries.empty() ? "" : ", ") + std::string(dtype_name(t));
  for (const kv::KvFormat f : c.kv_formats) formats += (formats.empty() ? "" : ", ") + std::string(kv::kv_format_name(f));
  return std::string("| ") + row_class_name(p) + " | " + c.head_sizes_text() + " | " + std::to_string(c.min_group) + " to " + std::to_string(c.max_group) + " | " + c.block_sizes_text() + " | " +
         queries + " | " + formats + " | " + masks_text(c.masks) + " | " + (c.max_context == 0 ? "any" : std::to_string(c.max_context)) + " |\n";
}

std::string row_section(const BackendCaps& row) {
  std::string out = "\n### " + std::string(row.name) + (row.built == Built::kNo ? " (not built)" : "") + "\n\n" + std::string(row.summary) + ". Devices: " + names(row.families) + ".";
  if (!row.alias.empty()) out += " Also answers to vLLM's name `" + std::string(row.alias) + "`.";
  if (row.opt_in == OptIn::kByName)
    out += " Taken only when asked for: `--attention-backend`, `VLLM_ATTENTION_BACKEND`, or `VLLM_ROCM_USE_AITER=1` or `VLLM_ROCM_USE_AITER_MHA=1` on an Instinct.";
  out += "\n\n| rows | head sizes | query heads per KV head | block sizes | queries | KV cache | masks | context |\n|---|---|---|---|---|---|---|---|\n";
  for (const RowClass p : kRowClasses) out += class_line(row, p);
  out += std::string("\nKernels: ") + (row.split == KernelSplit::kUnified ? "one for all rows" : "decode and prefill apart") + ". Cells: keys " + order_name(row.key_order) + ", values " +
         order_name(row.value_order) + ". Workspace: " + (row.workspace.partial_slots == nullptr ? "none" : "partials of split decode, sized by `" + std::string(row.workspace.name) + "`") + ". Graphs: " + graph_support_name(row.graph_support) + " (single-token decode " +
         (graph_holds(row.graph_support, BatchClass::kSingleTokenDecode) ? "yes" : "no") + ", uniform batch " + (graph_holds(row.graph_support, BatchClass::kUniform) ? "yes" : "no") +
         ", mixed batch " + (graph_holds(row.graph_support, BatchClass::kMixed) ? "yes" : "no") + ").\n";
  return out;
}

}  // namespace

std::string capabilities_markdown() {
  std::string out =
      "# What the attention backends support\n\n"
      "Made by `quire flags-doc` from `src/attention/table.cc` and `src/attention/device_family.cc`; a test fails when this page is stale.\n\n"
      "`quire explain MODEL --device NAME [flags of serve]` says for one model and one device which rows are taken and why others are not.\n"
      "Rows marked \"not built\" state what a backend must do: `explain` lets them take part and marks them, `serve` refuses them by name.\n\n"
      "Of the rows on a device the first one listed that has no reason against it serves; rows of the same cells may share the classes of rows. A row that is named explicitly\n"
      "serves alone or is refused with every reason; it is never replaced. A workspace is sized by the function that the row names (`src/attention/workspace.h`),\n"
      "and is the item \"workspace\" of `quire plan`.\n\n"
      "## Devices\n\n| name | platform | wave width | e4m3 in the cache | FP8 conversion | |\n|---|---|---|---|---|---|\n";
  for (const DeviceFamily& f : device_families())
    out += "| " + std::string(f.name) + " | " + platform_name(f.platform) + " | " + (f.wave_width == 0 ? "-" : std::to_string(f.wave_width)) + " | " +
           (f.fp8 == Fp8Encoding::kFnuz ? "FNUZ" : f.fp8 == Fp8Encoding::kOcp ? "OCP" : "OCP (FNUZ when asked for)") + " | " + (f.fp8_hardware == Fp8Hardware::kNone ? "software" : "hardware") + " | " + std::string(f.summary) + " |\n";
  out += "\n## Backends, in order of preference\n";
  for (const BackendCaps& row : backend_table()) out += row_section(row);
  return out;
}

}  // namespace quire::attention
