#include "api/make_generation.h"

#include <algorithm>
#include <boost/json/value.hpp>
#include <optional>
#include <utility>

#include "api/prompts.h"
#include "api/response_id.h"
#include "api/sampling.h"
#include "api/service.h"
#include "base/json.h"
#include "base/suggest.h"
#include "engine/engine.h"

namespace quire::api {
namespace {

namespace json = boost::json;

// The base of the response id: the header's, the body's, or 32 random hex digits.
Result<std::string> base_id(const GenerationInput& input) {
  constexpr std::size_t kMost = 128;
  const bool from_header = !input.request_id.empty();
  const std::string id = from_header ? input.request_id : read_string(input.request, "request_id").value_or("");
  if (id.empty()) return random_hex();
  const char* field = from_header ? "X-Request-Id" : "request_id";
  if (id.size() > kMost || !std::ranges::all_of(id, [](char c) { return c > ' ' && c < 127; }))
    return invalid(std::string(field) + ": it must be at most " + std::to_string(kMost) + " visible ASCII characters", field);
  return id;
}

Result<std::string> cache_namespace(const GenerationInput& input) {
  constexpr std::size_t kMost = 1024;
  const auto salt = read_string(input.request, "cache_salt");
  if (salt && (salt->empty() || salt->size() > kMost)) return invalid("cache_salt: it must have 1 to " + std::to_string(kMost) + " bytes", "cache_salt");
  // The credential is part of it, so that no tenant reaches another's blocks by guessing a salt.
  return input.credential + "/" + salt.value_or("");
}

Status check_response_format(const json::object& request) {
  const json::value* format = find_field(request, "response_format");
  if (format == nullptr) return {};
  const json::value* type = format->as_object().if_contains("type");
  if (type != nullptr && type->is_string() && type->get_string() == "text") return {};
  return Error{ErrorCode::kUnsupported, "response_format: type " + (type == nullptr ? std::string("(missing)") : shown(*type)) + " is not built yet; allowed: \"text\"", "response_format"};
}

Status check_modalities(const json::object& request) {
  const std::vector<std::string> modalities = read_strings(request, "modalities");
  for (std::size_t i = 0; i < modalities.size(); ++i)
    if (modalities[i] != "text")
      return Error{ErrorCode::kUnsupported, Place{"modalities", i}.text() + ": " + shown(json::string(modalities[i])) + " is not built; this model writes text alone", "modalities"};
  return {};
}

Status read_streaming(const GenerationInput& input, GenerationSpec& spec) {
  spec.stream = read_bool(input.request, "stream").value_or(false);
  const json::value* field = find_field(input.request, "stream_options");
  if (field != nullptr) {
    if (!spec.stream) return invalid("stream_options needs stream: true", "stream_options");
    for (const json::key_value_pair& option : field->as_object()) {
      if (option.value().is_null()) continue;
      if (!option.value().is_bool()) return invalid("stream_options." + std::string(option.key()) + ": " + shown(option.value()) + " is not true or false", "stream_options");
      if (option.key() == "include_usage") spec.include_usage = option.value().get_bool();
      else if (option.key() == "continuous_usage_stats") spec.continuous_usage = option.value().get_bool();
    }
    spec.continuous_usage = spec.continuous_usage && spec.include_usage;  // as vLLM: it refines include_usage
  }
  if (input.settings.enable_force_include_usage) spec.include_usage = spec.stream;
  return {};
}

// Everything that both endpoints read alike, in the order in which errors should be told.
Result<GenerationSpec> read_shared(const GenerationInput& input, Endpoint endpoint) {
  QUIRE_RETURN_IF_ERROR(check_fields(input.request, endpoint, field_limits(*input.model, input.settings)));
  auto name = served_name(input.request, input.settings);
  if (!name.ok()) return name.error();
  QUIRE_RETURN_IF_ERROR(check_response_format(input.request));
  QUIRE_RETURN_IF_ERROR(check_modalities(input.request));
  GenerationSpec spec;
  spec.model = input.model;
  spec.model_name = std::move(name).value();
  spec.created = input.now_unix;
  spec.echo = read_bool(input.request, "echo").value_or(false);
  spec.prompt_tokens_details = input.settings.enable_prompt_tokens_details;
  QUIRE_RETURN_IF_ERROR(read_streaming(input, spec));
  auto sampling = read_sampling(input.request, endpoint, *input.model, input.settings);
  if (!sampling.ok()) return sampling.error();
  spec.sampling = std::move(sampling).value();
  auto base = base_id(input);
  if (!base.ok()) return base.error();
  spec.id = (endpoint == Endpoint::kChat ? "chatcmpl-" : "cmpl-") + base.value();
  auto tenant = cache_namespace(input);
  if (!tenant.ok()) return tenant.error();
  spec.cache_namespace = std::move(tenant).value();
  return spec;
}

SequenceLimit sequence_limit(const GenerationInput& input, const GenerationSpec& spec) {
  return SequenceLimit{.n = spec.sampling.n, .max_prompts = input.settings.max_prompts_per_request, .max_queue = input.model->engine->max_queue()};
}

Status fit_prompts(const GenerationInput& input, GenerationSpec& spec) {
  for (std::size_t i = 0; i < spec.prompts.size(); ++i) {
    auto fit = fit_max_tokens(spec.sampling, static_cast<std::int64_t>(spec.prompts[i].tokens.size()), *input.model, input.settings);
    if (fit.ok()) {
      spec.max_tokens.push_back(fit.value());
      continue;
    }
    Error error = fit.error();
    if (spec.prompts.size() > 1) error.message = Place{"prompt", i}.text() + ": " + error.message;
    return error;
  }
  return {};
}

// What both endpoints share on the way from a request to its Generation.
class GenerationWork : public TextWork {
 public:
  // Everything that needs no text.
  [[nodiscard]] virtual Status open() = 0;
  [[nodiscard]] bool has_text() const { return has_words_ || has_prompt_text(); }
  [[nodiscard]] Result<std::unique_ptr<Generation>> finish();

