#include "api/prompts.h"

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <limits>
#include <utility>

#include "api/fields.h"
#include "text/tokenizer.h"

namespace quire::api {
namespace {

namespace json = boost::json;

bool is_list_of_lists(const json::array& list) { return !list.empty() && list.front().is_array(); }
bool is_list_of_text(const json::array& list) { return !list.empty() && list.front().is_string(); }

Result<std::vector<TokenId>> read_ids(const json::array& list, const Model& model) {
  std::vector<TokenId> ids;
  ids.reserve(list.size());
  for (const json::value& item : list) {
    const auto id = as_integer(item);
    if (!id) return invalid("prompt: " + shown(item) + " is not a token id; a prompt is a string, a list of strings, a list of ids or a list of lists of ids", "prompt");
    if (*id < 0 || *id >= model.vocab_size)
      return invalid("prompt: token id " + std::to_string(*id) + " is outside the vocabulary (0 to " + std::to_string(model.vocab_size - 1) + ")", "prompt");
    ids.push_back(static_cast<TokenId>(*id));
  }
  return ids;
}

Result<Prompt> prompt_of_text(std::string text, const json::object& request, const Model& model, PromptText keep) {
  auto tokens = encode_bounded(text, read_bool(request, "add_special_tokens", true), model);
  if (!tokens.ok()) return tokens.error();
  Prompt prompt;
  prompt.tokens = std::move(tokens).value();
  if (keep == PromptText::kKeep) prompt.text = std::move(text);
  return prompt;
}

// Texts of one request are tokenised one after another on one thread; together they must not keep it from others for long.
constexpr std::size_t kMaxTextBytes = 4u << 20;

Result<Prompt> prompt_of_ids(const json::array& list, const json::object& request, const Model& model, PromptText keep) {
  auto tokens = read_ids(list, model);
  if (!tokens.ok()) return tokens.error();
  Prompt prompt;
  prompt.tokens = std::move(tokens).value();
  QUIRE_RETURN_IF_ERROR(truncate_prompt(request, model, prompt.tokens));
  if (keep == PromptText::kKeep && prompt.tokens.size() < static_cast<std::size_t>(model.max_model_len)) {
    auto text = model.tokenizer->decode(prompt.tokens, false);
    if (!text.ok()) return text.error();
    prompt.text = std::move(text).value();
  }
  return prompt;
}

Result<Prompt> one_prompt(const json::value& item, const json::object& request, const Model& model, PromptText keep) {
  auto prompt = item.is_array() ? prompt_of_ids(item.get_array(), request, model, keep)
                                : prompt_of_text(std::string(std::string_view(item.get_string())), request, model, keep);
  if (!prompt.ok()) return prompt.error();
  QUIRE_RETURN_IF_ERROR(truncate_prompt(request, model, prompt->tokens));
  if (prompt->tokens.empty()) return invalid("prompt: it is empty; at least one token is needed", "prompt");
  for (const TokenId id : prompt->tokens)
    if (id < 0 || id >= model.vocab_size)
      return invalid("prompt: the tokenizer gives token id " + std::to_string(id) + ", which the model's vocabulary of " + std::to_string(model.vocab_size) + " lacks", "prompt");
  return prompt;
}

}  // namespace

Result<std::vector<TokenId>> encode_bounded(const std::string& text, bool add_special_tokens, const Model& model) {
  // A normaliser may shorten text a little (accents, runs of spaces); 4 covers every one in use.
  constexpr std::size_t kShrink = 4;
  const std::size_t most = kShrink * model.tokenizer->facts().max_token_bytes * static_cast<std::size_t>(model.max_model_len);
  if (text.size() > most)
    return invalid("This model's maximum context length is " + std::to_string(model.max_model_len) + " tokens; a prompt of " + std::to_string(text.size()) +
                       " bytes cannot fit (at most " + std::to_string(most) + " bytes are tokenised)", "input_tokens");
  return model.tokenizer->encode(text, add_special_tokens);
}

Status truncate_prompt(const json::object& request, const Model& model, std::vector<TokenId>& tokens) {
  const json::value* side = find_field(request, "truncation_side");
  if (side != nullptr && (!side->is_string() || side->get_string() != "left"))
    return Error{ErrorCode::kUnsupported, "truncation_side: " + shown(*side) + " is not built; \"left\" keeps the last tokens", "truncation_side"};
  const auto asked = read_integer(request, "truncate_prompt_tokens");
  if (!asked) return {};
  if (*asked == 0 || *asked > model.max_model_len)
    return invalid("truncate_prompt_tokens: " + std::to_string(*asked) + " is out of range; allowed: -1 (the context length) or 1 to " + std::to_string(model.max_model_len),
                   "truncate_prompt_tokens");
  const auto keep = static_cast<std::size_t>(*asked < 0 ? model.max_model_len : *asked);
  if (tokens.size() > keep) tokens.erase(tokens.begin(), tokens.end() - static_cast<std::ptrdiff_t>(keep));
  return {};
}

Result<std::vector<Prompt>> read_prompts(const json::object& request, const Model& model, std::int64_t max_prompts, PromptText keep) {
  const json::value* field = find_field(request, "prompt");
  if (field == nullptr) return invalid("prompt: it is missing; a prompt is a string, a list of strings, a list of ids or a list of lists of ids", "prompt");
  std::vector<Prompt> prompts;
  const bool many = field->is_array() && (is_list_of_lists(field->get_array()) || is_list_of_text(field->get_array()));
  if (!many) {
    if (!field->is_string() && !field->is_array())
      return invalid("prompt: " + shown(*field) + " is not a string, a list of strings, a list of ids or a list of lists of ids", "prompt");
    auto prompt = one_prompt(*field, request, model, keep);
    if (!prompt.ok()) return prompt.error();
    prompts.push_back(std::move(prompt).value());
    return prompts;
  }
  const json::array& list = field->get_array();
  if (list.size() > static_cast<std::size_t>(max_prompts))
    return invalid("prompt: " + std::to_string(list.size()) + " prompts (times n) are over the limit of " + std::to_string(max_prompts) + " in one request", "prompt");
  std::size_t text_bytes = 0;
  for (const json::value& item : list) {
    if (item.is_string()) text_bytes += item.get_string().size();
    if (text_bytes > kMaxTextBytes)
      return invalid("prompt: the texts of one request are over the limit of " + std::to_string(kMaxTextBytes) + " bytes together; send several requests", "prompt");
  }
  for (const json::value& item : list) {
    if (item.is_array() != list.front().is_array() || (!item.is_array() && !item.is_string()))
      return invalid("prompt: the list mixes " + shown(list.front()) + " and " + shown(item), "prompt");
    auto prompt = one_prompt(item, request, model, keep);
    if (!prompt.ok()) return prompt.error();
    prompts.push_back(std::move(prompt).value());
  }
  return prompts;
}

}  // namespace quire::api
