#include "quantize/shards.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cstdio>
#include <utility>

#include "model/safetensors.h"
#include "quantize/json_text.h"
#include "quantize/rounding.h"

namespace quire::quantize {
namespace {

namespace json = boost::json;

// What one tensor of the source becomes; stays together.
struct Group {
  std::string file;  // of the source
  std::vector<OutputTensor> tensors;
  [[nodiscard]] std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const OutputTensor& t : tensors) sum += t.bytes();
    return sum;
  }
};

constexpr const char* kScaleType = "F32";

std::vector<std::int64_t> kv_scale_shape(const ShardQuestion& q) {
  if (q.kv == KvScales::kHead) return {q.num_kv_heads, 1, 1};
  return q.form == Form::kCompressedTensors ? std::vector<std::int64_t>{1} : std::vector<std::int64_t>{};
}

Group group_of(const std::string& name, const model::CheckpointTensor& tensor, const ShardQuestion& q) {
  Group out{tensor.file, {}};
  const auto linear = linear_weight(name);
  if (!linear) {
    out.tensors.push_back({name, tensor.dtype, tensor.shape, Content::kCopy, name});
    return out;
  }
  const FormRow& row = form_row(q.form);
  const std::string layer = "model.layers." + std::to_string(linear->layer) + ".", module = layer + std::string(linear->linear) + ".";
  const auto add = [&](std::string full, const char* dtype, std::vector<std::int64_t> shape, Content content) {
    out.tensors.push_back({std::move(full), dtype, std::move(shape), content, name, linear->layer});
  };
  add(name, "F8_E4M3", tensor.shape, Content::kWeight);
  add(module + std::string(row.weight_scale), kScaleType, scale_shape(row.scheme.weight, tensor.shape[0], tensor.shape[1]), Content::kWeightScale);
  if (row.scheme.input == model::InputScaling::kStatic) add(module + std::string(model::kInputScaleName), kScaleType, {}, Content::kInputScale);
  if (q.kv == KvScales::kNone) return out;
  if (linear->linear == "self_attn.k_proj") add(layer + "self_attn." + std::string(row.key_scale), kScaleType, kv_scale_shape(q), Content::kKeyScale);
  if (linear->linear == "self_attn.v_proj") add(layer + "self_attn." + std::string(row.value_scale), kScaleType, kv_scale_shape(q), Content::kValueScale);
  return out;
}

void append(Shard& shard, Group&& group) {
  for (OutputTensor& t : group.tensors) shard.tensors.push_back(std::move(t));
}

std::vector<Shard> as_the_source(std::vector<Group>&& groups) {
  std::map<std::string, Shard> by_file;
  for (Group& g : groups) {
    Shard& shard = by_file[g.file];
    shard.file = g.file;
    append(shard, std::move(g));
  }
  std::vector<Shard> out;
  for (auto& [file, shard] : by_file) out.push_back(std::move(shard));
  return out;
}

std::string numbered(std::size_t i, std::size_t n) {
  char text[64];
  std::snprintf(text, sizeof text, "model-%05zu-of-%05zu.safetensors", i + 1, n);
  return text;
}

std::vector<Shard> by_size(std::vector<Group>&& groups, std::uint64_t most) {
  std::vector<Shard> out(1);
  std::uint64_t held = 0;
  for (Group& g : groups) {
    const std::uint64_t bytes = g.bytes();
    if (held > 0 && held + bytes > most) {
      out.emplace_back();
      held = 0;
    }
    held += bytes;
    append(out.back(), std::move(g));
  }
  for (std::size_t i = 0; i < out.size(); ++i) out[i].file = out.size() == 1 ? "model.safetensors" : numbered(i, out.size());
  return out;
}

}  // namespace

std::uint64_t OutputTensor::bytes() const {
  std::uint64_t out = model::safetensors_dtype_bytes(dtype);
  for (const std::int64_t n : shape) out *= static_cast<std::uint64_t>(n);
  return out;
}

std::uint64_t Shard::data_bytes() const {
  std::uint64_t sum = 0;
  for (const OutputTensor& t : tensors) sum += t.bytes();
  return sum;
}

std::string Shard::header() const {
  json::object entries{{"__metadata__", {{"format", "pt"}}}};
  std::uint64_t at = 0;
  for (const OutputTensor& t : tensors) {
    json::array shape;
    for (const std::int64_t n : t.shape) shape.emplace_back(n);
    entries[t.name] = json::object{{"dtype", t.dtype}, {"shape", std::move(shape)}, {"data_offsets", json::array{at, at + t.bytes()}}};
    at += t.bytes();
  }
  std::string text = json::serialize(entries);
  text.append((8 - text.size() % 8) % 8, ' ');
  std::string length(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(text.size() >> (8 * i) & 0xff);
  return length + text;
}

std::vector<Shard> plan_shards(const std::map<std::string, model::CheckpointTensor>& source, const ShardQuestion& question) {
  std::vector<Group> groups;
  for (const auto& [name, tensor] : source) groups.push_back(group_of(name, tensor, question));
  std::vector<Shard> out = question.max_shard_bytes == 0 ? as_the_source(std::move(groups)) : by_size(std::move(groups), question.max_shard_bytes);
  for (Shard& s : out)
    std::ranges::sort(s.tensors, {}, [](const OutputTensor& t) { return std::pair(-static_cast<std::int64_t>(model::safetensors_dtype_bytes(t.dtype)), t.name); });
  return out;
}

std::string index_json(const std::vector<Shard>& shards) {
  if (shards.size() == 1 && shards.front().file == "model.safetensors") return {};
  std::map<std::string, std::string> files;
  std::uint64_t bytes = 0;
  for (const Shard& s : shards) {
    bytes += s.data_bytes();
    for (const OutputTensor& t : s.tensors) files[t.name] = s.file;
  }
  json::object map;
  for (const auto& [name, file] : files) map[name] = file;
  return pretty_json(json::object{{"metadata", {{"total_size", bytes}}}, {"weight_map", std::move(map)}});
}

}  // namespace quire::quantize
