#include "api/api_bench.h"

#include <gtest/gtest.h>

#include <utility>

#include "base/json.h"
#include "kit/slowdown.h"

namespace quire::api::test {
namespace {

const std::string kModelDir = QUIRE_SOURCE_DIR "/models/gsm-tiny";

}  // namespace

ApiBench::ApiBench(BenchOptions options) {
  if (options.settings.served_names.empty()) options.settings.served_names = {"gsm-tiny", "second-name"};
  auto loaded = text::Tokenizer::load(kModelDir);
  QUIRE_CHECK(loaded.ok()) << loaded.error().message;
  tokenizer = loaded.value();
  auto chat = text::ChatTemplate::load(kModelDir, tokenizer, std::nullopt);
  QUIRE_CHECK(chat.ok()) << chat.error().message;

  engine::EngineConfig config;
  config.scheduler.max_num_seqs = options.max_num_seqs;
  config.scheduler.num_blocks = 4096;
  config.max_queue = options.max_queue;
  metrics = std::make_shared<engine::Metrics>(engine::MetricsConfig{.model_name = "gsm-tiny", .max_model_len = 2048});
  health = std::make_shared<engine::HealthMonitor>();
  health->set_progress("loading weights 43 %");
  engine = std::make_shared<engine::Engine>(config, std::make_unique<ScriptExecutor>(script, 0), metrics);
  engine->start();

  auto parts = std::make_shared<Model>();
  parts->kv_scales_json = R"({"source":"checkpoint"})";
  parts->relaxed = {"kv-scales"};
  parts->warnings = {"answers \"may\" be worse"};
  parts->tokenizer = tokenizer;
  parts->chat_template = chat.value();
  parts->engine = engine;
  parts->vocab_size = 576;
  parts->max_model_len = 2048;
  parts->eos_token_ids = {0};
  parts->root = "models/gsm-tiny";
  model = parts;
  service = std::make_shared<Service>(options.settings, metrics, health);
  for (int i = 0; i < 200 * quire::test::kSlowdown && health->verdict().text.find("loading") == std::string::npos; ++i) (void)mailbox.wait(10);  // the monitor looks by itself
  if (options.attach) attach();
}

ApiBench::~ApiBench() {
  script->allow_all();
  engine->stop(std::chrono::milliseconds(0));
}

void ApiBench::attach() {
  health->attach(engine);
  for (int i = 0; i < 200 * quire::test::kSlowdown && !health->ready(); ++i) (void)mailbox.wait(10);
  service->attach(model);
}

std::vector<TokenId> ApiBench::encode(const std::string& text) const {
  auto ids = tokenizer->encode(text, text::AddSpecialTokens::kNo);
  QUIRE_CHECK(ids.ok()) << ids.error().message;
  return ids.value();
}

std::string ApiBench::decode(const std::vector<TokenId>& ids) const {
  auto text = tokenizer->decode(ids, text::SpecialTokens::kSkip);
  QUIRE_CHECK(text.ok()) << text.error().message;
  return text.value();
}

Answer ApiBench::answer(const Call& call) const {
  Opening opening = service->open(call);
  if (auto* reply = std::get_if<Reply>(&opening)) return std::move(*reply);
  if (auto* generation = std::get_if<std::unique_ptr<Generation>>(&opening)) return std::move(*generation);
  TextWork& work = *std::get<std::unique_ptr<TextWork>>(opening);
  for (;;)
    if (auto done = work.step()) return std::move(*done);
}

Reply ApiBench::call(const std::string& path, const std::string& body, const std::string& content_type) {
  Call request;
  const RouteMatch get = find_route("GET", path);
  const RouteMatch post = find_route("POST", path);
  request.route = post.method_allowed ? post.route : get.route;
  QUIRE_CHECK(request.route != nullptr) << path;
  request.content_type = content_type;
  request.body = body;
  Answer answer = this->answer(request);
  if (Reply* reply = std::get_if<Reply>(&answer)) return std::move(*reply);
  auto generation = std::get<std::unique_ptr<Generation>>(std::move(answer));
  const Status submitted = generation->submit(mailbox);
  if (!submitted.ok()) return error_reply(submitted.error());
  std::string events;
  while (!generation->finished()) {
    if (!mailbox.wait(20000 * quire::test::kSlowdown)) {
      ADD_FAILURE() << "no event in time";
      return http_error(500);
    }
    mailbox.deliver();
    events += generation->take_events();
  }
  if (!generation->streaming()) return generation->reply();
  Reply reply;
  reply.content_type = "text/event-stream";
  reply.body = events + generation->take_events();
  return reply;
}

boost::json::object ApiBench::ok(const std::string& path, const std::string& body) {
  const Reply reply = call(path, body);
  EXPECT_EQ(reply.status, 200) << body << "\n" << reply.body;
  auto parsed = parse_json(reply.body);
  QUIRE_CHECK(parsed.ok()) << parsed.error().message << "\n" << reply.body;
  return parsed.value().as_object();
}

boost::json::object ApiBench::refused(const std::string& path, const std::string& body, int status) {
  const Reply reply = call(path, body);
  EXPECT_EQ(reply.status, status) << body.substr(0, 300) << "\n" << reply.body.substr(0, 300);
  auto parsed = parse_json(reply.body);
  QUIRE_CHECK(parsed.ok()) << parsed.error().message << "\n" << reply.body;
  const boost::json::object error = parsed.value().as_object().at("error").as_object();
  EXPECT_EQ(error.at("code").as_int64(), status);
  EXPECT_FALSE(error.at("message").as_string().empty());
  EXPECT_FALSE(error.at("type").as_string().empty());
  EXPECT_TRUE(error.contains("param"));
  return error;
}

std::vector<boost::json::object> parse_events(const std::string& stream) {
  std::vector<boost::json::object> out;
  std::size_t at = 0;
  bool done = false;
  while (at < stream.size()) {
    const std::size_t end = stream.find("\n\n", at);
    if (end == std::string::npos) {
      ADD_FAILURE() << "an event has no end: " << stream.substr(at);
      break;
    }
    const std::string event = stream.substr(at, end - at);
    at = end + 2;
    if (event.starts_with(": ")) continue;  // a comment keeps the connection awake
    EXPECT_FALSE(done) << "after [DONE]: " << event;
    EXPECT_TRUE(event.starts_with("data: ")) << event;
    if (event == "data: [DONE]") {
      done = true;
      continue;
    }
    auto parsed = parse_json(event.substr(6));
    QUIRE_CHECK(parsed.ok()) << event;
    out.push_back(parsed.value().as_object());
  }
  EXPECT_TRUE(done) << "no [DONE]";
  return out;
}

}  // namespace quire::api::test
