#include "commands/run.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <string>

#include "base/log.h"
#include "commands/console.h"
#include "commands/startup.h"

namespace quire::commands {
namespace {

constexpr std::string_view kCommand = "run";
// No token for this long means that something is stuck; the answer so far has been printed.
constexpr int kEventTimeoutMs = 600'000;

Result<std::vector<TokenId>> prompt_tokens(const config::RunRequest& request, const Prepared& p) {
  if (!request.chat) return p.tokenizer->encode(request.prompt, text::AddSpecialTokens::kYes);
  if (p.chat_template == nullptr) return invalid("this model has no chat template; give one with --chat-template or leave --chat out", "--chat");
  text::ChatTemplateInput input;
  input.messages_json = boost::json::serialize(boost::json::array{boost::json::object{{"role", "user"}, {"content", request.prompt}}});
  auto rendered = p.chat_template->render(input, text::AddSpecialTokens::kNo);
  if (!rendered.ok()) return rendered.error();
  return std::move(rendered).value().tokens;
}

SamplingParams sampling(const config::RunRequest& request, const Prepared& p) {
  const model::GenerationDefaults& d = p.config.api.defaults;
  SamplingParams s;
  s.temperature = request.temperature.value_or(d.temperature.value_or(1.0));
  s.top_p = request.top_p.value_or(d.top_p.value_or(1.0));
  s.top_k = static_cast<std::int32_t>(std::max<std::int64_t>(0, request.top_k.value_or(d.top_k.value_or(0))));
  s.min_p = d.min_p.value_or(0.0);
  s.repetition_penalty = d.repetition_penalty.value_or(1.0);
  s.max_tokens = static_cast<std::int32_t>(request.max_tokens);
  s.seed = static_cast<std::uint64_t>(request.seed.value_or(0));
  s.eos_token_ids = p.config.model.eos_token_ids;
  for (const TokenId id : d.eos_token_ids)
    if (std::find(s.eos_token_ids.begin(), s.eos_token_ids.end(), id) == s.eos_token_ids.end()) s.stop_token_ids.push_back(id);  // as serve does
  return s;
}

enum class Show : std::uint8_t { kPieces, kNothing };

struct RunAnswer {
  std::string text;
  std::optional<engine::FinishEvent> finish;  // nullopt: nobody reads any more, so the rest was not made
};

// Prints pieces as they come, or leaves that to the caller.
Result<RunAnswer> follow(engine::EventQueue& events, text::IncrementalDetokenizer& detokenizer, const std::vector<TokenId>& ends, Show how) {
  RunAnswer out;
  const auto show = [&](const std::string& piece) {
    out.text += piece;
    return how == Show::kPieces ? write_output(piece) : Result<Reader>(Reader::kThere);
  };
  while (events.wait(kEventTimeoutMs)) {
    for (const engine::AddressedEvent& e : events.drain()) {
      Result<Reader> reader = Reader::kThere;
      if (const auto* token = std::get_if<engine::TokenEvent>(&e.event)) {
        if (std::find(ends.begin(), ends.end(), token->token) == ends.end()) reader = show(detokenizer.push(token->token));
      } else if (const auto* finish = std::get_if<engine::FinishEvent>(&e.event)) {
        reader = show(detokenizer.finish());
        out.finish = *finish;
      }
      if (!reader.ok()) return reader.error();
      if (out.finish.has_value() && out.finish->error.has_value()) return *out.finish->error;
      if (out.finish.has_value() || reader.value() == Reader::kGone) return out;
    }
  }
  return Error{ErrorCode::kInternal, "no token for 10 minutes", {}};
}

std::string answer_json(const Prepared& p, const RunAnswer& answer) {
  const boost::json::object out{{"model", p.config.api.served_names.front()},
                                {"text", answer.text},
                                {"finish_reason", finish_reason_name(answer.finish->reason)},
                                {"usage", {{"prompt_tokens", answer.finish->num_prompt_tokens}, {"completion_tokens", answer.finish->num_output_tokens}}}};
  return boost::json::serialize(out) + "\n";
}

}  // namespace

int run(const config::RunCommand& command, const StartupSwitches& switches) {
  StartupTimeline timeline;
  auto prepared = prepare(command.options, timeline);
  if (!prepared.ok()) return report_error(kCommand, prepared.error());
  const Prepared& p = prepared.value();
  if (command.options.boolean("print-config")) return print_config(kCommand, command.options, p.config);
  auto tokens = prompt_tokens(command.request, p);
  if (!tokens.ok()) return report_error(kCommand, tokens.error());
  engine::HealthMonitor health;
  auto loaded = LoadedModel::load(p, std::make_shared<engine::Metrics>(metrics_config(p.config)), health, timeline, switches);
  if (!loaded.ok()) return report_error(kCommand, loaded.error());
  QUIRE_LOG_INFO("start-up: {}", timeline.text());

  engine::GenerateRequest request{.prompt = tokens.value(), .sampling = sampling(command.request, p), .client_id = "run"};
  const auto room = p.config.engine.scheduler.max_model_len - static_cast<std::int32_t>(tokens->size());
  request.sampling.max_tokens = std::max(1, std::min(request.sampling.max_tokens, room));
  std::vector<TokenId> ends = request.sampling.eos_token_ids;
  ends.insert(ends.end(), request.sampling.stop_token_ids.begin(), request.sampling.stop_token_ids.end());
  auto events = std::make_shared<engine::EventQueue>();
  const auto id = loaded.value()->engine()->submit(std::move(request), command.request.seed.has_value() ? engine::SeedSource::kRequest : engine::SeedSource::kEngine, events);
  if (!id.ok()) return report_error(kCommand, id.error());
  const bool json = command.options.boolean("json");
  text::IncrementalDetokenizer detokenizer(p.tokenizer, tokens.value(), text::SpecialTokens::kSkip);
  const auto answer = follow(*events, detokenizer, ends, json ? Show::kNothing : Show::kPieces);
  if (!answer.ok()) return report_error(kCommand, answer.error());
  return print_answer(kCommand, json ? answer_json(p, answer.value()) : "\n");
}

}  // namespace quire::commands
