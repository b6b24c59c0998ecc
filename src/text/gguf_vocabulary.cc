#include "text/gguf_vocabulary.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/json.h"
#include "base/log.h"
#include "base/suggest.h"
#include "gguf/end_tokens.h"

namespace quire::text {
namespace {

// Everything else that begins with "tokenizer." is refused: it may change which ids a text becomes.
constexpr std::array<std::string_view, 34> kKeys = {
    "tokenizer.ggml.model", "tokenizer.ggml.pre", "tokenizer.ggml.tokens", "tokenizer.ggml.token_type", "tokenizer.ggml.scores", "tokenizer.ggml.merges",
    "tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id", "tokenizer.ggml.unknown_token_id",
    "tokenizer.ggml.padding_token_id", "tokenizer.ggml.add_bos_token", "tokenizer.ggml.add_eos_token", "tokenizer.ggml.add_space_prefix", "tokenizer.ggml.add_sep_token",
    "tokenizer.ggml.remove_extra_whitespaces", "tokenizer.chat_template", "tokenizer.chat_templates",
    // Without effect on encoding.
    "tokenizer.ggml.token_type_count", "tokenizer.ggml.separator_token_id", "tokenizer.ggml.seperator_token_id", "tokenizer.ggml.cls_token_id", "tokenizer.ggml.mask_token_id",
    "tokenizer.ggml.prefix_token_id", "tokenizer.ggml.suffix_token_id", "tokenizer.ggml.middle_token_id", "tokenizer.ggml.fim_pre_token_id", "tokenizer.ggml.fim_suf_token_id",
    "tokenizer.ggml.fim_mid_token_id", "tokenizer.ggml.fim_pad_token_id", "tokenizer.ggml.fim_rep_token_id", "tokenizer.ggml.fim_sep_token_id", "tokenizer.huggingface.json"};

// Index of the first element that JSON could not hold; nullopt: there is none.
std::optional<std::size_t> first_not_utf8(const gguf::Strings& texts) {
  const auto found = std::ranges::find_if_not(texts, is_utf8);
  return found == texts.end() ? std::nullopt : std::optional(static_cast<std::size_t>(found - texts.begin()));
}

// Reads one file's fields; the first thing wrong ends it.
class VocabularyReader {
 public:
  explicit VocabularyReader(const gguf::File& file) : file_(file) {}

  Result<GgufVocabulary> read() {
    for (const auto step : {&VocabularyReader::check_keys, &VocabularyReader::model, &VocabularyReader::lists, &VocabularyReader::tokens, &VocabularyReader::flags})
      QUIRE_RETURN_IF_ERROR((this->*step)());
    return out_;
  }

 private:
  [[nodiscard]] Error wrong(const std::string& text) const { return Error{ErrorCode::kCorrupt, file_.name() + ": " + text, {}}; }
  [[nodiscard]] Error unsupported(const std::string& text) const { return Error{ErrorCode::kUnsupported, file_.name() + ": " + text, {}}; }

  template <class T>
  Status take(std::string_view key, std::optional<T>& out) {
    auto value = file_.metadata().get<T>(key);
    if (!value.ok()) return file_.at_file(value.error());
    out = std::move(value).value();
    return {};
  }
  // A list, in place; nullptr when absent.
  template <class T>
  Status list(std::string_view key, const T*& out) {
    const gguf::Value* value = file_.metadata().find(key);
    if (value == nullptr) return {};
    out = std::get_if<T>(value);
    return out == nullptr ? Status(wrong(std::string(key) + " = " + gguf::value_text(*value) + " has elements of another type")) : Status();
  }

  Status check_keys() {
    for (const auto& [key, value] : file_.metadata().values())
      if (key.starts_with("tokenizer.") && !key.starts_with("tokenizer.chat_template.") && std::ranges::find(kKeys, key) == kKeys.end())
        return unsupported("unknown metadata key " + shown_text(key) + " = " + gguf::value_text(value) + did_you_mean(key, kKeys));
    return {};
  }

  Status model() {
    std::optional<std::string_view> name, pre;
    QUIRE_RETURN_IF_ERROR(take("tokenizer.ggml.model", name));
    QUIRE_RETURN_IF_ERROR(take("tokenizer.ggml.pre", pre));
    if (!name) return Error{ErrorCode::kNotFound, file_.name() + ": holds no tokenizer (no tokenizer.ggml.model); name one with --tokenizer", "--tokenizer"};
    if (*name != "gpt2" && *name != "llama") return unsupported("tokenizer.ggml.model = " + shown_text(*name) + " is not implemented (known: gpt2, llama); --tokenizer takes a folder with a tokenizer.json instead");
    out_.model = *name == "gpt2" ? GgufTokenizerModel::kGpt2 : GgufTokenizerModel::kLlama;
    out_.pre = pre.value_or(std::string_view());
    return {};
  }

