#include "commands/local_request.h"

#include <utility>

#include "api/prompts.h"

namespace quire::commands {
namespace {

using boost::json::object;

Result<std::vector<TokenId>> chat_tokens(const object& fields, const api::Model& model, const config::ApiSettings& settings) {
  const auto input = api::read_chat(fields, model, settings);
  if (!input.ok()) return input.error();
  auto rendered = api::render_chat(input.value(), model);
  if (!rendered.ok()) return rendered.error();
  return std::move(rendered->tokens);
}

Result<std::vector<TokenId>> text_tokens(const object& fields, const api::Model& model) {
  auto reader = api::PromptReader::open(fields, model, {.limit = {.n = 1, .max_prompts = 1, .max_queue = 1}});
  if (!reader.ok()) return reader.error();
  QUIRE_RETURN_IF_ERROR(reader->read_text());
  return std::move(reader->take().front().tokens);
}

}  // namespace

Result<LocalRequest> read_request(const object& fields, const api::Model& model, const config::ApiSettings& settings) {
  const bool chat = fields.contains("messages");
  auto tokens = chat ? chat_tokens(fields, model, settings) : text_tokens(fields, model);
  if (!tokens.ok()) return tokens.error();
  auto sampling = api::read_sampling(fields, chat ? api::kChat : api::kCompletions, model, settings);
  if (!sampling.ok()) return sampling.error();
  QUIRE_RETURN_IF_ERROR(api::finish_sampling(fields, model, sampling.value()));
  return LocalRequest{std::move(tokens).value(), std::move(sampling).value()};
}

}  // namespace quire::commands
