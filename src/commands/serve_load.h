// What `quire bench serve` asks of a server and when: arrivals, lengths and texts, all from one seed by our own generator, so that a seed
// gives the same load with every compiler. Pure; knows no server.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace quire::commands {

// splitmix64 and what is drawn from it.
class LoadRandom {
 public:
  explicit LoadRandom(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  double uniform();                                           // in [0, 1)
  std::int64_t between(std::int64_t low, std::int64_t high);  // both ends included
  double normal();                                            // mean 0, deviation 1
  double gamma(double shape);                                 // scale 1; shape > 0

 private:
  std::uint64_t state_;
};

struct LoadRequest {
  std::int64_t num_prompts = 1000;  // conversations; with one turn each: requests
  std::int64_t turns = 1;
  std::optional<double> request_rate;  // conversations that begin in a second, on average; nullopt: all at once
  double burstiness = 1.0;             // shape of the gaps' gamma distribution; 1: Poisson arrivals; large: even ones
  std::int64_t input_len = 1024, output_len = 128, prefix_len = 0;  // tokens; the prefix comes before the input and is the same for all
  double range_ratio = 0.0;  // lengths are drawn evenly from len * (1 - r) to len * (1 + r); in [0, 1)
  std::uint64_t seed = 0;
};

// Tokens by which a length that is drawn may differ from `length`, up and down.
[[nodiscard]] std::int64_t length_spread(std::int64_t length, double range_ratio);
[[nodiscard]] std::int64_t draw_length(LoadRandom& random, std::int64_t length, double range_ratio);  // at least 1

// How many words make a prompt of so many tokens. Measured with the server (openai_stream.h); the default is one token a word.
struct WordRate {
  double tokens_per_word = 1.0;
  double fixed_tokens = 0.0;  // of every prompt: template, begin token
  [[nodiscard]] std::int64_t words_for(std::int64_t tokens) const;  // at least 1
};

struct LoadTurn {
  std::string text;  // of the user
  std::int64_t output_len = 0;
};
struct LoadConversation {
  double start_seconds = 0.0;  // after the first one's
  std::vector<LoadTurn> turns;
};

// A line of a data set: {"prompt": "...", "output_tokens": 100 (may be missing)}.
struct DatasetPrompt {
  std::string prompt;
  std::optional<std::int64_t> output_tokens;
};
// Lines of JSON. Errors name the file, the line and what is wrong with it; an empty file is an error.
[[nodiscard]] Result<std::vector<DatasetPrompt>> read_dataset(const std::string& path);

// Seconds after the start at which each conversation begins, ascending, the first 0.
[[nodiscard]] std::vector<double> arrival_seconds(const LoadRequest& request);
// `num_words` common short words, a space before each but the first.
[[nodiscard]] std::string random_words(LoadRandom& random, std::int64_t num_words);
// In order of their start. With `dataset` its prompts are the texts, again from the first when there are fewer than asked for.
[[nodiscard]] std::vector<LoadConversation> make_load(const LoadRequest& request, const WordRate& rate, const std::vector<DatasetPrompt>& dataset = {});

}  // namespace quire::commands
