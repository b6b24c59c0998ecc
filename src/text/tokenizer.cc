// The Tokenizer: files in, then calls across the C ABI. Owned by src/text.
#include "text/tokenizer.h"

#include <algorithm>
#include <array>
#include <boost/json.hpp>

#include "base/files.h"
#include "base/json.h"
#include "gguf/file.h"
#include "text/gguf_tokenizer.h"
#include "text/tokenizer_impl.h"

namespace quire::text {
namespace {

constexpr std::size_t kMaxTokenizerBytes = std::size_t{256} << 20;

// The text of tokenizer.json, of a folder or from a GGUF file.
Result<std::string> tokenizer_text(const std::string& model_dir) {
  if (gguf::is_gguf_path(model_dir)) {
    const auto file = gguf::File::open(model_dir);
    if (!file.ok()) return file.error();
    return gguf_tokenizer_json(file.value());
  }
  const std::string path = model_dir + "/tokenizer.json";
  if (!file_exists(path)) {
    return Error{ErrorCode::kNotFound, path + " does not exist; a model folder needs a tokenizer.json (convert older tokenizers with Hugging Face transformers)", {}};
  }
  return read_file(path, kMaxTokenizerBytes);
}

}  // namespace

Status Tokenizer::Impl::read_facts() {
  FfiBytes text, error;
  if (const auto status = quire_text_tokenizer_facts(handle.get(), text.out(), error.out()); status != QUIRE_TEXT_OK) return ffi_error(status, error);
  auto parsed = parse_json(text.str(), JsonLimits{.max_bytes = kMaxTokenizerBytes, .max_depth = 8});
  if (!parsed.ok()) return parsed.error();
  const auto& object = parsed.value().as_object();
  facts.vocab_size = object.at("vocab_size").to_number<std::int32_t>();
  facts.max_token_bytes = object.at("max_token_bytes").to_number<std::size_t>();
  for (const auto& entry : object.at("byte_tokens").as_array()) byte_tokens[entry.at(0).to_number<TokenId>()] = entry.at(1).to_number<std::uint8_t>();
  for (const auto& entry : object.at("special").as_array()) {
    special_ids.insert(entry.at(0).to_number<TokenId>());
    special_texts.emplace_back(entry.at(1).as_string());
  }
  std::stable_sort(special_texts.begin(), special_texts.end(), [](const auto& a, const auto& b) { return a.size() > b.size(); });
  return {};
}

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::~Tokenizer() = default;

Result<std::shared_ptr<const Tokenizer>> Tokenizer::load(const std::string& model_dir) {
  auto json = tokenizer_text(model_dir);
  if (!json.ok()) return json.error();
  auto config = read_tokenizer_config(model_dir);
  if (!config.ok()) return config.error();

  auto impl = std::make_unique<Impl>();
  impl->config = std::move(config).value();
  QuireTextTokenizer* handle = nullptr;
  FfiBytes error;
  const auto status = quire_text_tokenizer_new(slice(json.value()), slice(impl->config.options_json), &handle, error.out());
  if (status != QUIRE_TEXT_OK) {
    Error failure = ffi_error(status, error);
    failure.message = model_dir + ": " + failure.message;
    if (failure.code == ErrorCode::kInternal) failure.code = ErrorCode::kCorrupt;  // the file made the library panic
    return failure;
  }
  impl->handle.reset(handle);
  QUIRE_RETURN_IF_ERROR(impl->read_facts());

  auto tokenizer = std::shared_ptr<Tokenizer>(new Tokenizer(std::move(impl)));
  Impl& loaded = *tokenizer->impl_;
  if (loaded.config.bos) loaded.facts.bos = tokenizer->token_id(*loaded.config.bos);
  if (loaded.config.eos) loaded.facts.eos = tokenizer->token_id(*loaded.config.eos);
  loaded.facts.model_max_length = loaded.config.model_max_length;
  loaded.facts.tokenizer_class = loaded.config.tokenizer_class;
  if (const auto letter = tokenizer->token_id("a"); letter && !tokenizer->is_special(*letter)) {
    const std::array twice{*letter, *letter};
    if (const auto text = tokenizer->decode(twice, SpecialTokens::kKeep); text.ok() && text.value() == "aa") loaded.neutral = letter;
  }
  return std::shared_ptr<const Tokenizer>(std::move(tokenizer));
}

Result<std::vector<TokenId>> Tokenizer::encode(std::string_view text, AddSpecialTokens add, SpecialText special) const {
  std::uint32_t flags = 0;
  if (add == AddSpecialTokens::kYes) flags |= QUIRE_TEXT_ADD_SPECIAL;
  if (special == SpecialText::kOrdinary) flags |= QUIRE_TEXT_ORDINARY;
  FfiIds ids;
  FfiBytes error;
  const auto status = quire_text_encode(impl_->handle.get(), slice(text), flags, ids.out(), error.out());
  if (status != QUIRE_TEXT_OK) return ffi_error(status, error);
  return ids.ids();
}

Result<std::string> Tokenizer::decode(std::span<const TokenId> ids, SpecialTokens special) const {
  for (const TokenId id : ids) {
    if (id < 0) return invalid("token id " + std::to_string(id) + " is negative");
  }
  FfiBytes text, error;
  // TokenId and the ABI's unsigned ids agree in size; negative ids were refused above.
  const auto* data = reinterpret_cast<const std::uint32_t*>(ids.data());
  const auto status = quire_text_decode(impl_->handle.get(), data, ids.size(), special == SpecialTokens::kSkip ? 1 : 0, text.out(), error.out());
  if (status != QUIRE_TEXT_OK) return ffi_error(status, error);
  return text.str();
}

std::optional<std::string> Tokenizer::token_string(TokenId id) const {
  if (id < 0) return std::nullopt;
  FfiBytes text, error;
  const auto status = quire_text_token_string(impl_->handle.get(), static_cast<std::uint32_t>(id), text.out(), error.out());
  if (status != QUIRE_TEXT_OK) return std::nullopt;
  return text.str();
}

std::optional<TokenId> Tokenizer::token_id(std::string_view token) const {
  std::uint32_t id = 0;
  FfiBytes error;
  const auto status = quire_text_token_id(impl_->handle.get(), slice(token), &id, error.out());
  if (status != QUIRE_TEXT_OK) return std::nullopt;
  return static_cast<TokenId>(id);
}

bool Tokenizer::is_special(TokenId id) const { return impl_->special_ids.contains(id); }
const std::vector<std::string>& Tokenizer::special_texts() const { return impl_->special_texts; }
const TokenizerFacts& Tokenizer::facts() const { return impl_->facts; }
const std::string& Tokenizer::config_json() const { return impl_->config.config_json; }

}  // namespace quire::text
