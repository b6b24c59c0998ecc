// docs/GGUF.md: architectures, keys, tensors and types from their tables, and the rules around them.
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>

#include "gguf/end_tokens.h"
#include "gguf/types.h"
#include "model/gguf_architectures.h"
#include "model/json_fields.h"

namespace quire::model {
namespace {

constexpr std::string_view kHead = R"(# GGUF files

Made by `quire flags-doc` from the tables of architectures (`src/model/gguf_architectures.cc`) and element types (`src/gguf/types.cc`); a test fails when this page is stale.

Every command that takes a MODEL takes the path of a `.gguf` file: `serve`, `run`, `chat`, `plan`, `explain`, `doctor`, `eval` and `bench`. Config, weights, tokenizer and chat template come from that one file.
`quire quantize` reads folders of safetensors alone.

* **Container.** Versions 2 and 3, little-endian, in one part. Offsets, shapes and sizes must describe the whole file, to the byte.
* **Config.** The metadata are translated into the Hugging Face config.json that they stand for, and that is read by the rules of every other model (`quire explain` says what they make of it). 32-bit floats become the
  shortest decimal that gives them back (1e-05). Keys of the architecture's own namespace that stand on no list below are refused by name, since they may change results; keys of `general.` describe, but for those named
  here; namespaces that nobody here knows are passed over, which the log says.
* **Weights.** Every tensor is used exactly once: missing ones, wrong shapes and tensors that the model does not use are refused by their names in the file (`--relaxed unused-tensors` serves without the last). A file
  without `output.weight` has tied embeddings.
* **Numbers.** F32, F16 and BF16 tensors give the bits that a folder of safetensors with the same numbers gives. Quantised matrices stay in their blocks (`--gguf-weights blocks`): every number as the file holds it, in
  panels for the device, and inputs quantised to int8 by groups of 32 ([NUMERICS.md](NUMERICS.md), "GGUF weights"). q, k and v, and gate and up, are multiplied together: their types may differ, but where one of them is in
  no blocks the others become `--dtype` too, which start-up and `quire explain` say. `--gguf-weights dequantised` makes `--dtype` of all of them while loading, each number rounded once to float32 and once to that type.
  `--dtype auto` is float16 for such files (block scales are float16, so bfloat16 would lose more than the blocks did), and the type of the matrices for others, float32 where they differ.
  Vectors (norms, biases) must be F32, F16 or BF16.
* **End tokens.** `tokenizer.ggml.eos_token_id`, `eot_token_id` and `eom_token_id`, as far as they are there, and the tokens END_TOKENS of the
  vocabulary, which files of chat models often leave unnamed or mark as ordinary: they are control tokens here, whatever the file says. `ignore_eos` passes over all of them.
* **Tokenizer.** Models `gpt2` (byte-level BPE) and `llama` (SentencePiece); the kinds of `tokenizer.ggml.pre` are in `src/text/gguf_tokenizer.cc`. `--tokenizer` takes another file or a folder. `quire export-tokenizer`
  writes the folder that Hugging Face's libraries read.
* **Sampling.** `general.sampling.temp`, `top_k`, `top_p`, `min_p` and `penalty_repeat` are the defaults of requests, as a folder's generation_config.json is, unless `--generation-config vllm` says otherwise. Others of
  that namespace (`xtc_*`, `mirostat_*`, `penalty_last_n`, `sequence`) are passed over, which the log says.
* **Flags.** `--load-format auto` and `gguf` say the same here; so does `--quantization gguf`. `--quantization fp8` quantises while loading, as it does for 16-bit folders.

)";

std::string code(std::string_view text) { return "`" + std::string(text) + "`"; }

std::string values_text(std::string_view list) {
  const boost::json::value values = boost::json::parse(boost::json::string_view(list.data(), list.size()));
  std::string out;
  for (const boost::json::value& one : values.get_array()) out += (out.empty() ? "" : " or ") + shown(one);
  return out;
}

std::string meaning(const GgufKey& key) {
  switch (key.fate) {
    case GgufKeyFate::kField: return code(key.field);
    case GgufKeyFate::kRequired: return code(key.field) + ", required";
    case GgufKeyFate::kWindow: return code(key.field) + "; 0: none";
    case GgufKeyFate::kLayerWindows: return code(key.field) + "; an array with a flag for each layer: `layer_types`";
    case GgufKeyFate::kHeadDim: return "must be the size of a head";
    case GgufKeyFate::kRope: return "`rope_scaling`: types none, linear and yarn";
    case GgufKeyFate::kNeutral: return "refused unless " + values_text(key.neutral);
    case GgufKeyFate::kIgnorable: return "not needed";
  }
  return {};
}

std::string key_rows(std::string_view space, std::span<const GgufKey> keys) {
  std::string out;
  for (const GgufKey& key : keys) out += "| " + code(std::string(space) + "." + std::string(key.key)) + " | " + meaning(key) + " |\n";
  return out;
}

// A stem of a layer has its number in front in both worlds.
std::string tensor_row(const GgufTensorName& name) {
  const bool whole = name.ours.starts_with("model.") || name.ours == "lm_head";
  return "| " + code((whole ? "" : "blk.N.") + std::string(name.gguf)) + " | " + code((whole ? "" : "model.layers.N.") + std::string(name.ours)) + " |\n";
}

std::string architecture_section(const GgufArchitecture& a) {
  std::string out = "\n### " + std::string(a.name) + "\n" + code(a.architecture) + " of config.json. Rows of q and k lie " +
                    (a.qk_rows == GgufQkRows::kAlternating ? "with the two halves of each head alternating, and are put back in order while loading." : "as the model was trained.") + "\n";
  if (!a.windowed_architecture.empty()) out += code(a.windowed_architecture) + " where `attention.sliding_window` is above 0.\n";
  if (a.wide_scalar_layers > 0) out += "Scores are scaled by the head's size; by the hidden size over the heads in the model of " + std::to_string(a.wide_scalar_layers) + " layers.\n";
  for (const GgufFlagTensor& flag : a.flags) out += "A file with " + code(flag.tensor) + " has " + code(flag.field) + ".\n";
  if (!a.keys.empty()) out += "\n| key | in config.json |\n|---|---|\n" + key_rows(a.name, a.keys);
  if (a.tensors.empty()) return out;
  out += "\n| tensor | parameter |\n|---|---|\n";
  for (const GgufTensorName& name : a.tensors) out += tensor_row(name);
  return out;
}

}  // namespace

