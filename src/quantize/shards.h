// What the files of an output checkpoint hold, decided from the source's names and shapes alone: which tensor is where, of which type, made
// from what. Knows headers; must not know numbers.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/checkpoint.h"
#include "quantize/form.h"

namespace quire::quantize {

enum class Content : std::uint8_t {
  kCopy,         // the source's bytes
  kWeight,       // the source's matrix in e4m3
  kWeightScale,  // its scales
  kInputScale,   // of what the linear layer reads
  kKeyScale,     // of the layer's KV cache
  kValueScale,
};

struct OutputTensor {
  std::string name, dtype;  // as safetensors has them
  std::vector<std::int64_t> shape;
  Content content = Content::kCopy;
  std::string source;        // the tensor of the source that it follows from; the projection's weight for scales
  std::int64_t layer = 0;    // of scales
  [[nodiscard]] std::uint64_t bytes() const;
};

// One file. Tensors are sorted by falling size of an element and then by name, so that each lies at a multiple of its element's size.
struct Shard {
  std::string file;
  std::vector<OutputTensor> tensors;
  [[nodiscard]] std::uint64_t data_bytes() const;
  // Length, JSON and spaces: a multiple of 8 bytes. The data follows, without gaps.
  [[nodiscard]] std::string header() const;
};

struct ShardQuestion {
  Form form = Form::kFp8;
  KvScales kv = KvScales::kTensor;
  std::int64_t num_kv_heads = 0;
  std::uint64_t max_shard_bytes = 0;  // 0: each file of the source becomes one of the output
};
// A matrix and its scales are in one file. Files above max_shard_bytes hold a single matrix that is larger.
[[nodiscard]] std::vector<Shard> plan_shards(const std::map<std::string, model::CheckpointTensor>& source, const ShardQuestion& question);

// model.safetensors.index.json of several files; "" for one.
[[nodiscard]] std::string index_json(const std::vector<Shard>& shards);

}  // namespace quire::quantize
