// What --quantization makes of how a checkpoint is quantised. A pure function.
#pragma once
#include <vector>

#include "base/result.h"
#include "config/options.h"
#include "config/resolved.h"
#include "model/spec.h"

namespace quire::config {

// The quantisation that runs: the checkpoint's own, or (over matrices of 16 or 32 bits, by a method with QuantMethodRow::on_load) one
// that is made while they are loaded. Errors: a method that is not the checkpoint's, naming both; one that is not made while loading over a
// checkpoint that declares none; gguf of another model than a GGUF file. What differs from the file's words is added to `notes`.
[[nodiscard]] Result<model::QuantSpec> resolve_quantization(const Options& options, const model::ModelSpec& model, std::vector<Adjustment>& notes);

}  // namespace quire::config
