// Any bytes as the body of a request. The first byte chooses the route: c /v1/completions, m /v1/chat/completions, t /tokenize,
// d /detokenize; any other is taken modulo four. The answer is a whole one or an error that names its status, never 500, and what began
// to generate gives good events until it ends or is given up. The tokenizer and template are gsm-tiny's, the tokens a script's.
#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "api/mailbox.h"
#include "api/script_executor.h"
#include "api/service.h"
#include "base/check.h"
#include "base/json.h"
#include "base/log.h"
#include "engine/engine.h"
#include "engine/metrics.h"
#include "fuzz/target.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace quire::fuzz {
namespace {

constexpr std::size_t kMaxDeliveries = 64;  // then the client is gone: a request may ask for 128 x 2048 tokens
constexpr int kEventMilliseconds = 60'000;  // a bound for hanging
constexpr std::string_view kLetters = "cmtd";
constexpr std::string_view kPaths[] = {"/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize"};

class Server {
 public:
  Server() {
    QUIRE_CHECK(init_logging("off").ok());
    const std::string folder = QUIRE_SOURCE_DIR "/models/gsm-tiny";
    const auto tokenizer = text::Tokenizer::load(folder);
    QUIRE_CHECK(tokenizer.ok()) << tokenizer.error().message;
    const auto chat = text::ChatTemplate::load(folder, tokenizer.value(), std::nullopt);
    QUIRE_CHECK(chat.ok()) << chat.error().message;
    const auto words = tokenizer.value()->encode(" 12 apples and 7 pears.", text::AddSpecialTokens::kNo);
    script_->play(words.value());
    engine::EngineConfig config;
    config.scheduler.max_num_seqs = 64;
    config.scheduler.num_blocks = 4096;
    engine_ = std::make_shared<engine::Engine>(config, std::make_unique<api::test::ScriptExecutor>(script_, 0), std::make_shared<engine::Metrics>(engine::MetricsConfig{.model_name = "m", .max_model_len = 2048}));
    engine_->start();
    auto model = std::make_shared<api::Model>();
    model->tokenizer = tokenizer.value();
    model->chat_template = chat.value();
    model->engine = engine_;
    model->vocab_size = 576;
    model->max_model_len = 2048;
    model->eos_token_ids = {0};
    service_.attach(model);
  }

  void ask(std::string_view path, std::string_view body) {
    api::Call call;
    call.route = api::find_route("POST", path).route;
    call.content_type = "application/json";
    call.body = std::string(body);
    api::Answer answer = read(call);
    if (const auto* reply = std::get_if<api::Reply>(&answer)) check(*reply);
    else run(*std::get<std::unique_ptr<api::Generation>>(answer));
    if (++num_asked_ % 256 == 0) check_idle();
  }

 private:
  api::Answer read(const api::Call& call) {
    api::Opening opening = service_.open(call);
    if (auto* reply = std::get_if<api::Reply>(&opening)) return std::move(*reply);
    if (auto* generation = std::get_if<std::unique_ptr<api::Generation>>(&opening)) return std::move(*generation);
    api::TextWork& work = *std::get<std::unique_ptr<api::TextWork>>(opening);
    for (;;)
      if (auto done = work.step()) return std::move(*done);
  }

  void run(api::Generation& generation) {
    const Status submitted = generation.submit(mailbox_);
    if (!submitted.ok()) return check(api::error_reply(submitted.error()));
    for (std::size_t i = 0; i < kMaxDeliveries && !generation.finished(); ++i) {
      QUIRE_CHECK(mailbox_.wait(kEventMilliseconds)) << "no event in time: " << state_of_engine() << ", " << mailbox_.num_requests() << " requests in the mailbox";
      mailbox_.deliver();
      check_events(generation.take_events());
    }
    if (generation.finished() && !generation.streaming()) check(generation.reply());
    generation.cancel();
  }

  static void check(const api::Reply& reply) {
    QUIRE_CHECK(reply.status == 200 || (reply.status >= 400 && reply.status != 500)) << reply.status << " " << reply.body;
    const auto parsed = parse_json(reply.body);
    QUIRE_CHECK(parsed.ok()) << parsed.error().message << " in " << reply.body.substr(0, 1000);
    if (reply.status == 200) return;
    const auto& error = parsed.value().as_object().at("error").as_object();
    QUIRE_CHECK_EQ(error.at("code").as_int64(), reply.status);
    QUIRE_CHECK(!error.at("message").as_string().empty());
  }

  static void check_events(std::string_view events) {
    while (!events.empty()) {
      const std::size_t end = events.find("\n\n");
      QUIRE_CHECK(end != std::string_view::npos && events.starts_with("data: ")) << events.substr(0, 1000);
      const std::string_view event = events.substr(6, end - 6);
      QUIRE_CHECK(event == "[DONE]" || parse_json(event).ok()) << event.substr(0, 1000);
      events.remove_prefix(end + 2);
    }
  }

  std::string state_of_engine() const {
    const engine::EngineStatus s = engine_->status();
    return "state " + std::to_string(static_cast<int>(s.state)) + ", stage " + std::to_string(static_cast<int>(s.stage)) + " for " + std::to_string(s.stage_ms) + " ms, " + std::to_string(s.steps_done) + " steps, " +
           std::to_string(s.num_running) + " running, " + std::to_string(s.num_waiting) + " waiting" + s.failure;
  }

  void check_idle() {
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(kEventMilliseconds);
    while (engine_->status().num_sequences() > 0) {
      QUIRE_CHECK(std::chrono::steady_clock::now() < until) << "a sequence that nobody waits for runs on";
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  std::shared_ptr<api::test::Script> script_ = std::make_shared<api::test::Script>();
  std::shared_ptr<engine::Engine> engine_;
  api::Service service_{config::ApiSettings{.served_names = {"m"}}, nullptr, nullptr};
  api::Mailbox mailbox_;
  std::size_t num_asked_ = 0;
};

}  // namespace

void fuzz_request(Input input) {
  static Server server;
  const std::string_view text = text_of(input);
  if (text.empty()) return;
  const std::size_t named = kLetters.find(text.front());
  const std::size_t route = named == std::string_view::npos ? static_cast<unsigned char>(text.front()) % kLetters.size() : named;
  server.ask(kPaths[route], text.substr(1));
}

}  // namespace quire::fuzz
