// Perplexity of a text under the model that an engine runs, and greedy continuations of it: what `quire eval` compares cache formats by.
// Knows tokens and an engine; must not know the command line.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "engine/engine.h"

namespace quire::commands {

// The text in windows of `window` tokens without overlap; in each the first half is context and the second half is scored, as llama.cpp
// does by default: tokens [window / 2 + 1, window). `bos`, where the model has one, replaces the first token of each window.
struct PerplexityOptions {
  std::int32_t window = 512;
  std::optional<TokenId> bos;
  std::int32_t max_windows = 0;  // 0: all
};

struct Perplexity {
  double perplexity = 0.0;      // exp of the mean negative log-likelihood
  double standard_error = 0.0;  // of perplexity, from the spread of the scored tokens
  std::int64_t num_scored = 0, num_windows = 0;
  std::int32_t window = 0;
  std::vector<double> window_nll;  // mean of each window
};

// Called after each window with how many are done and how many there are.
using EvalProgress = std::function<void(std::int64_t done, std::int64_t total)>;

// Refused (kInvalidArgument) when nothing could be scored: fewer tokens than one window, or windows of less than 4. Says what is needed.
[[nodiscard]] Status check_windows(std::int64_t num_tokens, std::int32_t window);
// Refused as check_windows() says.
[[nodiscard]] Result<Perplexity> perplexity(engine::Engine& engine, std::span<const TokenId> text, const PerplexityOptions& options, const EvalProgress& progress);

struct ContinuationOptions {
  std::int32_t prompt_tokens = 64, max_tokens = 256;
  std::int32_t count = 8;  // prompts, spread evenly over the text
};
// Greedy answers, end tokens ignored.
[[nodiscard]] Result<std::vector<std::vector<TokenId>>> continuations(engine::Engine& engine, std::span<const TokenId> text, const ContinuationOptions& options, const EvalProgress& progress);

// Tokens that two answers share from their start on.
[[nodiscard]] std::int64_t common_prefix(std::span<const TokenId> a, std::span<const TokenId> b);

}  // namespace quire::commands
