// A model folder of any family as one GGUF file: its weights in any element types, its tokenizer, and mistakes on request. Names and
// row orders are written down here again, apart from src/model.
#pragma once
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "kit/gguf_writer.h"
#include "model/checkpoint.h"

namespace quire::test {

struct GgufModel {
  std::string model_dir;                                     // safetensors; a byte-level tokenizer of the kind "smollm"
  std::function<std::string(const std::string&)> type_of;    // the element type of a matrix by its name in the file
  std::set<std::string> without = {};                        // keys and tensors that are left out
  std::function<void(GgufWriter&)> more = {};                // adds what else is asked for
};

// A file whose matrices are all of one type.
[[nodiscard]] GgufModel gguf_model(const std::string& model_dir, const std::string& type);
[[nodiscard]] std::string gguf_file_of(const GgufModel& model);

// The parameter's name in the file; `branch_norms`: of Gemma, where post_attention_layernorm is another norm.
[[nodiscard]] std::string gguf_name_of(const std::string& parameter, bool branch_norms = false);
// Its numbers in the folder, in the model's own order.
[[nodiscard]] std::vector<float> folder_values(const model::Checkpoint& folder, const std::string& parameter);

}  // namespace quire::test
