#include "api/service.h"

#include <chrono>
#include <exception>
#include <utility>
#include <vector>

#include "api/json_out.h"
#include "api/make_generation.h"
#include "api/text_routes.h"
#include "base/check.h"
#include "base/log.h"
#include "base/log_sink.h"
#include "engine/health.h"
#include "engine/metrics.h"
#include "page/page.h"

namespace quire::api {
namespace {

std::int64_t unix_now() { return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count(); }

// A Reply's or an Opening's result.
template <class T>
Opening to_opening(Result<T> result) {
  if (!result.ok()) return error_reply(result.error());
  return std::move(result).value();
}

Reply number_reply(const char* field, std::int64_t number) {
  JsonOut out;
  out.begin_object();
  out.field(field, number);
  out.end_object();
  return json_reply(out.take());
}

Reply version_reply() {
  JsonOut out;
  out.begin_object();
  out.field("version", QUIRE_VERSION);
  out.end_object();
  return json_reply(out.take());
}

Reply metrics_reply(engine::Metrics* metrics) {
  Reply reply;
  reply.content_type = "text/plain; version=0.0.4; charset=utf-8";
  if (metrics == nullptr) return reply;
  metrics->registry().gauge("quire:log_lines_lost", "Lines of the log that could not be written since the process began.", metrics->base_labels()).set(static_cast<double>(lost_log_lines()));
  reply.body = metrics->render();
  return reply;
}

// One of the page's files. A browser asks again each time, so that a new server never runs with an old page.
Reply page_reply(std::string_view path) {
  const page::File* file = page::find_file(path);
  QUIRE_CHECK(file != nullptr) << path << " has a route and no file";
  Reply reply;
  reply.content_type = file->content_type;
  reply.body = file->bytes;
  reply.headers = {{"Cache-Control", "no-cache"},
                   {"Content-Security-Policy", std::string(page::kContentSecurityPolicy)},
                   {"Referrer-Policy", "no-referrer"},
                   {"X-Content-Type-Options", "nosniff"}};
  return reply;
}

}  // namespace

Service::Service(config::ApiSettings settings, std::shared_ptr<engine::Metrics> metrics, std::shared_ptr<engine::HealthMonitor> health)
    : settings_(std::move(settings)), metrics_(std::move(metrics)), health_(std::move(health)), created_(unix_now()) {
  QUIRE_CHECK(!settings_.served_names.empty());
}
Service::~Service() = default;

void Service::attach(std::shared_ptr<const Model> model) {
  QUIRE_CHECK(model != nullptr && model->tokenizer != nullptr && model->engine != nullptr && model->vocab_size > 0 && model->max_model_len > 1);
  const std::scoped_lock lock(mutex_);
  model_ = std::move(model);
}

std::shared_ptr<const Model> Service::model() const {
  const std::scoped_lock lock(mutex_);
  return model_;
}

void Service::set_draining() { draining_ = true; }

Opening Service::open(const Call& call) const {
  try {
    return dispatch(call);
  } catch (const std::exception& e) {
    return exception_reply(e);
  }
}

Reply Service::health_reply(Action action) const {
  engine::HealthVerdict verdict;
  if (health_ != nullptr) verdict = health_->verdict();
  else verdict.ready = true;
  const bool attached = model() != nullptr;
  const bool good = attached && verdict.live && (action == Action::kHealth || (verdict.ready && !draining_));
  Reply reply;
  reply.status = good ? 200 : 503;
  if (good && action == Action::kHealth) return reply;  // an empty body, as vLLM's
  reply.body = verdict.json;
  if (draining_) reply.body = R"({"ready":false,"text":"draining: no new requests"})";
  if (!good) reply.headers.emplace_back("Retry-After", "1");
  return reply;
}

Opening Service::dispatch(const Call& call) const {
  const Action action = call.route->action;
  switch (action) {
    case Action::kHealth:
    case Action::kReady: return health_reply(action);
    case Action::kVersion: return version_reply();
    case Action::kLoad: return number_reply("server_load", call.server_load);
    case Action::kMetrics: return metrics_reply(metrics_.get());
    case Action::kPage: return page_reply(call.route->path);
    case Action::kOtherTask:
      return error_reply(Error{ErrorCode::kUnsupported, "The model does not support the API " + std::string(call.route->path) + "; it generates text (/v1/completions, /v1/chat/completions)", {}});
    default: break;
  }
  const std::shared_ptr<const Model> model = this->model();
  if (model == nullptr) {
    const std::string progress = health_ == nullptr ? "starting" : health_->verdict().text;
    return error_reply(Error{ErrorCode::kUnavailable, "The server is not ready: " + progress, {}});
  }
  if (action == Action::kModels) return list_models(*model, settings_, created_);
  if (action == Action::kServing) return json_reply(model->serving_json);
  if (action == Action::kKvScales) return json_reply(model->kv_scales_json);
  if (action == Action::kTokenizerInfo) return to_opening(tokenizer_info(*model, settings_));
  return read_request(call, model);
}

Opening Service::read_request(const Call& call, const std::shared_ptr<const Model>& model) const {
  const Action action = call.route->action;
  const bool generates = action == Action::kCompletions || action == Action::kChat;
  if (generates && draining_) return error_reply(Error{ErrorCode::kUnavailable, "The server is shutting down and takes no new requests", {}});
  auto request = read_body(call);
  if (!request.ok()) return error_reply(request.error());
  if (action == Action::kDetokenize) return to_opening(open_detokenize(request.value(), model, settings_));
  if (action == Action::kTokenize) return to_opening(open_tokenize(std::move(request).value(), model, settings_));
  GenerationInput input{std::move(request).value(), call.request_id, call.credential, model, settings_, unix_now()};
  return to_opening(action == Action::kChat ? open_chat(std::move(input)) : open_completion(std::move(input)));
}

void Service::count_http(const std::string& method, const Route* route, int status, double seconds) const {
  if (metrics_ == nullptr) return;
  // Only words from our own tables become labels.
  const std::string verb = method == "GET" || method == "POST" || method == "OPTIONS" ? method : "other";
  const std::string handler = route == nullptr ? "none" : std::string(route->path);
  engine::MetricsRegistry& registry = metrics_->registry();
  registry.counter("http_requests_total", "HTTP requests by method, status class and route.",
                   {{"handler", handler}, {"method", verb}, {"status", std::to_string(status / 100) + "xx"}}).add();
  static const std::vector<double> kBounds{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300};
  registry.histogram("http_request_duration_seconds", "Time from the request's first byte to the answer's last.", {{"handler", handler}, {"method", verb}}, kBounds).observe(seconds);
}

}  // namespace quire::api
