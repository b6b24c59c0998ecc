// Options + environment + model + machine -> ResolvedConfig, once. A pure function: reads no file except a --chat-template,
// starts nothing. Every difference between what was asked and what runs becomes an Adjustment.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "config/environment.h"
#include "config/machine.h"
#include "config/options.h"
#include "config/problems.h"
#include "config/resolved.h"
#include "model/spec.h"

namespace quire::config {

// Where the model's files are: a folder each, or a GGUF file.
struct ModelFolders {
  std::string model_dir;
  std::string tokenizer_dir;
  std::optional<std::string> generation_config_dir;  // nullopt: --generation-config vllm, no defaults
};

// MODEL, --revision, --tokenizer, --tokenizer-revision and --generation-config to local folders.
[[nodiscard]] Result<ModelFolders> locate_model(const Options& options);

struct TokenizerFacts {
  std::int64_t model_max_length = 0;  // 0: the tokenizer states none
};

struct ResolveInputs {
  const Options& options;
  const Environment& environment;
  const ModelFolders& folders;
  const model::ModelSpec& model;
  const model::GenerationDefaults& generation;  // of generation_config_dir; empty when that is nullopt
  TokenizerFacts tokenizer;
  MachineFacts machine;
};

// An error's message lists every problem, each naming its flag.
[[nodiscard]] Result<ResolvedConfig> resolve(const ResolveInputs& inputs);

// The longest request of a model, prompt and output, and which file says so.
struct LengthLimit {
  std::int64_t tokens = 0;  // 0: not known
  std::string source = "the model's configuration";
};
[[nodiscard]] LengthLimit length_limit(const model::ModelSpec& model, const TokenizerFacts& tokenizer);
// What serve says to an explicit --max-model-len above `limit`: a problem, or a note when VLLM_ALLOW_LONG_MAX_MODEL_LEN allows it.
void check_model_len(const Options& options, const Environment& environment, const LengthLimit& limit, std::vector<Adjustment>& notes, Problems& problems);

// What elements a cache has. `asked`: an allowed value of --kv-cache-dtype; auto means `model`, fp8 means `e4m3`: this device's encoding of it,
// and what auto means of a checkpoint that declares an FP8 cache.
enum class DeclaredCache : std::uint8_t { kNone, kFp8 };
[[nodiscard]] DType kv_cache_dtype(const std::string& asked, DType model, DType e4m3, DeclaredCache declared = DeclaredCache::kNone);

// Bytes of K and V of one block over all layers; nullopt: more than 2^63.
[[nodiscard]] std::optional<std::int64_t> kv_block_bytes(const model::ModelSpec& model, DType kv_dtype, std::int32_t block_size);

}  // namespace quire::config