 protected:
  GenerationWork(GenerationInput input, Endpoint endpoint) : input_(std::move(input)), endpoint_(endpoint) {}
  [[nodiscard]] Status open_shared();
  [[nodiscard]] virtual bool has_prompt_text() const = 0;
  [[nodiscard]] virtual Status read_prompt_text() = 0;
  [[nodiscard]] virtual Status finish_prompts() = 0;  // into spec_

  GenerationInput input_;
  const Endpoint endpoint_;
  GenerationSpec spec_;
  Truncation truncation_;

 private:
  [[nodiscard]] std::optional<Answer> next() final;
  [[nodiscard]] Status read_piece();
  bool has_words_ = false;  // bad words that are not token ids yet
};

Status GenerationWork::open_shared() {
  auto spec = read_shared(input_, endpoint_);
  if (!spec.ok()) return spec.error();
  spec_ = std::move(spec).value();
  const auto truncation = read_truncation(input_.request, *input_.model);
  if (!truncation.ok()) return truncation.error();
  truncation_ = truncation.value();
  has_words_ = find_field(input_.request, "bad_words") != nullptr;
  return has_words_ ? Status() : finish_sampling(input_.request, *input_.model, spec_.sampling);
}

Status GenerationWork::read_piece() {
  if (!has_words_) return read_prompt_text();
  has_words_ = false;
  return finish_sampling(input_.request, *input_.model, spec_.sampling);
}

std::optional<Answer> GenerationWork::next() {
  if (const Status read = read_piece(); !read.ok()) return error_reply(read.error());
  if (has_text()) return std::nullopt;
  auto generation = finish();
  if (!generation.ok()) return error_reply(generation.error());
  return std::move(generation).value();
}

Result<std::unique_ptr<Generation>> GenerationWork::finish() {
  QUIRE_RETURN_IF_ERROR(finish_prompts());
  QUIRE_RETURN_IF_ERROR(fit_prompts(input_, spec_));
  return std::make_unique<Generation>(endpoint_ == Endpoint::kChat ? Generation::Kind::kChat : Generation::Kind::kCompletion, std::move(spec_));
}

class CompletionWork final : public GenerationWork {
 public:
  explicit CompletionWork(GenerationInput input) : GenerationWork(std::move(input), Endpoint::kCompletions) {}
  Status open() override;

