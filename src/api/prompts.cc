#include "api/prompts.h"

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <optional>
#include <utility>

#include "api/fields.h"
#include "text/tokenizer.h"

namespace quire::api {
namespace {

namespace json = boost::json;

// The texts of one request are read by one thread after another, and all of them stay in memory until the last is.
constexpr std::size_t kMaxTextBytes = 4u << 20;

// What can be said about a list of prompts before any of them is read.
Status check_list(const json::array& list, const SequenceLimit& limit) {
  QUIRE_RETURN_IF_ERROR(limit.check(list.size()));
  std::size_t text_bytes = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const json::value& item = list[i];
    if (item.is_array() != list.front().is_array() || (!item.is_array() && !item.is_string()))
      return invalid(Place{"prompt", i}.text() + ": " + shown(item) + " in a list whose first entry is " + shown(list.front()), "prompt");
    if (item.is_string()) text_bytes += item.get_string().size();
  }
  return check_text_bytes(text_bytes, "prompt");
}

}  // namespace

Status check_text_bytes(std::size_t text_bytes, const std::string& field) {
  if (text_bytes <= kMaxTextBytes) return {};
  return invalid(field + ": the texts of one request have " + std::to_string(text_bytes) + " bytes together; the limit is " + std::to_string(kMaxTextBytes) + "; send several requests", field);
}

Result<std::vector<TokenId>> encode_bounded(const std::string& text, text::AddSpecialTokens add, const Model& model) {
  // A normaliser may shorten text a little (accents, runs of spaces); 4 covers every one in use.
  constexpr std::size_t kShrink = 4;
  const std::size_t most = kShrink * model.tokenizer->facts().max_token_bytes * static_cast<std::size_t>(model.max_model_len);
  if (text.size() > most)
    return invalid("This model's maximum context length is " + std::to_string(model.max_model_len) + " tokens; a prompt of " + std::to_string(text.size()) +
                       " bytes cannot fit (at most " + std::to_string(most) + " bytes are tokenised)", "input_tokens");
  return model.tokenizer->encode(text, add);
}

Result<Truncation> read_truncation(const json::object& request, const Model& model) {
  const json::value* side = find_field(request, "truncation_side");
  if (side != nullptr && (!side->is_string() || side->get_string() != "left"))
    return Error{ErrorCode::kUnsupported, "truncation_side: " + shown(*side) + " is not built; \"left\" keeps the last tokens", "truncation_side"};
  const auto asked = read_integer(request, "truncate_prompt_tokens");
  if (!asked) return Truncation{};
  if (*asked == 0 || *asked > model.max_model_len)
    return invalid("truncate_prompt_tokens: " + std::to_string(*asked) + " is out of range; allowed: -1 (the context length) or 1 to " + std::to_string(model.max_model_len),
                   "truncate_prompt_tokens");
  return Truncation{static_cast<std::size_t>(*asked < 0 ? model.max_model_len : *asked)};
}

void Truncation::apply(std::vector<TokenId>& tokens) const {
  if (keep && tokens.size() > *keep) tokens.erase(tokens.begin(), tokens.end() - static_cast<std::ptrdiff_t>(*keep));
}

Status SequenceLimit::check(std::size_t num_prompts) const {
  const std::int64_t sequences = static_cast<std::int64_t>(num_prompts) * n;
  const bool by_queue = max_queue < max_prompts;
  const std::int64_t most = by_queue ? max_queue : max_prompts;
  if (sequences <= most) return {};
  const bool by_n = num_prompts == 1;
  return invalid((by_n ? "n: " : "prompt: ") + (by_n ? std::string() : std::to_string(num_prompts) + " prompts times n: ") + std::to_string(n) + (by_n ? " is " : " are ") +
                     std::to_string(sequences) + " sequences; one request may have at most " + std::to_string(most) + (by_queue ? " (--max-queue)" : " (--max-prompts-per-request)"),
                 by_n ? "n" : "prompt");
}

Result<PromptReader> PromptReader::open(const json::object& request, const Model& model, const PromptRules& rules) {
  constexpr const char* kForms = "a string, a list of strings, a list of ids or a list of lists of ids";
  const json::value* field = find_field(request, "prompt");
  if (field == nullptr) return invalid(std::string("prompt: it is missing; a prompt is ") + kForms, "prompt");
  if (!field->is_string() && !field->is_array()) return invalid("prompt: " + shown(*field) + " is not " + kForms, "prompt");
  PromptReader reader(request, model, rules);
  const json::array* list = field->if_array();
  reader.is_list_ = list != nullptr && !list->empty() && (list->front().is_array() || list->front().is_string());
  if (!reader.is_list_) {
    QUIRE_RETURN_IF_ERROR(rules.limit.check(1));
    if (list != nullptr) QUIRE_RETURN_IF_ERROR(reader.read_ids(*list, std::nullopt));
    return reader;
  }
  QUIRE_RETURN_IF_ERROR(check_list(*list, rules.limit));
  reader.num_prompts_ = list->size();
  for (std::size_t i = 0; i < list->size() && (*list)[i].is_array(); ++i) QUIRE_RETURN_IF_ERROR(reader.read_ids((*list)[i].get_array(), i));
  return reader;
}

Status PromptReader::read_ids(const json::array& list, std::optional<std::size_t> item) {
  Prompt prompt;
  prompt.tokens.reserve(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto id = read_token_id(list[i], item ? Place{"prompt", item, i} : Place{"prompt", i}, model_->vocab_size);
    if (!id.ok()) return id.error();
    prompt.tokens.push_back(id.value());
  }
  rules_.truncation.apply(prompt.tokens);
  if (rules_.text == PromptText::kKeep && prompt.tokens.size() < static_cast<std::size_t>(model_->max_model_len)) {
    auto text = model_->tokenizer->decode(prompt.tokens, text::SpecialTokens::kKeep);
    if (!text.ok()) return text.error();
    prompt.text = std::move(text).value();
  }
  return add(std::move(prompt));
}

Status PromptReader::read_text() {
  const json::value& field = request_->at("prompt");
  std::string text(std::string_view((is_list_ ? field.get_array()[prompts_.size()] : field).get_string()));
  auto tokens = encode_bounded(text, read_add_special_tokens(*request_, text::AddSpecialTokens::kYes), *model_);
  if (!tokens.ok()) return tokens.error();
  Prompt prompt;
  prompt.tokens = std::move(tokens).value();
  rules_.truncation.apply(prompt.tokens);
  if (rules_.text == PromptText::kKeep) prompt.text = std::move(text);
  return add(std::move(prompt));
}

Status PromptReader::add(Prompt prompt) {
  const std::string where = (is_list_ ? Place{"prompt", prompts_.size()} : Place{"prompt"}).text();
  if (prompt.tokens.empty()) return invalid(where + ": it is empty; at least one token is needed", "prompt");
  for (const TokenId id : prompt.tokens)
    if (id < 0 || id >= model_->vocab_size)
      return invalid(where + ": the tokenizer gives token id " + std::to_string(id) + ", which the model's vocabulary of " + std::to_string(model_->vocab_size) + " lacks", "prompt");
  prompts_.push_back(std::move(prompt));
  return {};
}

}  // namespace quire::api