std::string gguf_markdown() {
  std::string out(kHead), ends;
  for (const std::string_view token : gguf::kEndTokens) ends += (ends.empty() ? "" : ", ") + code(token);
  constexpr std::string_view kPlace = "END_TOKENS";
  out.replace(out.find(kPlace), kPlace.size(), ends);
  out += "## Element types\n| type | id | numbers in a block | bytes of a block |\n|---|---|---|---|\n";
  for (const gguf::TypeFacts& t : gguf::all_types())
    out += "| " + std::string(t.name) + " | " + std::to_string(t.id) + " | " + std::to_string(t.block_elements) + " | " + std::to_string(t.block_bytes) + " |\n";
  out += "\n## Metadata of every architecture\n| key | in config.json |\n|---|---|\n" + key_rows("ARCH", gguf_shared_keys());
  out += "| `general.architecture` | `architectures`, required |\n| `general.type` | refused unless \"model\" |\n| `general.quantization_version` | refused unless 2, where blocks are there |\n";
  out += "| `tokenizer.ggml.tokens` | `vocab_size`, where `ARCH.vocab_size` is absent |\n| `tokenizer.ggml.bos_token_id` | `bos_token_id` |\n| `tokenizer.ggml.eos_token_id`, `eot_token_id`, `eom_token_id` | `eos_token_id` |\n";
  out += "\n`" + std::string(kGgufRopeFactors) + "` ([head size / 2], F32) divides the rotary frequencies; over a scaling of the metadata it is refused.\n";
  out += "\n## Tensors of every architecture\nBehind each name `.weight` or `.bias`.\n\n| tensor | parameter |\n|---|---|\n";
  for (const GgufTensorName& name : gguf_shared_tensors()) out += tensor_row(name);
  out += "\n## Architectures\n";
  for (const GgufArchitecture& a : gguf_architectures()) out += architecture_section(a);
  return out;
}

}  // namespace quire::model
