#include <algorithm>
#include <boost/json/object.hpp>

#include "base/files.h"
#include "base/suggest.h"
#include "config/resolve_parts.h"
#include "model/generation_fields.h"

namespace quire::config {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxTemplateBytes = 4u << 20;

// --override-generation-config: the fields of generation_config.json, and max_tokens as another name of max_new_tokens.
void override_generation(Resolution& r, json::object changes) {
  const std::string flag = r.in.options.spelling("override-generation-config");
  const auto wrong = [&](const std::string& text) { r.problems.add("--override-generation-config", flag + ": " + text); };
  if (const json::value* length = changes.if_contains("max_tokens")) {
    if (changes.contains("max_new_tokens")) wrong("max_tokens and max_new_tokens are the same; keep one");
    const json::value kept = *length;
    changes.erase("max_tokens");
    changes.emplace("max_new_tokens", kept);
  }
  const auto names = model::generation_field_names();
  for (const auto& [key, value] : changes)
    if (std::find(names.begin(), names.end(), std::string_view(key)) == names.end()) wrong("unknown key " + quote_value(key) + did_you_mean(key, names));
  auto read = model::read_generation_fields(changes, r.in.model.vocab_size, std::move(r.out.api.defaults));
  for (const std::string& text : read.wrong) wrong(text);
  r.out.api.defaults = std::move(read.defaults);
}

// A template is text when it holds template marks or line breaks, else the name of a file.
void resolve_template(Resolution& r) {
  const auto given = r.in.options.given_text("chat-template");
  if (!given) return;
  if (given->find("{{") != std::string::npos || given->find("{%") != std::string::npos || given->find('\n') != std::string::npos) {
    r.out.api.chat_template_text = *given;
    return;
  }
  auto text = read_file(*given, kMaxTemplateBytes);
  if (!text.ok()) {
    std::string why = text.error().message;
    if (why.starts_with(*given + ": ")) why.erase(0, given->size() + 2);  // the value is told, shortened, before it
    r.problems.add("--chat-template", r.in.options.spelling("chat-template") + " " + quote_value(*given) +
                                          ": is no template text and cannot be read as a file: " + why);
    return;
  }
  r.out.api.chat_template_text = std::move(text).value();
}

void resolve_api(Resolution& r) {
  const Options& o = r.in.options;
  ApiSettings& api = r.out.api;
  api.served_names = o.list("served-model-name");
  if (api.served_names.empty()) api.served_names.push_back(o.model());
  for (std::size_t i = 0; i < api.served_names.size(); ++i) {
    if (std::find(api.served_names.begin(), api.served_names.begin() + static_cast<std::ptrdiff_t>(i), api.served_names[i]) !=
        api.served_names.begin() + static_cast<std::ptrdiff_t>(i)) {
      r.problems.add("--served-model-name", "--served-model-name " + quote_value(api.served_names[i]) + ": is given twice");
    }
  }
  resolve_template(r);
  api.allow_control_tokens_in_content = o.boolean("allow-control-tokens-in-content");
  api.response_role = o.text("response-role");
  api.return_tokens_as_token_ids = o.boolean("return-tokens-as-token-ids");
  api.enable_prompt_tokens_details = o.boolean("enable-prompt-tokens-details");
  api.enable_force_include_usage = o.boolean("enable-force-include-usage");
  api.enable_tokenizer_info = o.boolean("enable-tokenizer-info-endpoint");
  api.max_prompts_per_request = count_of(o, "max-prompts-per-request");
  api.max_stop_strings = count_of(o, "max-stop-strings");
  api.max_n = count_of(o, "max-n");
  api.defaults = r.in.generation;
  override_generation(r, o.json("override-generation-config"));
}

void resolve_http(Resolution& r) {
  const Options& o = r.in.options;
  HttpSettings& http = r.out.http;
  const auto count = [&](std::string_view name) { return count_of(o, name); };
  http.host = o.given_text("host").value_or("");
  http.port = static_cast<std::uint16_t>(number_of(o, "port"));
  http.uds = o.text("uds");
  if (!http.uds.empty() && (o.given("host") || o.given("port"))) r.note(Adjustment::Severity::kWarning, "--uds", "wins over --host and --port");
  http.api_keys = o.list("api-key");
  if (http.api_keys.empty() && r.in.environment.api_key) http.api_keys.push_back(*r.in.environment.api_key);
  http.cors_origins = o.list("allowed-origins");
  http.cors_methods = o.list("allowed-methods");
  http.cors_headers = o.list("allowed-headers");
  http.cors_credentials = o.boolean("allow-credentials");
  http.max_body_bytes = number_of(o, "max-body-bytes");
  http.max_connections = count("max-connections");
  http.keep_alive_seconds = count("timeout-keep-alive");
  if (!o.given("timeout-keep-alive") && r.in.environment.keep_alive_seconds) http.keep_alive_seconds = *r.in.environment.keep_alive_seconds;
  http.header_timeout_seconds = count("header-timeout");
  http.write_timeout_seconds = count("write-timeout");
  http.shutdown_timeout_seconds = count("shutdown-timeout");
  http.io_threads = count("io-threads");
  http.tokenizer_threads = static_cast<std::int32_t>(o.integer("tokenizer-threads").value_or(std::clamp(r.in.machine.num_cores / 4, 2, 8)));
  http.access_log = !o.boolean("disable-uvicorn-access-log");
  http.request_id_headers = o.boolean("enable-request-id-headers");
  http.server_load_tracking = o.boolean("enable-server-load-tracking");
  http.log_requests = o.boolean("enable-log-requests");
  http.log_stats = !o.boolean("disable-log-stats");
  http.log_stats_interval_seconds = r.in.environment.log_stats_interval_seconds.value_or(10);
  http.root_path = o.text("root-path");
}

}  // namespace

void resolve_service(Resolution& r) {
  resolve_api(r);
  resolve_http(r);
}

}  // namespace quire::config
