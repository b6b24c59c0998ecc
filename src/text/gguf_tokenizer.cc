// Builds the JSON of a Hugging Face tokenizer from a GGUF vocabulary. Owned by src/text; the library (text/ffi) alone encodes.
#include "text/gguf_tokenizer.h"

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <cmath>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/suggest.h"
#include "text/gguf_vocabulary.h"

namespace quire::text {
namespace {

namespace json = boost::json;

// Bytes of a SentencePiece token, whose every cut is looked up. Those of the field have some dozens.
constexpr std::size_t kLongestPiece = 1024;

// Regular expressions by which byte-level BPE cuts text before merging, one after another; each piece is cut by the next.
constexpr std::string_view kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kDigit = R"(\p{N})";
constexpr std::string_view kLlama3 = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kPunctuation = R"([\p{P}\$\+<=>\^~\|]+)";
constexpr std::string_view kDigits = R"(\p{N}+)";
constexpr std::string_view kThreeDigits = R"([0-9][0-9][0-9])";

// A kind of pre-tokenizer: value of tokenizer.ggml.pre.
struct PreKind {
  std::string_view name;
  std::array<std::string_view, 4> cuts;  // unused ones empty
  bool whole_words = false;              // a piece that is a token as it stands is not merged ("ignore_merges")
  bool add_bos = false;                  // where the file does not say
};
constexpr std::array<PreKind, 21> kPreKinds = {{{"default", {kPunctuation, kGpt2, kDigits, kThreeDigits}},
                                                {"gpt-2", {kGpt2}},
                                                {"phi-2", {kGpt2}},
                                                {"mpt", {kGpt2}},
                                                {"olmo", {kGpt2}},
                                                {"exaone4", {kGpt2}},
                                                {"smollm", {kDigit, kGpt2}},
                                                {"starcoder", {kDigit, kGpt2}},
                                                {"refact", {kDigit, kGpt2}},
                                                {"command-r", {kDigit, kGpt2}},
                                                {"codeshell", {kDigit, kGpt2}},
                                                {"minerva-7b", {kDigit, kGpt2}},
                                                {"llama-bpe", {kLlama3}, true, true},
                                                {"llama3", {kLlama3}, true, true},
                                                {"llama-v3", {kLlama3}, true, true},
                                                {"falcon3", {kLlama3}, true, true},
                                                {"qwen2", {kQwen2}},
                                                {"deepseek-r1-qwen", {kQwen2}},
                                                {"megrez", {kQwen2}},
                                                {"stablelm2", {kQwen2}},
                                                {"tekken", {kTekken}, true, true}}};

json::string_view view(std::string_view text) { return {text.data(), text.size()}; }

class TokenizerBuilder {
 public:
  TokenizerBuilder(const GgufVocabulary& vocabulary, const std::string& file) : v_(vocabulary), file_(file) {}

