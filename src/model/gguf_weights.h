// Weights of a GGUF file under our names: the ledger of its tensors, and a source that gives them as a Hugging Face folder would hold them.
// Internal to model/; others call open_checkpoint_weights and check_checkpoint.
#pragma once
#include <memory>
#include <string>

#include "base/result.h"
#include "gguf/file.h"
#include "model/checkpoint.h"

namespace quire::model {

// Every parameter is in the file, in its shape and of a type that is read from. An error names the tensors that are not, by kind of mistake.
[[nodiscard]] Status check_gguf_tensors(const gguf::File& file, const ModelSpec& spec);

// As open_checkpoint_weights. Quantised tensors are given as float32, rows of q and k in the model's own order.
[[nodiscard]] Result<std::unique_ptr<WeightSource>> open_gguf_weights(const std::string& path, const ModelSpec& spec, const WeightRules& rules);

}  // namespace quire::model
