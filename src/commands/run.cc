#include "commands/run.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <algorithm>
#include <string>

#include "api/sampling.h"
#include "base/log.h"
#include "base/sampling_ranges.h"
#include "commands/console.h"
#include "commands/follow.h"
#include "commands/local_request.h"
#include "commands/startup.h"

namespace quire::commands {
namespace {

namespace json = boost::json;

constexpr std::string_view kCommand = "run";

// The command line as the API's request, so that prompt, sampling and limits follow the same rules here and there.
json::object as_request(const config::RunCommand& command) {
  const config::RunRequest& asked = command.request;
  json::object out;
  if (asked.chat) {
    out["messages"] = json::array{json::object{{"role", "user"}, {"content", asked.prompt}}};
  } else {
    out["prompt"] = asked.prompt;
  }
  const auto put = [&](const SamplingRange& range, const auto& value) {
    if (value.has_value()) out[json::string_view(range.name.data(), range.name.size())] = *value;
  };
  put(sampling_range::kTemperature, asked.temperature);
  put(sampling_range::kTopP, asked.top_p);
  put(sampling_range::kTopK, asked.top_k);
  if (asked.seed.has_value()) out["seed"] = *asked.seed;
  out["max_tokens"] = command.options.given("max-tokens") ? json::value(asked.max_tokens) : json::value(nullptr);  // null: the rest of the context
  return out;
}

// Before anything large is loaded.
Result<engine::GenerateRequest> make_request(const config::RunCommand& command, const Prepared& p) {
  const config::ApiSettings& settings = p.config.api;
  const auto model = api_model(p, nullptr);
  if (command.request.chat && model->chat_template == nullptr) return invalid("this model has no chat template; give one with --chat-template or leave --chat out", "--chat");
  auto read = read_request(as_request(command), *model, settings);
  if (!read.ok()) return read.error();
  SamplingParams& params = read->sampling.params;
  const auto num_prompt = static_cast<std::int64_t>(read->prompt.size());
  const auto room = api::fit_max_tokens(read->sampling, num_prompt, *model, settings);
  if (!room.ok() && num_prompt >= model->max_model_len) return invalid(room.error().message, "--prompt");
  if (!room.ok())
    return invalid("--max-tokens " + std::to_string(command.request.max_tokens) + ": the prompt has " + std::to_string(num_prompt) + " tokens and the context " + std::to_string(model->max_model_len) +
                       ", so at most " + std::to_string(model->max_model_len - num_prompt) + " fit; without the flag the answer ends where the context does",
                   "--max-tokens");
  params.max_tokens = static_cast<std::int32_t>(std::min<std::int64_t>(room.value(), command.request.max_tokens));
  if (params.max_tokens < command.request.max_tokens)
    QUIRE_LOG_INFO("--max-tokens: {} instead of {}: that is what the context and generation_config.json leave", params.max_tokens, command.request.max_tokens);
  return engine::GenerateRequest{.prompt = std::move(read->prompt), .sampling = std::move(params), .client_id = "run"};
}

std::string answer_json(const Prepared& p, const Followed& answer) {
  const json::object out{{"model", p.config.api.served_names.front()},
                                {"text", answer.text},
                                {"finish_reason", finish_reason_name(answer.finish->reason)},
                                {"usage", {{"prompt_tokens", answer.finish->num_prompt_tokens}, {"completion_tokens", answer.finish->num_output_tokens}}}};
  return json::serialize(out) + "\n";
}

}  // namespace

int run(const config::RunCommand& command, const StartupSwitches& switches) {
  StartupTimeline timeline;
  auto prepared = prepare(command.options, timeline);
  if (!prepared.ok()) return report_error(kCommand, prepared.error());
  const Prepared& p = prepared.value();
  if (command.options.boolean("print-config")) return print_config(kCommand, command.options, p.config);
  log_banner(p, BannerInputs::Server::kNone);
  auto made = make_request(command, p);
  if (!made.ok()) return report_error(kCommand, made.error());
  engine::HealthMonitor health;
  auto loaded = LoadedModel::load(p, std::make_shared<engine::Metrics>(metrics_config(p.config)), health, timeline, switches);
  if (!loaded.ok()) return report_error(kCommand, loaded.error());
  QUIRE_LOG_INFO("start-up: {}", timeline.text());

  const std::vector<TokenId> prompt = made->prompt;
  const std::vector<TokenId> ends = end_tokens(made->sampling);
  auto events = std::make_shared<engine::EventQueue>();
  const auto id = loaded.value()->engine()->submit(std::move(made).value(), command.request.seed.has_value() ? engine::SeedSource::kRequest : engine::SeedSource::kEngine, events);
  if (!id.ok()) return report_error(kCommand, id.error());
  const bool json = command.options.boolean("json");
  text::IncrementalDetokenizer detokenizer(p.tokenizer, prompt, text::SpecialTokens::kSkip);
  const auto answer = follow({*loaded.value()->engine(), *events}, detokenizer, ends, {.show = [json](const std::string& piece) { return json ? Result<Reader>(Reader::kThere) : write_output(piece); }});
  if (!answer.ok()) return report_error(kCommand, answer.error());
  return print_answer(kCommand, json ? answer_json(p, answer.value()) : "\n");
}

}  // namespace quire::commands
