// What --quantization makes of how a checkpoint is quantised. A pure function.
#pragma once
#include <vector>

#include "base/result.h"
#include "config/options.h"
#include "config/resolved.h"
#include "model/spec.h"

namespace quire::config {

// The quantisation that runs: the checkpoint's own, or (`fp8` over matrices of 16 or 32 bits) one that is made while they are loaded: a
// scale for each projection, inputs per token. Errors: a method that is not the checkpoint's, naming both; another than fp8 over a checkpoint
// that declares none; gguf of another model than a GGUF file. What differs from the file's words is added to `notes`.
[[nodiscard]] Result<model::QuantSpec> resolve_quantization(const Options& options, const model::ModelSpec& model, std::vector<Adjustment>& notes);

}  // namespace quire::config
