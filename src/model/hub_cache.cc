// The MODEL argument to a folder or a GGUF file. Reads the layout that huggingface_hub writes:
//   <cache>/models--org--name/refs/<revision>   text: a commit hash
//   <cache>/models--org--name/snapshots/<hash>/ links into ../../blobs
// Never touches the network.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "base/files.h"
#include "gguf/file.h"
#include "model/checkpoint.h"
#include "model/json_fields.h"

namespace quire::model {
namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

// "~" and "~/x" only; a shell has expanded the rest.
std::string expand_home(const std::string& path) {
  if (path != "~" && !path.starts_with("~/")) return path;
  const std::string home = environment("HOME");
  return home.empty() ? path : home + path.substr(1);
}

// Same order as huggingface_hub. An empty variable counts as unset.
std::string hub_cache_dir() {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"})
    if (const std::string dir = environment(name); !dir.empty()) return expand_home(dir);
  if (const std::string dir = environment("HF_HOME"); !dir.empty()) return expand_home(dir) + "/hub";
  if (const std::string dir = environment("XDG_CACHE_HOME"); !dir.empty()) return expand_home(dir) + "/huggingface/hub";
  return expand_home("~/.cache/huggingface/hub");
}

bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.'; }

bool is_id_part(std::string_view part) {
  return !part.empty() && part.size() <= 96 && std::all_of(part.begin(), part.end(), is_word) && part.find("..") == std::string_view::npos &&
         part.find("--") == std::string_view::npos && part.front() != '.' && part.front() != '-' && part.back() != '.' && part.back() != '-';
}

// "name" or "org/name", by the hub's own rules.
bool is_hub_id(std::string_view id) {
  const std::size_t slash = id.find('/');
  if (id.ends_with(".git")) return false;
  return slash == std::string_view::npos ? is_id_part(id) : is_id_part(id.substr(0, slash)) && is_id_part(id.substr(slash + 1));
}

// A branch, tag, "refs/pr/3" or commit hash: words separated by single slashes, so that it cannot leave the refs folder.
bool is_revision(std::string_view revision) {
  if (revision.empty() || revision.size() > 255) return false;
  while (true) {
    const std::size_t slash = revision.find('/');
    const std::string_view part = revision.substr(0, slash);
    if (part.empty() || part == "." || part.find("..") != std::string_view::npos || !std::all_of(part.begin(), part.end(), is_word)) return false;
    if (slash == std::string_view::npos) return true;
    revision.remove_prefix(slash + 1);
  }
}

bool is_commit_hash(std::string_view text) {
  return text.size() == 40 && std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool looks_like_path(const std::string& model) {
  return model.front() == '.' || model.front() == '/' || model.front() == '~' || model.back() == '/' ||
         std::count(model.begin(), model.end(), '/') > 1;
}

Error not_found(std::string text) { return Error{ErrorCode::kNotFound, std::move(text), "model"}; }

// huggingface_hub renamed its command; both names, so that the line works with any version.
std::string download_command(const std::string& model, const std::string& revision) {
  const std::string rest = " download " + model + (revision == "main" ? "" : " --revision " + revision);
  return "'hf" + rest + "' ('huggingface-cli" + rest + "' before huggingface_hub 1.0)";
}

// refs/<revision> to the hash it names.
Result<std::string> commit_of(const std::string& repository, const std::string& revision, const std::string& missing) {
  if (is_commit_hash(revision)) return revision;
  const std::string ref = repository + "/refs/" + revision;
  if (!file_exists(ref)) return not_found(missing);
  auto text = read_file(ref, 4096);
  if (!text.ok()) return text.error();
  std::string hash = text.value();
  while (!hash.empty() && (hash.back() == '\n' || hash.back() == '\r' || hash.back() == ' ')) hash.pop_back();
  if (!is_commit_hash(hash)) return Error{ErrorCode::kCorrupt, ref + ": holds " + shown_text(hash) + ", which is not a commit hash", "model"};
  return hash;
}

Result<std::string> resolve_in_cache(const std::string& model, const std::string& revision) {
  const std::string cache = hub_cache_dir();
  std::string folder = "models--" + model;
  if (const std::size_t slash = folder.find('/'); slash != std::string::npos) folder.replace(slash, 1, "--");
  const std::string repository = cache + "/" + folder;
  const std::string missing = shown_text(model) + " is no folder here, and revision " + shown_text(revision) +
                              " of it is not in the local Hugging Face cache (looked in " + repository + "); download it with " +
                              download_command(model, revision);
  auto hash = commit_of(repository, revision, missing);
  if (!hash.ok()) return hash.error();
  const std::string snapshot = repository + "/snapshots/" + hash.value();
  std::error_code ec;
  if (!fs::is_directory(snapshot, ec)) return not_found(missing);
  if (!file_exists(snapshot + "/config.json"))  // follows links: a link to a missing blob counts as missing
    return not_found(snapshot + ": has no config.json, so the download is not complete; run " + download_command(model, revision));
  return snapshot;
}

}  // namespace

Result<std::string> resolve_model_dir(const std::string& model, const std::string& revision) {
  if (model.empty()) return invalid("must name a folder or a hub id", "model");
  if (model.find('\0') != std::string::npos) return invalid("holds a NUL byte", "model");
  const std::string path = expand_home(model);
  std::error_code ec;
  if (fs::is_directory(path, ec)) return path;
  if (gguf::is_gguf_path(path)) return path;
  if (file_exists(path)) return invalid(shown_text(model) + " is a file; a folder with config.json and safetensors, or a .gguf file, is needed", "model");
  if (looks_like_path(model) || model.ends_with(".gguf")) return not_found(shown_text(model) + " looks like a path, and there is no such folder or GGUF file");
  if (!is_hub_id(model))
    return invalid(shown_text(model) + " is no folder here and no hub id (\"name\" or \"org/name\" of letters, digits, '-', '_', '.')", "model");
  if (!revision.empty() && !is_revision(revision)) return invalid(shown_text(revision) + " is not a branch, tag or commit hash", "revision");
  return resolve_in_cache(model, revision.empty() ? "main" : revision);
}

}  // namespace quire::model
