// Shards and their index. Each shard alone is checked by safetensors.cc; here the set must be consistent.
#include "model/checkpoint.h"

#include <algorithm>
#include <boost/json/value.hpp>
#include <filesystem>
#include <set>
#include <utility>

#include "model/json_fields.h"
#include "model/safetensors.h"

namespace quire::model {
namespace {

namespace json = boost::json;
namespace fs = std::filesystem;

constexpr char kSingleFile[] = "model.safetensors";
constexpr char kIndexFile[] = "model.safetensors.index.json";
constexpr std::size_t kMaxIndexBytes = 100'000'000;
constexpr std::size_t kMaxShards = 4096;  // each keeps one mapping open

Error corrupt(std::string text) { return Error{ErrorCode::kCorrupt, std::move(text), {}}; }

// weight_map of an index: tensor name -> shard file name.
struct ShardIndex {
  std::map<std::string, std::string> weight_map;
  std::set<std::string> shards;
  std::optional<std::int64_t> total_size;
};

// A shard must lie in the model folder itself: an index is data from outside and may not reach other files.
bool plain_file_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find_first_of(std::string("/\\\0", 3)) == std::string::npos;
}

Result<ShardIndex> read_index(const std::string& path) {
  auto parsed = read_object(path, {.max_bytes = kMaxIndexBytes, .max_depth = 8});
  if (!parsed.ok()) return parsed.error();
  const json::object& object = parsed.value().get_object();
  const json::value* map = object.if_contains("weight_map");
  if (map == nullptr || !map->is_object()) return corrupt(path + ": weight_map must be an object of tensor name to file name");
  ShardIndex index;
  for (const auto& field : map->get_object()) {
    const std::string name(field.key().data(), field.key().size());
    if (!field.value().is_string()) return corrupt(path + ": weight_map entry " + shown_text(name) + " must be a file name");
    const std::string file(field.value().get_string().data(), field.value().get_string().size());
    if (!plain_file_name(file))
      return corrupt(path + ": weight_map sends " + shown_text(name) + " to " + shown_text(file) +
                     ", which is not a plain file name in the model folder");
    index.weight_map.emplace(name, file);
    index.shards.insert(file);
  }
  if (index.shards.size() > kMaxShards)
    return corrupt(path + ": names " + std::to_string(index.shards.size()) + " files, at most " + std::to_string(kMaxShards) + " are allowed");
  const json::value* metadata = object.if_contains("metadata");
  const json::value* total = metadata != nullptr && metadata->is_object() ? metadata->get_object().if_contains("total_size") : nullptr;
  if (total != nullptr && !total->is_null()) {
    index.total_size = exact_integer(*total);
    if (!index.total_size) return corrupt(path + ": metadata.total_size is " + shown(*total) + ", which is not a byte count");
  }
  return index;
}

// What lies in the folder instead, for the message about missing weights.
std::string other_weight_files(const std::string& model_dir) {
  std::vector<std::string> found;
  std::error_code ec;
  for (fs::directory_iterator it(model_dir, ec), end; !ec && it != end; it.increment(ec)) {
    const std::string extension = it->path().extension().string();
    if (extension == ".safetensors" || extension == ".bin" || extension == ".pt" || extension == ".pth" || extension == ".gguf")
      found.push_back(it->path().filename().string());
  }
  if (found.empty()) return "";
  std::sort(found.begin(), found.end());
  std::string text = " (found instead: ";
  for (std::size_t i = 0; i < found.size() && i < 5; ++i) text += (i == 0 ? "" : ", ") + found[i];
  return text + (found.size() > 5 ? ", ...)" : ")");
}

// Both directions between the index and the shards, and the stated total.
Status check_against_index(const ShardIndex& index, const std::map<std::string, CheckpointTensor>& tensors, std::uint64_t total_bytes,
                           const std::string& path) {
  for (const auto& [name, file] : index.weight_map) {
    const auto found = tensors.find(name);
    if (found == tensors.end())
      return corrupt(path + ": weight_map places tensor " + shown_text(name) + " in " + shown_text(file) + ", which does not hold it");
    if (found->second.file != file)
      return corrupt(path + ": weight_map places tensor " + shown_text(name) + " in " + shown_text(file) + ", but it is in " +
                     shown_text(found->second.file));
  }
  for (const auto& [name, tensor] : tensors)
    if (!index.weight_map.contains(name))
      return corrupt(path + ": tensor " + shown_text(name) + " of " + shown_text(tensor.file) + " is missing from weight_map");
  if (index.total_size && (*index.total_size < 0 || static_cast<std::uint64_t>(*index.total_size) != total_bytes))
    return corrupt(path + ": metadata.total_size is " + std::to_string(*index.total_size) + ", the tensors take " + std::to_string(total_bytes) +
                   " bytes");
  return {};
}

Status add_shard(const MappedFile& mapped, const std::string& path, const std::string& file, std::map<std::string, CheckpointTensor>& tensors) {
  auto header = parse_safetensors(mapped.bytes(), path);
  if (!header.ok()) return header.error();
  const auto data = mapped.bytes().subspan(header->data_offset);
  for (SafetensorsEntry& entry : header->entries) {
    CheckpointTensor tensor{std::move(entry.dtype), std::move(entry.shape), data.subspan(entry.begin, entry.end - entry.begin), file};
    const auto [at, inserted] = tensors.emplace(std::move(entry.name), std::move(tensor));
    if (!inserted) return corrupt(path + ": tensor " + shown_text(at->first) + " is also in " + shown_text(at->second.file));
  }
  return {};
}

}  // namespace

std::optional<DType> float_dtype(std::string_view name) {
  if (name == "F32") return DType::kF32;
  if (name == "F16") return DType::kF16;
  if (name == "BF16") return DType::kBF16;
  return std::nullopt;
}

std::optional<DType> weight_dtype(std::string_view name) { return name == "F8_E4M3" ? DType::kFp8E4m3 : float_dtype(name); }

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

Result<Checkpoint> Checkpoint::open(const std::string& model_dir) {
  const std::string single = model_dir + "/" + kSingleFile;
  const std::string index_path = model_dir + "/" + kIndexFile;
  std::optional<ShardIndex> index;
  std::set<std::string> shards = {kSingleFile};
  if (file_exists(index_path)) {
    auto read = read_index(index_path);
    if (!read.ok()) return read.error();
    index = std::move(read).value();
    shards = index->shards;
    if (file_exists(single) && !shards.contains(kSingleFile))
      return corrupt(model_dir + ": holds both " + kSingleFile + " and " + kIndexFile +
                     ", which does not name it; remove the one that is not the model");
  } else if (!file_exists(single)) {
    return Error{ErrorCode::kNotFound, model_dir + ": no " + kSingleFile + " and no " + kIndexFile + other_weight_files(model_dir), {}};
  }
  Checkpoint checkpoint;
  for (const std::string& file : shards) {
    const std::string path = model_dir + "/" + file;
    auto mapped = MappedFile::open(path);
    if (!mapped.ok()) return mapped.error();
    QUIRE_RETURN_IF_ERROR(add_shard(mapped.value(), path, file, checkpoint.tensors_));
    checkpoint.files_.push_back(std::move(mapped).value());
  }
  if (index) QUIRE_RETURN_IF_ERROR(check_against_index(*index, checkpoint.tensors_, checkpoint.total_bytes(), index_path));
  return checkpoint;
}

std::uint64_t Checkpoint::total_bytes() const {
  std::uint64_t total = 0;
  for (const auto& [name, tensor] : tensors_) total += tensor.bytes.size();
  return total;
}

}  // namespace quire::model