  Status lists() {
    QUIRE_RETURN_IF_ERROR(list("tokenizer.ggml.tokens", out_.tokens));
    QUIRE_RETURN_IF_ERROR(list("tokenizer.ggml.token_type", out_.types));
    QUIRE_RETURN_IF_ERROR(list("tokenizer.ggml.scores", out_.scores));
    QUIRE_RETURN_IF_ERROR(list("tokenizer.ggml.merges", out_.merges));
    if (out_.tokens == nullptr || out_.tokens->empty()) return wrong("tokenizer.ggml.tokens is missing or empty");
    const std::size_t size = out_.tokens->size();
    if (out_.types != nullptr && out_.types->size() != size) return wrong("tokenizer.ggml.token_type must have " + std::to_string(size) + " elements, one for each token");
    if (out_.types != nullptr)
      for (const std::int64_t type : *out_.types)
        if (type < 0 || type > 6) return wrong("tokenizer.ggml.token_type holds " + std::to_string(type) + "; 0 to 6 are allowed");
    if (out_.model == GgufTokenizerModel::kLlama && (out_.scores == nullptr || out_.scores->size() != size))
      return wrong("tokenizer.ggml.scores must have " + std::to_string(size) + " elements, one for each token");
    if (out_.model == GgufTokenizerModel::kGpt2 && out_.merges == nullptr) return wrong("tokenizer.ggml.merges is missing");
    for (const auto& [key, texts] : {std::pair("tokens", out_.tokens), {"merges", out_.merges}})
      if (const auto bad = texts == nullptr ? std::nullopt : first_not_utf8(*texts)) return wrong("tokenizer.ggml." + std::string(key) + ": element " + std::to_string(*bad) + " = " + shown_text((*texts)[*bad]) + " is not UTF-8");
    return {};
  }

  Status tokens() {
    const auto size = static_cast<std::int64_t>(out_.tokens->size());
    for (const auto& [key, id] : {std::pair("bos_token_id", &out_.bos), {"eos_token_id", &out_.eos}, {"unknown_token_id", &out_.unknown}, {"padding_token_id", &out_.padding}}) {
      QUIRE_RETURN_IF_ERROR(take(std::string("tokenizer.ggml.") + key, *id));
      if (!*id || (**id >= 0 && **id < size)) continue;
      // Nobody pads here, and byte-level BPE has a token for everything.
      if (id == &out_.padding || (id == &out_.unknown && out_.model == GgufTokenizerModel::kGpt2)) {
        QUIRE_LOG_WARN("{}: tokenizer.ggml.{} = {} is no token: there are {}; it is passed over", file_.name(), key, **id, size);
        id->reset();
        continue;
      }
      return wrong(std::string("tokenizer.ggml.") + key + " = " + std::to_string(**id) + " is no token: there are " + std::to_string(size));
    }
    return {};
  }

  Status flags() {
    std::optional<bool> space, separator, squeeze;
    QUIRE_RETURN_IF_ERROR(take("tokenizer.ggml.add_bos_token", out_.add_bos));
    QUIRE_RETURN_IF_ERROR(take("tokenizer.ggml.add_eos_token", out_.add_eos));
    QUIRE_RETURN_IF_ERROR(take("tokenizer.ggml.add_space_prefix", space));
    QUIRE_RETURN_IF_ERROR(take("tokenizer.ggml.add_sep_token", separator));
    QUIRE_RETURN_IF_ERROR(take("tokenizer.ggml.remove_extra_whitespaces", squeeze));
    if (separator.value_or(false)) return unsupported("tokenizer.ggml.add_sep_token = true is not implemented");
    if (squeeze.value_or(false)) return unsupported("tokenizer.ggml.remove_extra_whitespaces = true is not implemented");
    out_.add_space_prefix = space.value_or(true);
    return {};
  }

  const gguf::File& file_;
  GgufVocabulary out_;
};

}  // namespace

GgufTokenType GgufVocabulary::type(std::int64_t id) const {
  if (gguf::is_end_token(token(id))) return GgufTokenType::kControl;
  const std::int64_t stated = types == nullptr ? 1 : (*types)[static_cast<std::size_t>(id)];
  return stated == 0 ? GgufTokenType::kUnused : static_cast<GgufTokenType>(stated);
}

bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = [&](std::size_t at) { return at < text.size() ? static_cast<unsigned char>(text[at]) : 0u; };
    const unsigned first = byte(i), second = byte(i + 1);
    const std::size_t length = first < 0x80 ? 1 : first >= 0xc2 && first < 0xe0 ? 2 : first >= 0xe0 && first < 0xf0 ? 3 : first >= 0xf0 && first < 0xf5 ? 4 : 0;
    if (length == 0) return false;
    for (std::size_t k = 1; k < length; ++k)
      if ((byte(i + k) & 0xc0u) != 0x80u) return false;
    // Longer than needed, halves of UTF-16 pairs, and beyond the last code point.
    if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second >= 0xa0) || (first == 0xf0 && second < 0x90) || (first == 0xf4 && second >= 0x90)) return false;
    i += length;
  }
  return true;
}

Result<GgufVocabulary> read_gguf_vocabulary(const gguf::File& file) { return VocabularyReader(file).read(); }

}  // namespace quire::text
