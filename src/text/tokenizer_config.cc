// Reads tokenizer_config.json and special_tokens_map.json as Hugging Face transformers does. Knows nothing of ids.
#include "text/tokenizer_config.h"

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/json.h"
#include "gguf/file.h"
#include "text/gguf_tokenizer.h"

namespace quire::text {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxConfigBytes = std::size_t{64} << 20;
constexpr std::array<std::string_view, 7> kNamedTokens = {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};

// A token is written as "text" or as {"content": "text", ...}.
std::optional<std::string> token_text(const json::value* value) {
  if (value == nullptr) return std::nullopt;
  if (const auto* text = value->if_string()) return std::string(*text);
  if (const auto* object = value->if_object()) {
    if (const auto* content = object->if_contains("content"); content != nullptr && content->is_string()) return std::string(content->get_string());
  }
  return std::nullopt;
}

constexpr JsonLimits kConfigLimits = {.max_bytes = kMaxConfigBytes, .max_depth = 64};

Result<json::object> object_of(Result<json::value> parsed, const std::string& path) {
  if (!parsed.ok()) return Error{ErrorCode::kCorrupt, path + ": " + parsed.error().message, {}};
  if (!parsed.value().is_object()) return Error{ErrorCode::kCorrupt, path + ": must hold a JSON object", {}};
  return std::move(parsed.value().get_object());
}

Result<json::object> read_object(const std::string& path) {
  if (!file_exists(path)) return json::object{};
  const auto text = read_file(path, kMaxConfigBytes);
  if (!text.ok()) return text.error();
  return object_of(parse_json(text.value(), kConfigLimits), path);
}

// Tokens to add when the vocabulary lacks them: those of added_tokens_decoder in the order of their ids, then the named ones.
class TokenList {
 public:
  enum class Origin : unsigned char { kDecoder, kNamed };
  void add(const json::value& token, Origin origin) {
    const auto text = token_text(&token);
    if (!text || text->empty() || std::find(seen_.begin(), seen_.end(), *text) != seen_.end()) return;
    seen_.push_back(*text);
    json::object entry = token.is_object() ? token.get_object() : json::object{};
    entry["content"] = *text;
    if (origin == Origin::kNamed) entry["special"] = true;
    tokens_.push_back(std::move(entry));
  }
  json::array take() { return std::move(tokens_); }

 private:
  json::array tokens_;
  std::vector<std::string> seen_;
};

void add_decoder_tokens(TokenList& list, const json::object& config) {
  const auto* decoder = config.if_contains("added_tokens_decoder");
  if (decoder == nullptr || !decoder->is_object()) return;
  std::vector<std::pair<std::uint64_t, const json::value*>> sorted;
  for (const auto& [key, token] : decoder->get_object()) {
    std::uint64_t id = 0;
    for (const char c : std::string_view(key).substr(0, 18)) id = id * 10 + static_cast<std::uint64_t>(static_cast<unsigned char>(c - '0') % 10);
    sorted.emplace_back(id, &token);
  }
  std::sort(sorted.begin(), sorted.end());
  for (const auto& [id, token] : sorted) list.add(*token, TokenList::Origin::kDecoder);
}

json::object make_options(const json::object& config) {
  TokenList list;
  add_decoder_tokens(list, config);
  for (const auto name : kNamedTokens) {
    if (const auto* token = config.if_contains(name)) list.add(*token, TokenList::Origin::kNamed);
  }
  for (const auto* name : {"additional_special_tokens", "extra_special_tokens"}) {
    const auto* tokens = config.if_contains(name);
    if (tokens == nullptr || !tokens->is_array()) continue;
    for (const auto& token : tokens->get_array()) list.add(token, TokenList::Origin::kNamed);
  }
  json::object options;
  options["tokens"] = list.take();
  return options;
}

// The "very large integer" that stands for "no limit" is 1e30; anything past 2^53 is taken for it.
std::int64_t max_length(const json::object& config) {
  const auto* value = config.if_contains("model_max_length");
  if (value == nullptr || !value->is_number()) return 0;
  const double number = value->to_number<double>();
  return number >= 1 && number < 9007199254740992.0 ? static_cast<std::int64_t>(number) : 0;
}

Result<std::optional<std::string>> find_template(const json::object& config, const std::string& path) {
  const auto* value = config.if_contains("chat_template");
  if (value == nullptr || value->is_null()) return std::optional<std::string>{};
  if (const auto* text = value->if_string()) return std::optional(std::string(*text));
  if (const auto* list = value->if_array()) {
    for (const auto& entry : *list) {
      const auto* named = entry.if_object();
      if (named == nullptr) continue;
      const auto* name = named->if_contains("name");
      const auto* source = named->if_contains("template");
      if (name != nullptr && source != nullptr && source->is_string() && *name == "default") return std::optional(std::string(source->get_string()));
    }
    return Error{ErrorCode::kCorrupt, path + ": chat_template is a list without an entry named 'default'", "chat_template"};
  }
  return Error{ErrorCode::kCorrupt, path + ": chat_template must be a string or a list of named templates", "chat_template"};
}

// tokenizer_config.json's text: of the folder ("{}" when absent), or what a GGUF file's metadata say in its words.
Result<std::string> config_text(const std::string& model_dir) {
  if (gguf::is_gguf_path(model_dir)) {
    const auto file = gguf::File::open(model_dir);
    if (!file.ok()) return file.error();
    return gguf_tokenizer_config_json(file.value());
  }
  const std::string path = model_dir + "/tokenizer_config.json";
  return file_exists(path) ? read_file(path, kMaxConfigBytes) : Result<std::string>(std::string("{}"));
}

}  // namespace

Result<TokenizerConfig> read_tokenizer_config(const std::string& model_dir) {
  TokenizerConfig out;
  const std::string path = model_dir + "/tokenizer_config.json";
  auto text = config_text(model_dir);
  if (!text.ok()) return text.error();
  out.config_json = std::move(text).value();
  auto config = object_of(parse_json(out.config_json, kConfigLimits), path);
  if (!config.ok()) return config.error();
  json::object merged = std::move(config).value();
  // Newer folders state everything in tokenizer_config.json; the map counts for older ones, where it wins.
  if (!merged.contains("added_tokens_decoder")) {
    auto map = read_object(model_dir + "/special_tokens_map.json");
    if (!map.ok()) return map.error();
    for (const auto& [name, token] : map.value()) {
      if (!token.is_null()) merged[name] = token;
    }
  }
  json::object variables;
  for (const auto name : kNamedTokens) {
    if (auto token = token_text(merged.if_contains(name))) variables[name] = *token;
  }
  auto chat_template = find_template(merged, path);
  if (!chat_template.ok()) return chat_template.error();
  out.chat_template = std::move(chat_template).value();
  out.options_json = json::serialize(make_options(merged));
  out.variables_json = json::serialize(variables);
  out.bos = token_text(merged.if_contains("bos_token"));
  out.eos = token_text(merged.if_contains("eos_token"));
  out.model_max_length = max_length(merged);
  if (const auto* name = merged.if_contains("tokenizer_class"); name != nullptr && name->is_string()) out.tokenizer_class = std::string(name->get_string());
  return out;
}

Result<std::int64_t> read_model_max_length(const std::string& model_dir) {
  const auto config = read_tokenizer_config(model_dir);
  if (!config.ok()) return config.error();
  return config->model_max_length;
}

}  // namespace quire::text
