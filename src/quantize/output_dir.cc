#include "quantize/output_dir.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <vector>

#include "base/files.h"
#include "base/json.h"
#include "quantize/journal.h"
#include "quantize/json_text.h"
#include "base/output_file.h"

namespace quire::quantize {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr std::size_t kMostConfigBytes = std::size_t{16} << 20;
constexpr const char* kQuantKeys[] = {"quantization_config", "compression_config"};
constexpr char kConfig[] = "config.json", kHfQuant[] = "hf_quant_config.json";

Error io(const std::string& what, const std::error_code& error) {
  const bool full = error == std::errc::no_space_on_device || error == std::errc::file_too_large;
  return Error{full ? ErrorCode::kResourceExhausted : ErrorCode::kIo, what + ": " + error.message(), {}};
}

// A folder's entries of one kind, links followed, sorted.
Result<std::vector<std::string>> entries_of(const std::string& dir, bool (fs::directory_entry::*of_kind)(std::error_code&) const noexcept) {
  std::vector<std::string> out;
  std::error_code error;
  for (fs::directory_iterator it(dir, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (((*it).*of_kind)(ignored)) out.push_back(it->path().filename().string());
  }
  if (error) return io(dir + ": cannot be listed", error);
  std::ranges::sort(out);
  return out;
}

Result<std::vector<std::string>> files_of(const std::string& dir) { return entries_of(dir, &fs::directory_entry::is_regular_file); }

bool is_tensors(const std::string& name) { return name.ends_with(".safetensors") || name.ends_with(".safetensors.partial"); }
bool is_index(const std::string& name) { return name.ends_with(".safetensors.index.json"); }
bool is_ours(const std::string& name) { return name.starts_with(kOurFiles); }

// What --overwrite replaces. Sorted, config.json goes before the tensors: without it nothing takes the rest for a checkpoint.
bool is_checkpoint(const std::string& name) { return is_tensors(name) || is_index(name) || name == kConfig || name == kHfQuant; }

// Other weights of the same model, which would not be quantised.
bool is_other_weights(const std::string& name) {
  constexpr std::string_view kEndings[] = {".bin", ".bin.index.json", ".pt", ".pth", ".gguf", ".h5", ".msgpack", ".onnx"};
  return std::ranges::any_of(kEndings, [&](std::string_view ending) { return name.ends_with(ending); });
}

Result<json::object> read_object(const std::string& path) {
  auto value = parse_json_file(path, {.max_bytes = kMostConfigBytes});
  if (!value.ok()) return value.error();
  if (!value->is_object()) return Error{ErrorCode::kCorrupt, path + ": must be a JSON object", {}};
  return std::move(value->get_object());
}

// The same text with one more field at its end.
std::string with_field(std::string text, const char* name, const json::object& value) {
  text.resize(text.rfind('}'));
  while (!text.empty() && std::strchr(" \t\r\n", text.back()) != nullptr) text.pop_back();
  std::string field = pretty_json(json::object{{name, value}});  // "{\n  ...\n}\n"
  return text + (text.ends_with('{') ? "" : ",") + field.substr(1);
}

}  // namespace

Result<json::object> source_identity(const std::string& source_dir) {
  const auto files = files_of(source_dir);
  if (!files.ok()) return files.error();
  json::object out;
  for (const std::string& name : files.value()) {
    struct stat st {};
    const std::string path = source_dir + "/" + name;
    if (::stat(path.c_str(), &st) != 0) return Error{ErrorCode::kIo, path + ": cannot stat: " + std::strerror(errno), {}};
    out[name] = std::to_string(st.st_size) + " bytes, changed at " + std::to_string(st.st_mtim.tv_sec) + "." + std::to_string(st.st_mtim.tv_nsec);
  }
  return out;
}

Status create_output_dir(const std::string& output_dir, const std::string& source_dir) {
  std::error_code error;
  const fs::path source = fs::canonical(source_dir, error), output = fs::weakly_canonical(output_dir, error);
  if (const auto [end, ignored] = std::mismatch(source.begin(), source.end(), output.begin(), output.end()); !error && source != output && end == source.end())
    return invalid("--output " + output_dir + ": lies inside MODEL's own folder, which stays as it is; choose another", "--output");
  fs::create_directories(output_dir, error);
  if (error) return io("--output " + output_dir + ": cannot be created", error);
  if (fs::equivalent(output_dir, source_dir, error)) return invalid("--output " + output_dir + ": is MODEL's own folder; choose another", "--output");
  return {};
}

Status check_output_dir(const std::string& output_dir) {
  if (file_exists(output_dir + "/" + kJournalFile)) return {};
  std::error_code error;
  std::string in_the_way;
  for (fs::directory_iterator it(output_dir, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!is_ours(name) && (in_the_way.empty() || name == kConfig)) in_the_way = name;
  }
  if (error) return io("--output " + output_dir + ": cannot be listed", error);
  if (in_the_way.empty()) return {};
  return invalid("--output " + output_dir + ": holds " + in_the_way + "; --overwrite replaces the checkpoint in it, or choose another folder", "--output");
}

std::uint64_t old_checkpoint_bytes(const std::string& output_dir) {
  std::uint64_t sum = 0;
  const auto files = files_of(output_dir);
  if (!files.ok()) return 0;
  for (const std::string& name : files.value()) {
    std::error_code error;
    const std::uintmax_t bytes = fs::file_size(output_dir + "/" + name, error);
    if (is_checkpoint(name) && !error) sum += bytes;
  }
  return sum;
}

Status remove_old_checkpoint(const std::string& output_dir) {
  const auto files = files_of(output_dir);
  if (!files.ok()) return files.error();
  for (const std::string& name : files.value()) {
    std::error_code error;
    if (is_checkpoint(name)) fs::remove(output_dir + "/" + name, error);
    if (error) return io(output_dir + "/" + name + ": cannot be removed", error);
  }
  return {};
}

Status check_room(const std::string& dir, std::uint64_t bytes, std::uint64_t freed) {
  struct statvfs st {};
  if (::statvfs(dir.c_str(), &st) != 0) return Error{ErrorCode::kIo, dir + ": cannot be asked for its free space: " + std::strerror(errno), {}};
  const std::uint64_t room = static_cast<std::uint64_t>(st.f_bavail) * st.f_frsize + freed;
  if (room >= bytes) return {};
  return Error{ErrorCode::kResourceExhausted, "--output " + dir + ": " + std::to_string(bytes) + " bytes are to be written, and the file system has " + std::to_string(room) + " left", "--output"};
}

Status copy_other_files(const std::string& source_dir, const std::string& output_dir) {
  const auto files = files_of(source_dir);
  if (!files.ok()) return files.error();
  for (const std::string& name : files.value()) {
    if (is_tensors(name) || is_index(name) || is_ours(name) || is_other_weights(name) || name == kConfig || name == kHfQuant) continue;
    std::error_code error;
    fs::copy_file(source_dir + "/" + name, output_dir + "/" + name, fs::copy_options::overwrite_existing, error);
    if (error) return io(output_dir + "/" + name + ": cannot be copied", error);
  }
  return {};
}

Result<std::vector<std::string>> subfolders_of(const std::string& source_dir) { return entries_of(source_dir, &fs::directory_entry::is_directory); }

Status write_configs(const std::string& source_dir, const std::string& output_dir, Form form, KvScales kv) {
  const std::string path = source_dir + "/" + kConfig;
  const auto text = read_file(path, kMostConfigBytes);
  if (!text.ok()) return text.error();
  auto config = read_object(path);
  if (!config.ok()) return config.error();
  const bool declared_null = std::ranges::any_of(kQuantKeys, [&](const char* key) { return config->contains(key); });
  for (const char* key : kQuantKeys) config->erase(key);
  std::string out = with_field(declared_null ? pretty_json(config.value()) : text.value(), "quantization_config", quantization_config(form, kv));
  if (const auto beside = hf_quant_config(form, kv)) QUIRE_RETURN_IF_ERROR(write_whole_file(output_dir + "/" + kHfQuant, pretty_json(*beside)));
  return write_whole_file(output_dir + "/" + kConfig, out);
}

Status check_unquantised(const std::string& source_dir) {
  const auto refused = [&](const std::string& file, const std::string& field, const std::string& method) {
    return invalid("MODEL " + source_dir + ": is quantised already (" + file + ": " + field + (method.empty() ? "" : " of quant_method " + method) + "); quantising again would lose more; give the 16-bit checkpoint", "MODEL");
  };
  const auto config = read_object(source_dir + "/" + kConfig);
  if (!config.ok()) return config.error();
  for (const char* key : kQuantKeys) {
    const json::value* value = config->if_contains(key);
    if (value == nullptr || value->is_null()) continue;
    const json::value* method = value->is_object() ? value->get_object().if_contains("quant_method") : nullptr;
    return refused(kConfig, key, method != nullptr && method->is_string() ? shown_text({method->get_string().data(), method->get_string().size()}) : "");
  }
  if (file_exists(source_dir + "/" + kHfQuant)) return refused(kHfQuant, "quantization", "");
  return {};
}

}  // namespace quire::quantize
