// Sends a load to a server and writes down what happens when. One thread; the client's.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "commands/openai_stream.h"
#include "commands/serve_load.h"
#include "commands/serve_metrics.h"
#include "http/client.h"

namespace quire::commands {

// What every request of a load has in common.
struct ServeQuestion {
  std::string model;
  OpenAiRoute route = OpenAiRoute::kCompletions;
  bool ignore_eos = false;             // sent as "ignore_eos": no field of the standard, only when asked for
  std::optional<double> temperature;   // nullopt: the server's default
  std::int64_t max_concurrency = 0;    // conversations at a time; 0: no limit
};

// Two short questions that show how many tokens the server makes of words, and that it answers at all. `up_to` bounds their words.
// Errors: the server refuses or cannot be reached. A server that counts no tokens gets one token a word, and the log says so.
[[nodiscard]] Result<WordRate> measure_words(http::Client& client, const ServeQuestion& question, std::int64_t up_to);

// A record for each turn of each conversation, in that order. A turn waits for the answer to the one before it; one that cannot be sent
// because an earlier one failed is a failure of its own. Progress goes to the log.
[[nodiscard]] std::vector<RequestRecord> drive(http::Client& client, const ServeQuestion& question, const std::vector<LoadConversation>& load);

}  // namespace quire::commands