  Result<std::string> build() {
    QUIRE_RETURN_IF_ERROR(number_tokens());
    json::object out = {{"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}};
    out["added_tokens"] = added_tokens();
    const Status status = v_.model == GgufTokenizerModel::kGpt2 ? byte_level(out) : sentence_piece(out);
    if (!status.ok()) return status.error();
    auto processor = post_processor();
    if (!processor.ok()) return processor.error();
    out["post_processor"] = std::move(processor).value();
    return json::serialize(out);
  }

 private:
  [[nodiscard]] Error wrong(const std::string& text) const { return Error{ErrorCode::kCorrupt, file_ + ": " + text, {}}; }

  Status number_tokens() {
    ids_.reserve(v_.tokens->size());
    for (std::size_t id = 0; id < v_.tokens->size(); ++id)
      if (const auto [at, inserted] = ids_.emplace((*v_.tokens)[id], id); !inserted)
        return wrong("tokenizer.ggml.tokens holds " + shown_text((*v_.tokens)[id]) + " twice, as " + std::to_string(at->second) + " and " + std::to_string(id));
    return {};
  }

  // Control and unknown tokens are special: their text in a message is ordinary text. User-defined ones are found in any text.
  json::array added_tokens() const {
    json::array out;
    for (std::size_t i = 0; i < v_.tokens->size(); ++i) {
      const auto id = static_cast<std::int64_t>(i);
      const GgufTokenType type = v_.type(id);
      const bool special = type == GgufTokenType::kControl || type == GgufTokenType::kUnknown;
      if ((!special && type != GgufTokenType::kUserDefined) || v_.token(id).empty()) continue;
      out.push_back({{"id", id}, {"content", view(v_.token(id))}, {"single_word", false}, {"lstrip", false}, {"rstrip", false}, {"normalized", false}, {"special", special}});
    }
    return out;
  }

  json::object vocabulary() const {
    json::object out;
    out.reserve(v_.tokens->size());
    for (std::size_t id = 0; id < v_.tokens->size(); ++id) out.emplace(view((*v_.tokens)[id]), id);
    return out;
  }

  json::object model() const {
    return {{"type", "BPE"}, {"dropout", nullptr}, {"unk_token", nullptr}, {"continuing_subword_prefix", nullptr}, {"end_of_word_suffix", nullptr}, {"fuse_unk", false}, {"byte_fallback", false}, {"ignore_merges", false}, {"vocab", vocabulary()}};
  }

  Status byte_level(json::object& out) {
    const auto* kind = std::ranges::find(kPreKinds, v_.pre, &PreKind::name);
    if (kind == kPreKinds.end()) return unknown_kind();
    json::array steps;
    for (const std::string_view cut : kind->cuts)
      if (!cut.empty()) steps.push_back({{"type", "Split"}, {"pattern", {{"Regex", view(cut)}}}, {"behavior", "Isolated"}, {"invert", false}});
    const json::object letters = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
    steps.push_back(letters);
    out["normalizer"] = nullptr;
    out["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", std::move(steps)}};
    out["decoder"] = letters;
    json::object bpe = model();
    bpe["ignore_merges"] = kind->whole_words;
    json::array merges;
    merges.reserve(v_.merges->size());
    for (const std::string_view merge : *v_.merges) {
      const std::size_t space = merge.find(' ', 1);  // a token may begin with a space, never hold one
      if (space == std::string_view::npos || space + 1 == merge.size()) return wrong("tokenizer.ggml.merges holds " + shown_text(merge) + ", which is no pair");
      merges.push_back(json::array{view(merge.substr(0, space)), view(merge.substr(space + 1))});
    }
    bpe["merges"] = std::move(merges);
    out["model"] = std::move(bpe);
    add_bos_ = v_.add_bos.value_or(kind->add_bos);
    return {};
  }

  Error unknown_kind() const {
    std::vector<std::string_view> names;
    std::string text;
    for (const PreKind& kind : kPreKinds) {
      names.push_back(kind.name);
      text += (text.empty() ? "" : ", ") + std::string(kind.name);
    }
    const std::string stated = v_.pre.empty() ? "is missing" : "= " + shown_text(v_.pre) + " is not implemented";
    return Error{ErrorCode::kUnsupported, file_ + ": tokenizer.ggml.pre " + stated + " (known: " + text + ")" + did_you_mean(v_.pre, names) + "; --tokenizer takes a folder with a tokenizer.json instead", "--tokenizer"};
  }

  Status sentence_piece(json::object& out) {
    json::array normalizers;
    if (v_.add_space_prefix) normalizers.push_back({{"type", "Prepend"}, {"prepend", "\xe2\x96\x81"}});
    normalizers.push_back({{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\xe2\x96\x81"}});
    out["normalizer"] = {{"type", "Sequence"}, {"normalizers", std::move(normalizers)}};
    out["pre_tokenizer"] = nullptr;
    json::array decoders;
    decoders.push_back({{"type", "Replace"}, {"pattern", {{"String", "\xe2\x96\x81"}}}, {"content", " "}});
    decoders.push_back(json::object{{"type", "ByteFallback"}});
    decoders.push_back(json::object{{"type", "Fuse"}});
    if (v_.add_space_prefix) decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
    out["decoder"] = {{"type", "Sequence"}, {"decoders", std::move(decoders)}};
    json::object bpe = model();
    bpe["byte_fallback"] = true;
    bpe["fuse_unk"] = true;
    if (const auto unknown = unknown_token()) bpe["unk_token"] = view(v_.token(*unknown));
    auto merges = merges_of_scores();
    if (!merges.ok()) return merges.error();
    bpe["merges"] = std::move(merges).value();
    out["model"] = std::move(bpe);
    add_bos_ = v_.add_bos.value_or(true);
    return {};
  }

  std::optional<std::int64_t> unknown_token() const {
    if (v_.unknown) return v_.unknown;
    for (std::int64_t id = 0; id < std::ssize(*v_.tokens); ++id)
      if (v_.type(id) == GgufTokenType::kUnknown) return id;
    return std::nullopt;
  }

  // Every way to join two tokens into a third is a merge; the better the score of what comes out, the earlier. Of the ways to make one
  // token, the one with the lower left, then right id, as Hugging Face's converter orders them.
  Result<json::array> merges_of_scores() const {
    struct Merge {
      double score;
      std::size_t token, left, right;
    };
    std::vector<Merge> merges;
    const auto normal = [&](std::size_t id) { return v_.type(static_cast<std::int64_t>(id)) == GgufTokenType::kNormal; };
    for (std::size_t id = 0; id < v_.tokens->size(); ++id) {
      const std::string_view text = (*v_.tokens)[id];
      const double score = (*v_.scores)[id];
      if (!std::isfinite(score)) return wrong("tokenizer.ggml.scores: element " + std::to_string(id) + " is not finite");
      if (!normal(id)) continue;
      if (text.size() > kLongestPiece) return wrong("tokenizer.ggml.tokens: element " + std::to_string(id) + " = " + shown_text(text.substr(0, 32)) + " has " + std::to_string(text.size()) + " bytes; " + std::to_string(kLongestPiece) + " are allowed");
      for (std::size_t cut = 1; cut < text.size(); ++cut) {
        const auto left = ids_.find(text.substr(0, cut)), right = ids_.find(text.substr(cut));
        if (left != ids_.end() && right != ids_.end() && normal(left->second) && normal(right->second)) merges.push_back({score, id, left->second, right->second});
      }
    }
    std::ranges::sort(merges, [](const Merge& a, const Merge& b) {
      return a.score != b.score ? a.score > b.score : std::tie(a.token, a.left, a.right) < std::tie(b.token, b.left, b.right);
    });
    json::array out;
    out.reserve(merges.size());
    for (const Merge& m : merges) out.push_back(json::array{view((*v_.tokens)[m.left]), view((*v_.tokens)[m.right])});
    return out;
  }

  // Puts the first and last token around a text, where the file asks for them.
  Result<json::value> post_processor() const {
    const bool add_eos = v_.add_eos.value_or(false);
    if (!add_bos_ && !add_eos) return json::value(nullptr);
    json::array single, pair;
    json::object special;
    const auto put = [&](std::int64_t id) {
      const auto text = view(v_.token(id));
      const json::value piece = {{"SpecialToken", {{"id", text}, {"type_id", 0}}}};
      single.push_back(piece);
      pair.push_back(piece);
      special[text] = {{"id", text}, {"ids", json::array{id}}, {"tokens", json::array{text}}};
    };
    if (add_bos_ && !v_.bos) return wrong("tokenizer.ggml.add_bos_token asks for a first token, and tokenizer.ggml.bos_token_id is missing");
    if (add_eos && !v_.eos) return wrong("tokenizer.ggml.add_eos_token asks for a last token, and tokenizer.ggml.eos_token_id is missing");
    if (add_bos_) put(*v_.bos);
    for (const char* part : {"A", "B"}) {
      const json::value piece = {{"Sequence", {{"id", part}, {"type_id", 0}}}};
      if (*part == 'A') single.push_back(piece);
      pair.push_back(piece);
    }
    if (add_eos) put(*v_.eos);
    return json::value{{"type", "TemplateProcessing"}, {"single", std::move(single)}, {"pair", std::move(pair)}, {"special_tokens", std::move(special)}};
  }

  const GgufVocabulary& v_;
  const std::string& file_;
  std::unordered_map<std::string_view, std::size_t> ids_;
  bool add_bos_ = false;
};

}  // namespace

Result<std::string> gguf_tokenizer_json(const gguf::File& file) {
  const auto vocabulary = read_gguf_vocabulary(file);
  if (!vocabulary.ok()) return vocabulary.error();
  return TokenizerBuilder(vocabulary.value(), file.name()).build();
}

Result<std::string> gguf_tokenizer_config_json(const gguf::File& file) {
  const auto vocabulary = read_gguf_vocabulary(file);
  if (!vocabulary.ok()) return vocabulary.error();
  json::object out = {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"clean_up_tokenization_spaces", false}, {"added_tokens_decoder", json::object()}};
  for (const auto& [name, id] : {std::pair("bos_token", vocabulary->bos), {"eos_token", vocabulary->eos}, {"unk_token", vocabulary->unknown}, {"pad_token", vocabulary->padding}})
    if (id) out[name] = view(vocabulary->token(*id));
  const auto chat = file.metadata().get<std::string_view>("tokenizer.chat_template");
  if (!chat.ok()) return file.at_file(chat.error());
  if (chat->has_value() && !is_utf8(*chat.value())) return Error{ErrorCode::kCorrupt, file.name() + ": tokenizer.chat_template is not UTF-8", {}};
  if (chat->has_value()) out["chat_template"] = view(*chat.value());
  return json::serialize(out);
}

}  // namespace quire::text
