// Chat messages: checked, content parts flattened, rendered through the model's template.
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <utility>

#include "api/fields.h"
#include "api/prompts.h"
#include "base/json.h"
#include "text/chat_template.h"

namespace quire::api {
namespace {

namespace json = boost::json;

std::string at(std::size_t index) { return "messages[" + std::to_string(index) + "]"; }

Result<std::string> part_text(const json::value& part, const std::string& where) {
  if (part.is_string()) return std::string(std::string_view(part.get_string()));
  const json::object* object = part.if_object();
  if (object == nullptr) return invalid(where + ".content: a part is " + shown(part) + ", not an object with a type", "messages");
  const json::value* type = object->if_contains("type");
  const std::string_view name = type != nullptr && type->is_string() ? std::string_view(type->get_string()) : std::string_view();
  if (name != "text" && name != "input_text" && name != "output_text" && name != "refusal" && name != "thinking")
    return Error{name.empty() ? ErrorCode::kInvalidArgument : ErrorCode::kUnsupported,
                 where + ".content: a part of type " + (type == nullptr ? "(missing)" : shown(*type)) + " cannot be read; this model takes parts of type \"text\"", "messages"};
  const json::value* text = object->if_contains(name == "refusal" || name == "thinking" ? name : "text");
  if (text == nullptr || !text->is_string()) return invalid(where + ".content: a part of type \"" + std::string(name) + "\" has no text", "messages");
  return std::string(std::string_view(text->get_string()));
}

// A string, null (clients send back assistant messages that have none) or a list of text parts, as one string.
Result<std::string> content_text(const json::object& message, const std::string& where) {
  const json::value* content = find_field(message, "content");
  if (content == nullptr) return std::string();
  if (content->is_string()) return std::string(std::string_view(content->get_string()));
  if (!content->is_array()) return invalid(where + ".content: " + shown(*content) + " is not a string or a list of parts", "messages");
  std::string text;
  for (const json::value& part : content->get_array()) {
    auto piece = part_text(part, where);
    if (!piece.ok()) return piece.error();
    if (&part != &content->get_array().front()) text += '\n';
    text += piece.value();
  }
  return text;
}

// Clients send tool call arguments as JSON text; templates expect the object.
void open_tool_arguments(json::object& message) {
  json::value* calls = message.if_contains("tool_calls");
  if (calls == nullptr || !calls->is_array()) return;
  for (json::value& call : calls->get_array()) {
    json::object* object = call.if_object();
    json::value* function = object == nullptr ? nullptr : object->if_contains("function");
    json::value* arguments = function == nullptr || !function->is_object() ? nullptr : function->get_object().if_contains("arguments");
    if (arguments == nullptr || !arguments->is_string()) continue;
    auto parsed = parse_json(std::string_view(arguments->get_string()), JsonLimits{.duplicate_keys = JsonLimits::DuplicateKeys::kKeepLast});
    if (parsed.ok() && parsed.value().is_object()) *arguments = std::move(parsed).value();
  }
}

struct Messages {
  json::array list;
  std::string last_role, last_content;
};

// What a request gives the template and the template never looks at would be lost without a word.
Status check_template_reads(const json::object& request, const text::ChatTemplate& chat_template) {
  for (const char* field : {"documents", "reasoning_effort"}) {
    const json::value* value = find_field(request, field);
    if (value == nullptr || (value->is_array() && value->get_array().empty()) || chat_template.reads(field)) continue;
    return Error{ErrorCode::kUnsupported, std::string(field) + ": this model's chat template does not read it, so it would change nothing", field};
  }
  return {};
}

// The same parts for a template that walks over them itself.
json::array content_parts(const json::array& parts, const std::string& where) {
  json::array out;
  for (const json::value& part : parts) out.push_back(json::object{{"type", "text"}, {"text", part_text(part, where).value()}});
  return out;
}

enum class Parts : unsigned char { kJoin, kKeep };

Result<Messages> normalise(const json::object& request, Parts parts) {
  const json::value* field = find_field(request, "messages");
  if (field == nullptr) return invalid("messages: it is missing; a list of {\"role\", \"content\"} is needed", "messages");
  if (field->as_array().empty()) return invalid("messages: the list is empty", "messages");
  Messages out;
  for (std::size_t i = 0; i < field->get_array().size(); ++i) {
    const json::object* message = field->get_array()[i].if_object();
    if (message == nullptr) return invalid(at(i) + ": " + shown(field->get_array()[i]) + " is not an object", "messages");
    const json::value* role = message->if_contains("role");
    if (role == nullptr || !role->is_string()) return invalid(at(i) + ".role: a string is needed", "messages");
    auto content = content_text(*message, at(i));
    if (!content.ok()) return content.error();
    json::object flat = *message;
    const json::value* given = find_field(*message, "content");
    if (parts == Parts::kKeep && given != nullptr && given->is_array()) flat["content"] = content_parts(given->get_array(), at(i));
    else flat["content"] = content.value();
    open_tool_arguments(flat);
    if (const json::value* calls = flat.if_contains("tool_calls"); calls != nullptr && calls->is_null()) flat.erase("tool_calls");
    out.last_role = std::string_view(role->get_string());
    out.last_content = std::move(content).value();
    out.list.push_back(std::move(flat));
  }
  return out;
}

Result<std::string> template_kwargs(const json::object& request) {
  json::object kwargs;
  if (const json::value* given = find_field(request, "chat_template_kwargs")) kwargs = given->as_object();
  for (const char* reserved : {"chat_template", "tokenize", "messages"})
    if (kwargs.contains(reserved)) return invalid(std::string("chat_template_kwargs: \"") + reserved + "\" cannot be set by a request", "chat_template_kwargs");
  if (const json::value* effort = find_field(request, "reasoning_effort")) kwargs["reasoning_effort"] = *effort;
  return kwargs.empty() ? std::string() : json::serialize(kwargs);
}

std::string list_json(const json::object& request, const char* field) {
  const json::value* value = find_field(request, field);
  return value == nullptr || value->as_array().empty() ? std::string() : json::serialize(*value);
}

Status check_tools(const json::object& request) {
  const json::value* choice = find_field(request, "tool_choice");
  const bool none = choice != nullptr && choice->is_string() && choice->get_string() == "none";
  if (!list_json(request, "tools").empty() && !none)
    return Error{ErrorCode::kUnsupported, "tools: calling of tools is not built yet; tool_choice \"none\" shows them to the template alone", "tools"};
  const bool automatic = choice != nullptr && choice->is_string() && choice->get_string() == "auto";
  if (choice != nullptr && !none && !automatic)
    return Error{ErrorCode::kUnsupported, "tool_choice: " + shown(*choice) + " is not built yet; allowed: \"none\"", "tool_choice"};
  return {};
}

}  // namespace

Result<ChatInput> read_chat(const json::object& request, const Model& model, const config::ApiSettings& settings) {
  QUIRE_RETURN_IF_ERROR(check_tools(request));
  ChatInput out;
  text::ChatTemplateInput& input = out.input;
  input.add_generation_prompt = read_bool(request, "add_generation_prompt").value_or(true);
  input.continue_final_message = read_bool(request, "continue_final_message").value_or(false);
  if (input.continue_final_message && read_bool(request, "add_generation_prompt").value_or(false))
    return invalid("continue_final_message and add_generation_prompt exclude each other; set one of them to false", "continue_final_message");
  // Its default is true, so continuing a message needs the explicit false, as in vLLM.
  if (input.continue_final_message && find_field(request, "add_generation_prompt") == nullptr)
    return invalid("continue_final_message needs add_generation_prompt: false", "continue_final_message");
  if (model.chat_template == nullptr)
    return invalid("This model's files have no chat template; give the server one with --chat-template, or use /v1/completions", "messages");
  QUIRE_RETURN_IF_ERROR(check_template_reads(request, *model.chat_template));
  auto messages = normalise(request, model.chat_template->accepts_content_parts() ? Parts::kKeep : Parts::kJoin);
  if (!messages.ok()) return messages.error();
  auto kwargs = template_kwargs(request);
  if (!kwargs.ok()) return kwargs.error();
  input.messages_json = json::serialize(messages->list);
  QUIRE_RETURN_IF_ERROR(check_text_bytes(input.messages_json.size(), "messages"));
  input.tools_json = list_json(request, "tools");
  input.documents_json = list_json(request, "documents");
  input.kwargs_json = std::move(kwargs).value();
  // All that the template is given counts, whatever the field: it is rendered several times.
  std::size_t bytes = input.messages_json.size();
  for (const auto& [field, text] : {std::pair("tools", &input.tools_json), {"documents", &input.documents_json}, {"chat_template_kwargs", &input.kwargs_json}})
    QUIRE_RETURN_IF_ERROR(check_text_bytes(bytes += text->size(), field));
  input.allow_control_tokens_in_content = settings.allow_control_tokens_in_content;
  out.add = read_add_special_tokens(request, text::AddSpecialTokens::kNo);
  out.role = input.add_generation_prompt ? settings.response_role : messages->last_role;
  if (messages->last_role == out.role) out.last_content = std::move(messages->last_content);
  return out;
}

Result<ChatPrompt> render_chat(const ChatInput& chat, const Model& model) {
  auto rendered = model.chat_template->render(chat.input, chat.add);
  if (!rendered.ok()) return rendered.error();
  for (const TokenId id : rendered->tokens)
    if (id < 0 || id >= model.vocab_size)
      return invalid("messages: the template gives token id " + std::to_string(id) + ", which the model's vocabulary of " + std::to_string(model.vocab_size) + " lacks", "messages");
  return ChatPrompt{.tokens = std::move(rendered->tokens), .role = chat.role, .last_content = chat.last_content};
}

}  // namespace quire::api
