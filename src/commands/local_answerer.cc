// Answers by a model in this process, by the API's own rules for messages and sampling.
#include <chrono>
#include <utility>

#include "api/sampling.h"
#include "commands/answerer.h"
#include "commands/local_request.h"

namespace quire::commands {
namespace {

using Clock = std::chrono::steady_clock;

// For the engine to end a request that was stopped: a step may be running.
constexpr std::chrono::seconds kStopTime(60);

class LocalAnswerer final : public Answerer {
 public:
  LocalAnswerer(const Prepared& prepared, const LoadedModel& loaded) : prepared_(prepared), engine_(loaded.engine()), model_(api_model(prepared, &loaded)) {}
  [[nodiscard]] const std::string& model() const override { return prepared_.config.api.served_names.front(); }

  Result<ChatAnswer> answer(const boost::json::object& request, const Following& how) override {
    auto made = make(request);
    if (!made.ok()) return made.error();
    const std::vector<TokenId> ends = end_tokens(made->sampling);
    text::IncrementalDetokenizer detokenizer(prepared_.tokenizer, made->prompt, text::SpecialTokens::kSkip);
    auto events = std::make_shared<engine::EventQueue>();
    const auto seed = request.contains("seed") ? engine::SeedSource::kRequest : engine::SeedSource::kEngine;
    const auto id = engine_->submit(std::move(made).value(), seed, events);
    if (!id.ok()) return id.error();
    auto followed = follow({*engine_, *events}, detokenizer, ends, how);
    if (!followed.ok() || !followed->finish.has_value()) engine_->cancel(id.value());
    if (!followed.ok()) return followed.error();
    if (!followed->finish.has_value()) followed->finish = wait_for_end(*events);
    ChatAnswer out{.text = std::move(followed->text), .finish_reason = "stopped", .usage = {}};
    if (!followed->finish.has_value()) return out;
    if (followed->finish->reason != FinishReason::kAbort) out.finish_reason = finish_reason_name(followed->finish->reason);
    out.usage = {followed->finish->num_prompt_tokens, followed->finish->num_output_tokens};
    return out;
  }

 private:
  Result<engine::GenerateRequest> make(const boost::json::object& request) const {
    const config::ApiSettings& settings = prepared_.config.api;
    auto read = read_request(request, *model_, settings);
    if (!read.ok()) return read.error();
    const auto room = api::fit_max_tokens(read->sampling, static_cast<std::int64_t>(read->prompt.size()), *model_, settings);
    if (!room.ok()) return room.error();
    read->sampling.params.max_tokens = room.value();
    return engine::GenerateRequest{.prompt = std::move(read->prompt), .sampling = std::move(read->sampling.params), .client_id = "chat"};
  }
  // Its text is not wanted any more.
  static std::optional<engine::FinishEvent> wait_for_end(engine::EventQueue& events) {
    const auto deadline = Clock::now() + kStopTime;
    while (Clock::now() < deadline) {
      (void)events.wait(100);
      for (const engine::AddressedEvent& e : events.drain())
        if (const auto* finish = std::get_if<engine::FinishEvent>(&e.event)) return *finish;
    }
    return std::nullopt;
  }

  const Prepared& prepared_;
  std::shared_ptr<engine::Engine> engine_;
  std::shared_ptr<const api::Model> model_;
};

}  // namespace

std::unique_ptr<Answerer> make_local_answerer(const Prepared& prepared, const LoadedModel& loaded) { return std::make_unique<LocalAnswerer>(prepared, loaded); }

}  // namespace quire::commands
