#include "api/text_routes.h"

#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/fields.h"
#include "api/json_out.h"
#include "api/make_generation.h"
#include "api/prompts.h"
#include "base/json.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace quire::api {
namespace {

namespace json = boost::json;

Status check_request(const json::object& request, Endpoint endpoint, const Model& model, const config::ApiSettings& settings) {
  QUIRE_RETURN_IF_ERROR(check_fields(request, endpoint, field_limits(model, settings)));
  const auto name = served_name(request, settings);
  if (!name.ok()) return name.error();
  return {};
}

Result<std::vector<TokenId>> tokens_of(const json::object& request, const Model& model, const config::ApiSettings& settings) {
  const json::value* prompt = find_field(request, "prompt");
  if (prompt != nullptr) {
    // The context length does not bound this route (vLLM's rule); the limit of a request's texts does.
    QUIRE_RETURN_IF_ERROR(check_text_bytes(prompt->get_string().size(), "prompt"));
    return model.tokenizer->encode(std::string_view(prompt->get_string()), read_add_special_tokens(request, text::AddSpecialTokens::kYes));
  }
  const auto input = read_chat(request, model, settings);
  if (!input.ok()) return input.error();
  auto chat = render_chat(input.value(), model);
  if (!chat.ok()) return chat.error();
  return std::move(chat.value().tokens);
}

// Hugging Face's AddedToken objects become their text, wherever they stand.
json::value plain_tokens(const json::value& value) {
  const json::object* object = value.if_object();
  if (object == nullptr) return value;
  if (const json::value* content = object->if_contains("content"); content != nullptr && content->is_string()) return *content;
  json::object out;
  for (const json::key_value_pair& member : *object) {
    const json::object* inner = member.value().if_object();
    const json::value* content = inner == nullptr ? nullptr : inner->if_contains("content");
    out[member.key()] = content != nullptr && content->is_string() ? *content : member.value();
  }
  return out;
}

Reply tokens_reply(const json::object& request, const Model& model, const std::vector<TokenId>& tokens) {
  JsonOut out;
  out.begin_object();
  out.field("count", tokens.size());
  out.field("max_model_len", model.max_model_len);
  out.key("tokens");
  out.begin_array();
  for (const TokenId id : tokens) out.value(id);
  out.end_array();
  out.key("token_strs");
  if (read_bool(request, "return_token_strs").value_or(false)) {
    out.begin_array();
    for (const TokenId id : tokens) out.value(model.tokenizer->token_string(id).value_or(""));
    out.end_array();
  } else {
    out.null();
  }
  out.end_object();
  return json_reply(out.take());
}

class TokenizeWork final : public TextWork {
 public:
  TokenizeWork(json::object request, std::shared_ptr<const Model> model, const config::ApiSettings& settings)
      : request_(std::move(request)), model_(std::move(model)), settings_(settings) {}

 private:
  std::optional<Answer> next() override {
    const auto tokens = tokens_of(request_, *model_, settings_);
    if (!tokens.ok()) return error_reply(tokens.error());
    return tokens_reply(request_, *model_, tokens.value());
  }

  const json::object request_;
  const std::shared_ptr<const Model> model_;
  const config::ApiSettings& settings_;
};

class DetokenizeWork final : public TextWork {
 public:
  DetokenizeWork(std::vector<TokenId> ids, std::shared_ptr<const Model> model) : ids_(std::move(ids)), model_(std::move(model)) {}

 private:
  std::optional<Answer> next() override {
    auto text = model_->tokenizer->decode(ids_, text::SpecialTokens::kKeep);
    if (!text.ok()) return error_reply(text.error());
    JsonOut out;
    out.begin_object();
    out.field("prompt", text.value());
    out.end_object();
    return json_reply(out.take());
  }

  const std::vector<TokenId> ids_;
  const std::shared_ptr<const Model> model_;
};

void list_field(JsonOut& out, std::string_view name, const std::vector<std::string>& values) {
  out.key(name);
  out.begin_array();
  for (const std::string& value : values) out.value(value);
  out.end_array();
}

}  // namespace

Result<Opening> open_tokenize(json::object request, std::shared_ptr<const Model> model, const config::ApiSettings& settings) {
  QUIRE_RETURN_IF_ERROR(check_request(request, Endpoint::kTokenize, *model, settings));
  const json::value* prompt = find_field(request, "prompt");
  if (prompt == nullptr && find_field(request, "messages") == nullptr) return invalid("prompt: it is missing; a string, or messages, is needed", "prompt");
  if (prompt != nullptr && !prompt->is_string()) return invalid("prompt: " + shown(*prompt) + " is not a string", "prompt");
  return Opening(std::unique_ptr<TextWork>(std::make_unique<TokenizeWork>(std::move(request), std::move(model), settings)));
}

Result<Opening> open_detokenize(const json::object& request, std::shared_ptr<const Model> model, const config::ApiSettings& settings) {
  QUIRE_RETURN_IF_ERROR(check_request(request, Endpoint::kDetokenize, *model, settings));
  const json::value* tokens = find_field(request, "tokens");
  if (tokens == nullptr) return invalid("tokens: it is missing; a list of token ids is needed", "tokens");
  std::vector<TokenId> ids;
  const json::array& list = tokens->as_array();
  if (list.size() > kMaxDetokenizedTokens) return invalid("tokens: " + std::to_string(list.size()) + " token ids; the limit is " + std::to_string(kMaxDetokenizedTokens), "tokens");
  ids.reserve(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto id = read_token_id(list[i], Place{"tokens", i}, model->vocab_size);
    if (!id.ok()) return id.error();
    ids.push_back(id.value());
  }
  auto work = std::make_unique<DetokenizeWork>(std::move(ids), std::move(model));
  constexpr std::size_t kFew = 16384;  // a few milliseconds: not worth a place in line behind texts
  if (list.size() <= kFew)
    if (auto answer = work->step()) return Opening(std::move(std::get<Reply>(*answer)));
  return Opening(std::unique_ptr<TextWork>(std::move(work)));
}

Result<Reply> tokenizer_info(const Model& model, const config::ApiSettings& settings) {
  if (!settings.enable_tokenizer_info) return Error{ErrorCode::kNotFound, "Not Found: start the server with --enable-tokenizer-info-endpoint", {}};
  auto parsed = parse_json(model.tokenizer->config_json());
  if (!parsed.ok()) return parsed.error();
  json::object out;
  if (parsed.value().is_object())
    for (const json::key_value_pair& member : parsed.value().get_object())
      if (member.key() != "vocab_file" && member.key() != "merges_file") out[member.key()] = plain_tokens(member.value());
  out["tokenizer_class"] = model.tokenizer->facts().tokenizer_class;
  if (model.chat_template == nullptr) out["chat_template"] = nullptr;
  else out["chat_template"] = model.chat_template->source();
  return json_reply(json::serialize(out));
}

Reply list_models(const Model& model, const config::ApiSettings& settings, std::int64_t created) {
  JsonOut out;
  out.begin_object();
  out.field("object", "list");
  out.key("data");
  out.begin_array();
  for (const std::string& name : settings.served_names) {
    out.begin_object();
    out.field("id", name);
    out.field("object", "model");
    out.field("created", created);
    out.field("owned_by", "quire");
    out.field("root", model.root);
    out.null_field("parent");
    out.field("max_model_len", model.max_model_len);
    out.key("permission");
    out.begin_array();
    out.end_array();
    list_field(out, "relaxed", model.relaxed);
    list_field(out, "warnings", model.warnings);
    out.end_object();
  }
  out.end_array();
  out.end_object();
  return json_reply(out.take());
}

}  // namespace quire::api
