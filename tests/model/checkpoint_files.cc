#include "checkpoint_files.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

namespace quire::model::test {

std::string safetensors_file(const std::string& header, const std::string& data) {
  std::string out;
  for (std::size_t i = 0; i < 8; ++i) out += static_cast<char>((header.size() >> (8 * i)) & 0xff);
  return out + header + data;
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
}

std::string safetensors_of(const std::vector<RawTensor>& tensors) {
  std::string header = "{", data;
  for (const RawTensor& tensor : tensors) {
    std::string shape;
    for (const std::int64_t n : tensor.shape) shape += (shape.empty() ? "" : ",") + std::to_string(n);
    const std::string offsets = "[" + std::to_string(data.size()) + "," + std::to_string(data.size() + tensor.bytes.size()) + "]";
    header += (header.size() == 1 ? "" : ",") + entry(tensor.name, tensor.dtype, "[" + shape + "]", offsets);
    data += tensor.bytes;
  }
  return safetensors_file(header + "}", data);
}

RawTensor counting_tensor(const std::string& name, std::vector<std::int64_t> shape, float first) {
  std::size_t count = 1;
  for (const std::int64_t n : shape) count *= static_cast<std::size_t>(n);
  std::string bytes(4 * count, '\0');
  for (std::size_t i = 0; i < count; ++i) {
    const float x = first + static_cast<float>(i);
    std::memcpy(bytes.data() + 4 * i, &x, 4);
  }
  return {name, "F32", std::move(shape), std::move(bytes)};
}

void copy_model_with(const std::string& model_dir, const std::vector<RawTensor>& extra, const std::string& to_dir) {
  constexpr char kWeights[] = "model.safetensors";
  for (const auto& file : std::filesystem::directory_iterator(model_dir))
    if (file.is_regular_file() && file.path().filename() != kWeights) std::filesystem::copy(file.path(), to_dir);
  const auto checkpoint = Checkpoint::open(model_dir);
  QUIRE_CHECK(checkpoint.ok()) << checkpoint.error().message;
  std::vector<RawTensor> tensors;
  for (const auto& [name, t] : checkpoint->tensors()) tensors.push_back({name, t.dtype, t.shape, std::string(reinterpret_cast<const char*>(t.bytes.data()), t.bytes.size())});
  tensors.insert(tensors.end(), extra.begin(), extra.end());
  std::ofstream out(to_dir + "/" + kWeights, std::ios::binary);
  out << safetensors_of(tensors);
  out.close();
  QUIRE_CHECK(out.good()) << to_dir;
}

ModelSpec tiny_spec() {
  ModelSpec spec;
  spec.architecture = "LlamaForCausalLM";
  spec.model_type = "llama";
  spec.hidden_size = 8;
  spec.intermediate_size = 12;
  spec.num_layers = 2;
  spec.num_heads = 2;
  spec.num_kv_heads = 1;
  spec.head_dim = 4;
  spec.vocab_size = 16;
  spec.max_position_embeddings = 64;
  spec.dtype = DType::kF32;
  return spec;
}

std::vector<RawTensor> tensors_for(const ModelSpec& spec) {
  std::vector<RawTensor> out;
  for (const ParameterSpec& parameter : parameters_of(spec))
    out.push_back(counting_tensor(parameter.name, parameter.shape, static_cast<float>(out.size())));
  return out;
}

}  // namespace quire::model::test
