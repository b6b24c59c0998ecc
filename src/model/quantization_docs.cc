// docs/QUANTIZATION.md: the methods from their table, and the rules around them.
#include "model/quantization.h"

namespace quire::model {
namespace {

constexpr std::string_view kHead = R"(# Quantised weights

Made by `quire flags-doc` from the table of methods (`src/model/quantization.cc`); a test fails when this page is stale.

A checkpoint says how its matrices are quantised in `quantization_config` of config.json (older files: `compression_config`), or in `hf_quant_config.json` beside it; where
both are there they must agree. Weights are FP8 e4m3 (`F8_E4M3` in the files). How they are multiplied is in [NUMERICS.md](NUMERICS.md), "FP8 weights"; which kernels there are is `quire explain`'s
and the plan's business before a byte of the weights is read.

)";

constexpr std::string_view kRules = R"(
## What is read
* **Which layers.** The seven linear layers of each decoder layer. `lm_head` and the embeddings keep their 16 bits, listed as ignored or not; a quantised one is refused. A layer that the config ignores must be
  F32, F16 or BF16 in the file, and one that it does not must be F8_E4M3: the types in the file prove the lists right. q, k and v, and gate and up, are multiplied together and must be quantised alike.
* **Lists.** `ignored_layers`, `modules_to_not_convert`, `exclude_modules`: whole names, or a name's beginning or end at a dot (`model.layers.0`, `o_proj`); `ignore`, `exclude` and `targets`: whole names;
  `re:` before a pattern means Python's `re.match` in all of them (literals, sets, groups, `|`, `*`, `+`, `?`, anchors; the rest is refused by name), and `exclude`, `exclude_modules` and Quark's `layer_quant_config`
  take `*`, `?` and `[sets]`. Patterns are matched without backtracking, at most 512 bytes each and 8192 in all.
* **compressed-tensors groups.** A target that names a module comes before one that names its class (`Linear`). Two groups that claim a layer in different ways are refused; a layer in no group is not quantised.
* **Quark.** The first pattern of `layer_quant_config` that fits, then `layer_type_quant_config.Linear`, then `global_quant_config`. `export` must be there. Patterns of `export.kv_cache_group` must be keys
  of `layer_quant_config` with equal entries, whose `output_tensors` (static fp8_e4m3 per_tensor) are the KV cache's scheme and nothing else.
* **Scales.** F32, F16 or BF16; one number as `[]`, `[1]` or `[1, 1]`; one for each output as `[n]` or `[n, 1]`; blocks `[ceil(n/128), ceil(k/128)]`. Each is finite, above 0 and exists exactly once.
  Parts of a fused projection keep their own scales, of weights and of static inputs: nothing is requantised to a common one.
* **Dynamic inputs** are quantised per token, also where a config says per tensor: a row's result must not depend on its batch.
* **FNUZ** devices (`QUIRE_FP8_FLAVOR=fnuz` on a CPU) keep the bytes and double each scale once.

## What is refused
Other bits, types and methods (int8, fp4, int4, ...), group sizes and block shapes other than 128 and 128x128, asymmetric or dynamic weights, zero points, `block` weights with static inputs, an unknown `activation_scheme`,
`scale_fmt` ue8m0, `activation_scale_ub`, sparsity, transforms, quantised outputs, biases and softmax, online rotations; and every field that nobody here knows, with the nearest known name.

## `--quantization`
`none` (the default; vLLM's `None`) is what the checkpoint says. A method must be the checkpoint's own, or the error names both. `fp8` and `ptpc_fp8` over a checkpoint of F32, F16 or BF16 quantise while loading: `fp8` with one scale for each
original projection, `ptpc_fp8` with one for each output (the largest magnitude over 448, FNUZ: 240), both with inputs per token. `--load-format dummy` fills a quantised config too.

## The KV cache
`--kv-cache-dtype auto` is FP8 e4m3 where the checkpoint declares it: `kv_cache_scheme` (`"static"`, or an object of 8 bits, float, static, symmetric, per tensor or per head), `kv_cache_quant_algo` FP8, Quark's `kv_cache_group`;
else it is the model's 16-bit type. `fp8_e5m2` is refused over FP8 weights. Its scales: [KV_SCALES.md](KV_SCALES.md).
)";

}  // namespace

std::string quantization_markdown() {
  std::string out(kHead);
  out += "| `quant_method` | read from | weight scales | inputs | tensors beside `weight` |\n|---|---|---|---|---|\n";
  for (const QuantMethodRow& row : quant_methods()) {
    out += "| `" + std::string(row.name) + "`";
    for (const std::string_view cell : {row.config, row.weights, row.inputs, row.tensors}) out += " | " + std::string(cell);
    out += " |\n";
  }
  return out + std::string(kRules);
}

}  // namespace quire::model