 private:
  bool has_prompt_text() const override { return reader_->has_text(); }
  Status read_prompt_text() override { return reader_->read_text(); }
  Status finish_prompts() override;
  std::optional<PromptReader> reader_;
};

Status CompletionWork::open() {
  QUIRE_RETURN_IF_ERROR(open_shared());
  spec_.echo_only = spec_.sampling.max_tokens == 0;
  auto reader = PromptReader::open(input_.request, *input_.model, {sequence_limit(input_, spec_), truncation_, spec_.echo ? PromptText::kKeep : PromptText::kDrop});
  if (!reader.ok()) return reader.error();
  reader_ = std::move(reader).value();
  return {};
}

Status CompletionWork::finish_prompts() {
  spec_.prompts = reader_->take();
  return {};
}

class ChatWork final : public GenerationWork {
 public:
  explicit ChatWork(GenerationInput input) : GenerationWork(std::move(input), Endpoint::kChat) {}
  Status open() override;

 private:
  bool has_prompt_text() const override { return !chat_.has_value(); }
  Status read_prompt_text() override;
  Status finish_prompts() override;
  ChatInput chat_input_;
  std::optional<ChatPrompt> chat_;
};

Status ChatWork::open() {
  QUIRE_RETURN_IF_ERROR(open_shared());
  QUIRE_RETURN_IF_ERROR(sequence_limit(input_, spec_).check(1));
  auto input = read_chat(input_.request, *input_.model, input_.settings);
  if (!input.ok()) return input.error();
  chat_input_ = std::move(input).value();
  return {};
}

Status ChatWork::read_prompt_text() {
  auto chat = render_chat(chat_input_, *input_.model);
  if (!chat.ok()) return chat.error();
  chat_ = std::move(chat).value();
  return {};
}

Status ChatWork::finish_prompts() {
  truncation_.apply(chat_->tokens);
  if (chat_->tokens.empty()) return invalid("messages: the template gives an empty prompt", "messages");
  spec_.role = chat_->role;
  spec_.prompts.push_back(Prompt{std::move(chat_->tokens), spec_.echo ? std::move(chat_->last_content) : std::string()});
  return {};
}

Result<Opening> open_work(std::unique_ptr<GenerationWork> work) {
  QUIRE_RETURN_IF_ERROR(work->open());
  if (work->has_text()) return Opening(std::unique_ptr<TextWork>(std::move(work)));
  auto generation = work->finish();
  if (!generation.ok()) return generation.error();
  return Opening(std::move(generation).value());
}

}  // namespace

Result<json::object> read_body(const Call& call) {
  std::string_view type = std::string_view(call.content_type).substr(0, call.content_type.find(';'));
  while (!type.empty() && type.back() == ' ') type.remove_suffix(1);
  const auto same = [](char a, char b) { return (a >= 'A' && a <= 'Z' ? static_cast<char>(a + 32) : a) == b; };
  if (!std::ranges::equal(type, std::string_view("application/json"), same))
    return invalid("Unsupported media type" + (type.empty() ? std::string() : " '" + std::string(type.substr(0, 80)) + "'") + ": Content-Type must be application/json", "Content-Type");
  auto parsed = parse_json(call.body, JsonLimits{.duplicate_keys = JsonLimits::DuplicateKeys::kKeepLast});
  if (!parsed.ok()) return parsed.error();
  if (!parsed.value().is_object()) return invalid("the body is " + shown(parsed.value()) + ", not a JSON object");
  return std::move(parsed.value().get_object());
}

FieldLimits field_limits(const Model& model, const config::ApiSettings& settings) {
  return FieldLimits{.max_n = settings.max_n, .max_logprobs = model.max_logprobs, .max_stops = settings.max_stop_strings, .vocab_size = model.vocab_size};
}

Result<std::string> served_name(const json::object& request, const config::ApiSettings& settings) {
  const auto asked = read_string(request, "model");
  if (!asked || asked->empty()) return settings.served_names.front();
  if (std::ranges::find(settings.served_names, *asked) != settings.served_names.end()) return *asked;
  const std::vector<std::string_view> names(settings.served_names.begin(), settings.served_names.end());
  const std::string cut = asked->size() <= 256 ? *asked : std::string("(a name of ") + std::to_string(asked->size()) + " bytes)";
  return Error{ErrorCode::kNotFound, "The model `" + cut + "` does not exist." + did_you_mean(cut, names), "model"};
}

Result<Opening> open_completion(GenerationInput input) { return open_work(std::make_unique<CompletionWork>(std::move(input))); }
Result<Opening> open_chat(GenerationInput input) { return open_work(std::make_unique<ChatWork>(std::move(input))); }

}  // namespace quire::api
