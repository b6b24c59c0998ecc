#include "api/sampling.h"

#include <algorithm>
#include <boost/json/value.hpp>
#include <charconv>
#include <cmath>

#include "base/log.h"
#include "base/sampling_ranges.h"
#include "text/tokenizer.h"

namespace quire::api {
namespace {

namespace json = boost::json;

Result<std::vector<TokenId>> read_token_list(const json::object& request, const char* field, const Model& model) {
  std::vector<TokenId> out;
  const json::value* value = find_field(request, field);
  if (value == nullptr) return out;
  const json::array& list = value->as_array();
  if (list.size() > kMaxTokenList)
    return invalid(std::string(field) + ": " + std::to_string(list.size()) + " ids are over the limit of " + std::to_string(kMaxTokenList), field);
  out.reserve(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto token = read_token_id(list[i], Place{field, i}, model.vocab_size);
    if (!token.ok()) return token.error();
    out.push_back(token.value());
  }
  std::ranges::sort(out);  // these lists are sets: an id that is named twice counts once
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

// "stop" when the field is one string, "stop[1]" for an item of a list.
std::string place_in_strings(const json::object& request, std::string_view field, std::size_t index) {
  const json::value* value = find_field(request, field);
  return (value != nullptr && value->is_array() ? Place{field, index} : Place{field}).text();
}

Status read_temperature(const json::object& request, const config::ApiSettings& settings, SamplingParams& params) {
  const model::GenerationDefaults& defaults = settings.defaults;
  params.temperature = read_number(request, "temperature").value_or(defaults.temperature.value_or(1.0));
  params.top_p = read_number(request, "top_p").value_or(defaults.top_p.value_or(1.0));
  params.min_p = read_number(request, "min_p").value_or(defaults.min_p.value_or(0.0));
  const std::int64_t top_k = read_integer(request, "top_k").value_or(defaults.top_k.value_or(0));
  params.top_k = static_cast<std::int32_t>(std::clamp<std::int64_t>(top_k, 0, 2147483647));
  params.repetition_penalty = read_number(request, "repetition_penalty").value_or(defaults.repetition_penalty.value_or(1.0));
  params.presence_penalty = read_number(request, "presence_penalty").value_or(0.0);
  params.frequency_penalty = read_number(request, "frequency_penalty").value_or(0.0);
  // vLLM's floor: below it logits / temperature leave float range.
  constexpr double kLowestTemperature = 0.01;
  if (params.temperature > 0 && params.temperature < kLowestTemperature) {
    QUIRE_LOG_DEBUG("temperature {} is raised to {}", params.temperature, kLowestTemperature);
    params.temperature = kLowestTemperature;
  }
  if (params.greedy()) {
    params.temperature = 0;
    params.top_p = 1;
    params.top_k = 0;
    params.min_p = 0;
  }
  return {};
}

Status read_logit_bias(const json::object& request, const Model& model, SamplingParams& params) {
  const json::value* bias = find_field(request, "logit_bias");
  if (bias == nullptr) return {};
  if (bias->as_object().size() > kMaxTokenList)
    return invalid("logit_bias: " + std::to_string(bias->as_object().size()) + " entries are over the limit of " + std::to_string(kMaxTokenList), "logit_bias");
  for (const json::key_value_pair& entry : bias->as_object()) {
    const std::string_view key = entry.key();
    const auto wrong = [&key](const std::string& what) { return invalid("logit_bias[" + shown(json::string(key)) + "]: " + what, "logit_bias"); };
    std::int64_t id = -1;
    const auto [end, ec] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (ec == std::errc::invalid_argument || end != key.data() + key.size()) return wrong("the key is not a token id");
    if (ec != std::errc() || id < 0 || id >= model.vocab_size) return wrong("the token id is outside the vocabulary (0 to " + std::to_string(model.vocab_size - 1) + ")");
    const auto value = as_number(entry.value());
    if (!value) return wrong(shown(entry.value()) + " is not a finite number");
    params.logit_bias.emplace_back(static_cast<TokenId>(id), static_cast<float>(std::clamp(*value, -100.0, 100.0)));
  }
  return {};
}

Status read_stops(const json::object& request, SamplingRequest& out) {
  out.stops = read_strings(request, "stop");
  for (std::size_t i = 0; i < out.stops.size(); ++i) {
    const std::string where = place_in_strings(request, "stop", i);
    if (out.stops[i].empty()) return invalid(where + ": an empty string would end every answer at once; leave it out", "stop");
    if (out.stops[i].size() > kMaxStopBytes)
      return invalid(where + ": a string of " + std::to_string(out.stops[i].size()) + " bytes is over the limit of " + std::to_string(kMaxStopBytes), "stop");
  }
  out.include_stop = read_bool(request, "include_stop_str_in_output").value_or(false);
  return {};
}

// vLLM's split: the tokenizer's own end token ends without a stop_reason; generation_config's others end like stop_token_ids.
void add_end_tokens(const Model& model, const config::ApiSettings& settings, SamplingParams& params) {
  if (params.ignore_eos) return;
  std::vector<TokenId> ends = model.eos_token_ids;
  ends.insert(ends.end(), settings.defaults.eos_token_ids.begin(), settings.defaults.eos_token_ids.end());
  std::optional<TokenId> primary = model.tokenizer->facts().eos;
  if (!primary && !ends.empty()) primary = ends.front();
  if (primary) params.eos_token_ids.push_back(*primary);
  for (const TokenId end : ends) {
    if (end == primary) continue;
    if (std::ranges::find(params.stop_token_ids, end) == params.stop_token_ids.end()) params.stop_token_ids.push_back(end);
  }
}

Status read_lists(const json::object& request, const Model& model, const config::ApiSettings& settings, SamplingParams& params) {
  auto stop_ids = read_token_list(request, "stop_token_ids", model);
  if (!stop_ids.ok()) return stop_ids.error();
  params.stop_token_ids = std::move(stop_ids).value();
  auto allowed = read_token_list(request, "allowed_token_ids", model);
  if (!allowed.ok()) return allowed.error();
  if (find_field(request, "allowed_token_ids") != nullptr && allowed.value().empty())
    return invalid("allowed_token_ids: an empty list allows nothing", "allowed_token_ids");
  params.allowed_token_ids = std::move(allowed).value();
  params.ignore_eos = read_bool(request, "ignore_eos").value_or(false);
  add_end_tokens(model, settings, params);
  return read_logit_bias(request, model, params);
}

std::optional<std::int32_t> top_count(std::optional<std::int64_t> asked, const Model& model) {
  if (!asked) return std::nullopt;
  return *asked < 0 ? model.vocab_size : static_cast<std::int32_t>(*asked);
}

Status read_logprobs(const json::object& request, Endpoint endpoint, const Model& model, SamplingRequest& out) {
  if (endpoint == Endpoint::kChat) {
    const bool wanted = read_bool(request, "logprobs").value_or(false);
    const auto top = read_integer(request, "top_logprobs");
    if (top.value_or(0) != 0 && !wanted) return invalid("top_logprobs needs logprobs: true", "top_logprobs");
    if (wanted) out.params.logprobs = top_count(top.value_or(0), model);
  } else {
    out.params.logprobs = top_count(read_integer(request, "logprobs"), model);
  }
  out.params.prompt_logprobs = top_count(read_integer(request, "prompt_logprobs"), model);
  out.show_prompt_logprobs = out.params.prompt_logprobs.has_value();
  if (out.show_prompt_logprobs && read_bool(request, "stream").value_or(false))
    return invalid("prompt_logprobs cannot be streamed; leave out stream", "prompt_logprobs");
  return {};
}

Status read_lengths(const json::object& request, Endpoint endpoint, SamplingRequest& out) {
  if (endpoint == Endpoint::kCompletions) {
    // Absent means OpenAI's 16; an explicit null means the rest of the context.
    out.max_tokens = request.contains("max_tokens") ? read_integer(request, "max_tokens") : std::optional<std::int64_t>(16);
    if (out.max_tokens == 0 && !read_bool(request, "echo").value_or(false))
      return invalid("max_tokens: 0 is out of range; allowed: " + std::string(sampling_range::kMaxTokensOrEcho.text), "max_tokens");
  } else {
    if (find_field(request, "max_completion_tokens") != nullptr) out.max_tokens_field = "max_completion_tokens";
    out.max_tokens = read_integer(request, out.max_tokens_field);
  }
  const std::int64_t min_tokens = read_integer(request, "min_tokens").value_or(0);
  if (out.max_tokens && *out.max_tokens > 0 && min_tokens > *out.max_tokens)
    return invalid("min_tokens: " + std::to_string(min_tokens) + " is above " + std::string(out.max_tokens_field) + ": " + std::to_string(*out.max_tokens), "min_tokens");
  out.params.min_tokens = static_cast<std::int32_t>(min_tokens);
  return {};
}

Status check_list_entries(const json::object& request, const SamplingParams& params) {
  const std::size_t entries = sampling_list_entries(params);
  if (entries <= static_cast<std::size_t>(kMaxSamplingListEntries)) return {};
  for (const char* field : {"bad_words", "logit_bias", "allowed_token_ids", "stop_token_ids"})
    if (find_field(request, field) != nullptr)
      return invalid(std::string(field) + ": logit_bias, allowed_token_ids, stop_token_ids and bad_words together take " + std::to_string(entries) +
                         " entries (two for a bias, one for an id, a bad word's tokens and one); the limit is " + std::to_string(kMaxSamplingListEntries),
                     field);
  return invalid("the model's end tokens take " + std::to_string(entries) + " entries; the limit is " + std::to_string(kMaxSamplingListEntries));
}

// At the first output: a bad word of one token is always masked, end tokens are while min_tokens is not reached. (What longer bad words
// mask depends on the answer; the runner sees that, and ends the request alone.) A bias masks nothing.
Status check_a_token_is_left(const Model& model, const SamplingParams& params) {
  std::vector<TokenId> words, ends;
  for (const auto& word : params.bad_words)
    if (word.size() == 1) words.push_back(word.front());
  if (params.min_tokens > 0) {
    ends = params.eos_token_ids;
    ends.insert(ends.end(), params.stop_token_ids.begin(), params.stop_token_ids.end());
  }
  const std::vector<TokenId>& allowed = params.allowed_token_ids;
  const std::size_t candidates = allowed.empty() ? static_cast<std::size_t>(model.vocab_size) : allowed.size();
  if (words.size() + ends.size() < candidates) return {};
  std::ranges::sort(words);
  std::ranges::sort(ends);
  bool words_mask = false, ends_mask = false;
  for (std::size_t i = 0; i < candidates; ++i) {
    const TokenId id = allowed.empty() ? static_cast<TokenId>(i) : allowed[i];
    if (std::ranges::binary_search(words, id)) words_mask = true;
    else if (std::ranges::binary_search(ends, id)) ends_mask = true;
    else return {};
  }
  std::vector<std::string> fields;
  if (!allowed.empty()) fields.emplace_back("allowed_token_ids");
  if (words_mask) fields.emplace_back("bad_words");
  if (ends_mask) fields.emplace_back("min_tokens");
  std::string text = fields.front();
  for (std::size_t i = 1; i < fields.size(); ++i) text += (i + 1 == fields.size() ? " and " : ", ") + fields[i];
  text += fields.size() > 1 ? " together leave no token to choose" : " leaves no token to choose";
  if (ends_mask) text += "; end tokens (the model's and stop_token_ids) cannot be chosen before min_tokens: " + std::to_string(params.min_tokens) + " outputs";
  return invalid(text, fields.front());
}

}  // namespace

Result<SamplingRequest> read_sampling(const json::object& request, Endpoint endpoint, const Model& model, const config::ApiSettings& settings) {
  SamplingRequest out;
  QUIRE_RETURN_IF_ERROR(read_temperature(request, settings, out.params));
  out.n = static_cast<std::int32_t>(read_integer(request, "n").value_or(1));
  if (out.n > 1 && out.params.greedy())
    return invalid("n: " + std::to_string(out.n) + " greedy samples would all be equal; use n: 1 or a temperature above 0", "n");
  const auto seed = read_integer(request, "seed");
  out.seed_given = seed.has_value() && *seed != -1;  // vLLM: -1 means no seed
  if (out.seed_given) out.params.seed = static_cast<std::uint64_t>(*seed);
  QUIRE_RETURN_IF_ERROR(read_lengths(request, endpoint, out));
  QUIRE_RETURN_IF_ERROR(read_stops(request, out));
  QUIRE_RETURN_IF_ERROR(read_lists(request, model, settings, out.params));
  QUIRE_RETURN_IF_ERROR(read_logprobs(request, endpoint, model, out));
  if (!read_bool(request, "skip_special_tokens").value_or(true)) out.special_tokens = text::SpecialTokens::kKeep;
  if (read_bool(request, "return_tokens_as_token_ids").value_or(settings.return_tokens_as_token_ids)) out.spelling = TokenSpelling::kId;
  out.return_token_ids = read_bool(request, "return_token_ids").value_or(false);
  out.priority = static_cast<std::int32_t>(read_integer(request, "priority").value_or(0));
  if (out.priority != 0 && !model.priority_scheduling)
    return invalid("priority: " + std::to_string(out.priority) + " needs a server with --scheduling-policy priority", "priority");
  return out;
}

Status finish_sampling(const json::object& request, const Model& model, SamplingRequest& out) {
  auto words = map_bad_words(request, model);
  if (!words.ok()) return words.error();
  out.params.bad_words = std::move(words).value();
  QUIRE_RETURN_IF_ERROR(check_list_entries(request, out.params));
  return check_a_token_is_left(model, out.params);
}

Result<std::int32_t> fit_max_tokens(const SamplingRequest& sampling, std::int64_t num_prompt_tokens, const Model& model, const config::ApiSettings& settings) {
  const std::int64_t context = model.max_model_len;
  const auto n = [](std::int64_t number) { return std::to_string(number); };
  const std::string limit = "This model's maximum context length is " + n(context) + " tokens";
  if (num_prompt_tokens >= context)
    return invalid(limit + ", and the input has " + n(num_prompt_tokens) + "; no room is left for output. The longest input is " + n(context - 1) + " tokens.", "input_tokens");
  std::int64_t wanted = context - num_prompt_tokens;
  std::string bound = "the context";
  if (sampling.max_tokens) {
    const std::string field(sampling.max_tokens_field);
    const std::int64_t most = wanted;
    wanted = std::max<std::int64_t>(*sampling.max_tokens, 1);  // 0 (echo alone): the engine makes one token, which is dropped
    const std::string sum = limit + ", and " + field + ": " + n(wanted) + " plus the input's " + n(num_prompt_tokens) + " is more. With this input " + field + " may be at most " + n(most);
    if (wanted >= context) return invalid(sum + ".", field);
    if (wanted > most) return invalid(sum + "; with this " + field + " the input may have at most " + n(context - wanted) + ".", "input_tokens");
  } else if (settings.defaults.max_new_tokens) {
    const std::int64_t most = std::max<std::int64_t>(*settings.defaults.max_new_tokens, 1);
    if (most < wanted) bound = "max_new_tokens of the server's generation defaults";
    wanted = std::min(wanted, most);
  }
  if (sampling.params.min_tokens > wanted)
    return invalid("min_tokens: " + n(sampling.params.min_tokens) + " does not fit; " + bound + " leaves " + n(wanted) + " output tokens", "min_tokens");
  return static_cast<std::int32_t>(wanted);
}

Result<std::vector<std::vector<TokenId>>> map_bad_words(const json::object& request, const Model& model) {
  const std::vector<std::string> words = read_strings(request, "bad_words");
  std::vector<std::vector<TokenId>> out;
  if (words.size() > kMaxBadWords)
    return invalid("bad_words: " + std::to_string(words.size()) + " entries are over the limit of " + std::to_string(kMaxBadWords), "bad_words");
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const std::string where = place_in_strings(request, "bad_words", i);
    if (word.size() > kMaxBadWordBytes)
      return invalid(where + ": an entry of " + std::to_string(word.size()) + " bytes is over the limit of " + std::to_string(kMaxBadWordBytes), "bad_words");
    const std::size_t start = word.find_first_not_of(" \t\r\n");
    if (start == std::string::npos) return invalid(where + ": the entry is empty", "bad_words");
    const std::string bare = word.substr(start);
    auto plain = model.tokenizer->encode(bare, text::AddSpecialTokens::kNo);
    if (!plain.ok()) return plain.error();
    auto spaced = model.tokenizer->encode(" " + bare, text::AddSpecialTokens::kNo);
    if (!spaced.ok()) return spaced.error();
    const bool other_word = !spaced.value().empty() && !plain.value().empty() && spaced.value().front() != plain.value().front() &&
                            spaced.value().size() == plain.value().size();
    const auto in_vocab = [&model](const std::vector<TokenId>& ids) {
      return !ids.empty() && std::ranges::all_of(ids, [&model](TokenId id) { return id >= 0 && id < model.vocab_size; });
    };
    if (!in_vocab(plain.value())) return invalid(where + ": " + shown(json::string(word)) + " has no tokens in the model's vocabulary", "bad_words");
    out.push_back(std::move(plain).value());
    if (other_word && in_vocab(spaced.value())) out.push_back(std::move(spaced).value());
  }
  return out;
}

}  // namespace quire::api
