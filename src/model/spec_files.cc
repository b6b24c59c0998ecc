// Where a ModelSpec comes from: the files of a model folder, or one GGUF file.
#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/files.h"
#include "base/json.h"
#include "gguf/file.h"
#include "model/gguf_config.h"
#include "model/spec.h"
#include "model/spec_parse.h"

namespace quire::model {
namespace {

// A folder may hold GGUF files, which are models of their own.
std::string gguf_hint(const std::string& model_dir) {
  std::vector<std::string> found;
  std::error_code ec;
  for (std::filesystem::directory_iterator it(model_dir, ec), end; !ec && it != end; it.increment(ec))
    if (it->path().extension() == ".gguf") found.push_back(it->path().filename().string());
  if (found.empty()) return "";
  return "; it holds " + std::to_string(found.size()) + (found.size() == 1 ? " GGUF file" : " GGUF files") + ": give the file itself as MODEL, " + shown_text(*std::ranges::min_element(found));
}

}  // namespace

Result<std::string> read_config_json(const std::string& model_dir) {
  if (gguf::is_gguf_path(model_dir)) {
    const auto file = gguf::File::open(model_dir);
    return file.ok() ? gguf_config_json(file.value()) : file.error();
  }
  const std::string path = model_dir + "/config.json";
  if (!file_exists(path)) return Error{ErrorCode::kNotFound, path + ": no such file, so this is no model folder" + gguf_hint(model_dir), {}};
  return read_file(path, kMaxConfigBytes);
}

Result<ModelSpec> read_model_spec(const std::string& model_dir) {
  if (gguf::is_gguf_path(model_dir)) {
    const auto file = gguf::File::open(model_dir);
    return file.ok() ? gguf_model_spec(file.value()) : file.error();
  }
  const std::string beside = model_dir + "/" + kHfQuantFile;
  const auto text = read_config_json(model_dir);
  if (!text.ok()) return text.error();
  const std::string what = model_dir + "/config.json";
  if (!file_exists(beside)) return parse_model_spec(text.value(), what);
  const auto hf_quant = read_file(beside, kMaxConfigBytes);
  if (!hf_quant.ok()) return hf_quant.error();
  return parse_model_spec(text.value(), what, hf_quant.value());
}

}  // namespace quire::model
