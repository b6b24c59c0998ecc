#include "commands/openai_stream.h"

#include <boost/json/serialize.hpp>
#include <chrono>
#include <cmath>

#include "base/json.h"
#include "base/log.h"

namespace quire::commands {
namespace {

namespace json = boost::json;

const json::object* object_in(const json::object& fields, const char* name) {
  const json::value* value = fields.if_contains(name);
  return value == nullptr ? nullptr : value->if_object();
}

std::string text_in(const json::object& fields, const char* name) {
  const json::value* value = fields.if_contains(name);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : std::string();
}

std::optional<std::int64_t> count_in(const json::object& fields, const char* name) {
  const json::value* value = fields.if_contains(name);
  return value != nullptr && value->is_int64() && value->get_int64() >= 0 ? std::optional(value->get_int64()) : std::nullopt;
}

// {"error": {"message": ...}} as OpenAI has it, {"error": "..."}, {"message": ...} and {"detail": ...} as others do; "": none.
std::string error_text(const json::object& fields) {
  if (const json::object* error = object_in(fields, "error")) return text_in(*error, "message").empty() ? json::serialize(*error) : text_in(*error, "message");
  for (const char* name : {"error", "message", "detail"})
    if (std::string text = text_in(fields, name); !text.empty()) return text;
  return {};
}

JsonLimits answer_limits() { return {.duplicate_keys = JsonLimits::DuplicateKeys::kKeepLast}; }

}  // namespace

std::string_view route_path(OpenAiRoute route) { return route == OpenAiRoute::kChat ? "/v1/chat/completions" : "/v1/completions"; }
OpenAiRoute route_named(std::string_view name) { return name.find("chat") == std::string_view::npos ? OpenAiRoute::kCompletions : OpenAiRoute::kChat; }

TokenUsage read_usage(const json::object& fields) {
  const json::object* usage = object_in(fields, "usage");
  if (usage == nullptr) return {};
  return {count_in(*usage, "prompt_tokens"), count_in(*usage, "completion_tokens")};
}

Result<StreamEvent> read_stream_event(std::string_view data) {
  StreamEvent out;
  if (data == "[DONE]") {
    out.done = true;
    return out;
  }
  const auto parsed = parse_json(data, answer_limits());
  if (!parsed.ok() || !parsed->is_object()) return Error{ErrorCode::kCorrupt, "an event of the stream is no JSON object", {}};
  const json::object& fields = parsed->get_object();
  if (const json::value* error = fields.if_contains("error"); error != nullptr && !error->is_null()) return Error{ErrorCode::kUnavailable, "the server: " + loggable(error_text(fields)), {}};
  if (object_in(fields, "usage") != nullptr) out.usage = read_usage(fields);
  const json::value* choices = fields.if_contains("choices");
  if (choices == nullptr || !choices->is_array() || choices->get_array().empty() || !choices->get_array().front().is_object()) return out;
  const json::object& choice = choices->get_array().front().get_object();
  const json::object* delta = object_in(choice, "delta");
  out.text = delta != nullptr ? text_in(*delta, "content") : text_in(choice, "text");
  if (delta != nullptr) out.reasoning = text_in(*delta, "reasoning_content").empty() ? text_in(*delta, "reasoning") : text_in(*delta, "reasoning_content");
  out.finish_reason = text_in(choice, "finish_reason");
  return out;
}

std::string failure_of(const http::ClientOutcome& outcome) {
  if (!outcome.failure.empty()) return loggable(outcome.failure);
  if (outcome.ok()) return {};
  const auto parsed = parse_json(outcome.body, answer_limits());
  std::string said = parsed.ok() && parsed->is_object() ? error_text(parsed->get_object()) : outcome.body;
  return "HTTP " + std::to_string(outcome.status) + (said.empty() ? "" : ": " + loggable(said));
}

http::ClientLimits client_limits(const config::Options& options) {
  const std::chrono::milliseconds patience(std::llround(options.number("read-timeout").value() * 1000.0));
  return {.silence = patience, .whole = patience};
}

Result<std::vector<std::string>> list_models(http::Client& client) {
  const http::ClientOutcome outcome = http::ask(client, {.method = "GET", .path = "/v1/models"});
  if (const std::string failure = failure_of(outcome); !failure.empty()) return Error{ErrorCode::kUnavailable, "--base-url: GET /v1/models: " + failure, "--base-url"};
  std::vector<std::string> names;
  const auto parsed = parse_json(outcome.body, answer_limits());
  const json::value* list = parsed.ok() && parsed->is_object() ? parsed->get_object().if_contains("data") : nullptr;
  if (list != nullptr && list->is_array())
    for (const json::value& item : list->get_array())
      if (const json::object* model = item.if_object(); model != nullptr && !text_in(*model, "id").empty()) names.push_back(text_in(*model, "id"));
  if (names.empty()) return Error{ErrorCode::kUnavailable, "--base-url: GET /v1/models names no model; give one with --model", "--base-url"};
  return names;
}

}  // namespace quire::commands
