// Answers by a server of the OpenAI API.
#include <boost/json/serialize.hpp>
#include <utility>

#include "commands/answerer.h"

namespace quire::commands {
namespace {

constexpr std::chrono::milliseconds kPoll(50);

class RemoteAnswerer final : public Answerer {
 public:
  RemoteAnswerer(std::unique_ptr<http::Client> client, std::string model) : client_(std::move(client)), model_(std::move(model)) {}
  [[nodiscard]] const std::string& model() const override { return model_; }

  Result<ChatAnswer> answer(const boost::json::object& request, const Following& how) override {
    boost::json::object body = request;
    body["model"] = model_;
    body["stream"] = true;
    body["stream_options"] = boost::json::object{{"include_usage", true}};
    Running running;
    running.id = client_->send({.path = std::string(route_path(OpenAiRoute::kChat)), .body = boost::json::serialize(body)});
    while (client_->num_open() > 0) {
      for (http::ClientEvent& e : client_->wait(http::Client::Clock::now() + kPoll)) {
        if (e.end.has_value()) running.outcome = std::move(*e.end);
        else if (!running.stopped && !running.error.has_value()) take(running, e.data, how);
      }
      if (how.stopped && !running.stopped && how.stopped()) stop(running);
    }
    if (running.error.has_value()) return *running.error;
    const std::string failure = running.stopped ? "" : failure_of(running.outcome);
    if (!failure.empty()) return Error{ErrorCode::kUnavailable, failure, {}};
    if (!running.stopped && running.answer.finish_reason.empty()) return Error{ErrorCode::kUnavailable, "the server's stream ended in the middle of the answer", {}};
    return std::move(running.answer);
  }

 private:
  struct Running {
    http::Client::Id id = 0;
    ChatAnswer answer;
    http::ClientOutcome outcome;
    std::optional<Error> error;
    bool stopped = false;
  };

  void stop(Running& running) {
    running.stopped = true;
    running.answer.finish_reason = "stopped";
    client_->cancel(running.id);
  }
  void take(Running& running, std::string_view data, const Following& how) {
    const auto event = read_stream_event(data);
    if (!event.ok()) {
      running.error = event.error();
      return client_->cancel(running.id);
    }
    running.answer.text += event->text;
    if (!event->finish_reason.empty()) running.answer.finish_reason = event->finish_reason;
    if (event->done && running.answer.finish_reason.empty()) running.answer.finish_reason = "stop";
    if (event->usage.has_value()) running.answer.usage = *event->usage;
    if (!event->has_text()) return;
    const auto reader = how.show(event->reasoning + event->text);  // thinking is shown, and no part of the answer
    if (!reader.ok()) running.error = reader.error();
    if (!reader.ok() || reader.value() == Reader::kGone) stop(running);
  }

  std::unique_ptr<http::Client> client_;
  std::string model_;
};

}  // namespace

Result<std::unique_ptr<Answerer>> make_remote_answerer(const http::Target& target, const std::string& api_key, const std::string& model, const http::ClientLimits& limits) {
  auto client = http::Client::open(target, api_key, limits);
  if (!client.ok()) return client.error();
  std::string name = model;
  if (name.empty()) {
    const auto names = list_models(*client.value());
    if (!names.ok()) return names.error();
    name = names->front();
  }
  return std::unique_ptr<Answerer>(std::make_unique<RemoteAnswerer>(std::move(client).value(), std::move(name)));
}

}  // namespace quire::commands
