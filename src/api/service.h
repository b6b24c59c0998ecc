// Every route's answer: joins the tokenizer, the template, the engine and the settings. Immutable but for attach() and
// set_draining(); any thread may call anything. Starts no thread and knows no socket: http calls it, on the lanes its work asks for.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "api/model.h"
#include "api/reply.h"
#include "api/routes.h"
#include "api/text_work.h"
#include "config/resolved.h"

namespace quire::engine {
class HealthMonitor;
class Metrics;
}  // namespace quire::engine

namespace quire::api {

// One request as http read it. `route` is from routes() and its method is allowed.
struct Call {
  const Route* route = nullptr;
  std::string content_type;
  std::string request_id;    // X-Request-Id, may be empty
  std::string credential;    // which key was shown ("" without keys): prefix blocks never cross it
  std::string body;
  std::int64_t server_load = 0;  // for /load
};

class Service {
 public:
  // `metrics` and `health` may be null in tests.
  Service(config::ApiSettings settings, std::shared_ptr<engine::Metrics> metrics, std::shared_ptr<engine::HealthMonitor> health);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  // From here on requests are served; before, they get 503 with the progress.
  void attach(std::shared_ptr<const Model> model);
  // New generations get 503 and /ready says no; what runs goes on.
  void set_draining();

  // Parses and checks; reads token ids, but no text (see TextWork). Never throws. What it gives refers to this service.
  [[nodiscard]] Opening open(const Call& call) const;
  // http's own series: http_requests_total and http_request_duration_seconds. `route` null: no such route.
  void count_http(const std::string& method, const Route* route, int status, double seconds) const;

 private:
  [[nodiscard]] Opening dispatch(const Call& call) const;
  [[nodiscard]] Opening read_request(const Call& call, const std::shared_ptr<const Model>& model) const;
  [[nodiscard]] Reply health_reply(Action action) const;
  [[nodiscard]] std::shared_ptr<const Model> model() const;

  const config::ApiSettings settings_;
  const std::shared_ptr<engine::Metrics> metrics_;
  const std::shared_ptr<engine::HealthMonitor> health_;
  const std::int64_t created_;  // Unix seconds
  mutable std::mutex mutex_;
  std::shared_ptr<const Model> model_;  // guarded by mutex_
  std::atomic<bool> draining_ = false;
};

}  // namespace quire::api
