// The OpenAI API from a client's side: bodies of requests and events of streamed answers. Only the standard's own fields are sent unless a
// caller asks for more, so that any server understands them. Knows no socket.
#pragma once
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "config/options.h"
#include "http/client.h"

namespace quire::commands {

enum class OpenAiRoute : std::uint8_t { kCompletions, kChat };
[[nodiscard]] std::string_view route_path(OpenAiRoute route);  // "/v1/completions"
// "completions", "chat" or the path itself, as the flag table allows.
[[nodiscard]] OpenAiRoute route_named(std::string_view name);

struct TokenUsage {
  std::optional<std::int64_t> prompt_tokens, completion_tokens;
};

// What one event of a stream says about the only choice.
struct StreamEvent {
  bool done = false;      // "[DONE]"
  std::string text;       // of the answer
  std::string reasoning;  // what some servers send of a model's thinking, apart from the answer
  std::string finish_reason;
  std::optional<TokenUsage> usage;
  [[nodiscard]] bool has_text() const { return !text.empty() || !reasoning.empty(); }
};
// Errors: no JSON object, or an error that the server sent within the stream.
[[nodiscard]] Result<StreamEvent> read_stream_event(std::string_view data);

// "usage" of a whole answer or of an event; what is missing stays unset.
[[nodiscard]] TokenUsage read_usage(const boost::json::object& fields);

// Why an answer is none, in one line that is safe to print: the connection's failure, or the status with what the server said of it.
// Empty for a whole answer with a good status.
[[nodiscard]] std::string failure_of(const http::ClientOutcome& outcome);

// The client's limits as --read-timeout of `quire chat` and `quire bench serve` has them, for streams and whole answers.
[[nodiscard]] http::ClientLimits client_limits(const config::Options& options);

// The names under GET /v1/models. Errors name the server.
[[nodiscard]] Result<std::vector<std::string>> list_models(http::Client& client);

}  // namespace quire::commands
