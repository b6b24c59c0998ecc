// The whole api room over gsm-tiny's real tokenizer and template, a real engine, and a scripted runner. call() plays http.
#pragma once
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "api/mailbox.h"
#include "api/script_executor.h"
#include "api/service.h"
#include "config/resolved.h"
#include "engine/health.h"
#include "engine/metrics.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace quire::api::test {

struct BenchOptions {
  config::ApiSettings settings;                      // served_names is filled when empty
  std::int32_t max_queue = 4096;
  std::int32_t max_num_seqs = 64;
  bool attach = true;
};

class ApiBench {
 public:
  explicit ApiBench(BenchOptions options = {});
  ~ApiBench();

  [[nodiscard]] std::vector<TokenId> encode(const std::string& text) const;
  [[nodiscard]] std::string decode(const std::vector<TokenId>& ids) const;
  void attach();

  // Reads a request and all its texts.
  [[nodiscard]] Answer answer(const Call& call) const;
  // One request to its end. A stream's events are the body of the reply.
  [[nodiscard]] Reply call(const std::string& path, const std::string& body, const std::string& content_type = "application/json");
  boost::json::object ok(const std::string& path, const std::string& body);   // expects 200
  // Expects that status; the error object.
  boost::json::object refused(const std::string& path, const std::string& body, int status = 400);

  std::shared_ptr<Script> script = std::make_shared<Script>();
  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::shared_ptr<const Model> model;
  std::shared_ptr<engine::Metrics> metrics;
  std::shared_ptr<engine::HealthMonitor> health;
  std::shared_ptr<engine::Engine> engine;
  std::shared_ptr<Service> service;
  Mailbox mailbox;
};

// The JSON of every "data: {...}" event; checks the framing and the closing [DONE].
[[nodiscard]] std::vector<boost::json::object> parse_events(const std::string& stream);

}  // namespace quire::api::test
