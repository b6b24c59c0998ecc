// Builds small safetensors files and Llama configs for tests, right ones and wrong ones.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "model/checkpoint.h"

namespace quire::model::test {

struct RawTensor {
  std::string name, dtype;
  std::vector<std::int64_t> shape;
  std::string bytes;
};

// 8-byte little-endian length, header, data.
[[nodiscard]] std::string safetensors_file(const std::string& header, const std::string& data);
// A valid file of these tensors, one after another.
[[nodiscard]] std::string safetensors_of(const std::vector<RawTensor>& tensors);
// The header entry alone: "name":{"dtype":...,"shape":[...],"data_offsets":[begin,end]}
[[nodiscard]] std::string entry(const std::string& name, const std::string& dtype, const std::string& shape, const std::string& offsets);

// A float32 tensor whose element i is `first + i`.
[[nodiscard]] RawTensor counting_tensor(const std::string& name, std::vector<std::int64_t> shape, float first = 0.0f);

// A copy of a model folder with one safetensors file: its tensors and `extra` in a new one, every other file as it is.
void copy_model_with(const std::string& model_dir, const std::vector<RawTensor>& extra, const std::string& to_dir);

// Hidden 8, 2 heads of 4, 1 KV head, 2 layers, vocabulary 16; float32.
[[nodiscard]] ModelSpec tiny_spec();
// One counting tensor for each parameter.
[[nodiscard]] std::vector<RawTensor> tensors_for(const ModelSpec& spec);

}  // namespace quire::model::test
