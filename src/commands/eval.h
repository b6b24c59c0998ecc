// quire eval: perplexity of a text, and what an FP8 KV cache costs against a 16-bit one: the KV gate's table, perplexity with both, and
// where greedy answers part. Loads the model as `serve` would, once for each cache format.
#pragma once
#include <boost/json/object.hpp>
#include <optional>
#include <string>
#include <vector>

#include "commands/bench_plot.h"
#include "commands/perplexity.h"
#include "config/command_line.h"
#include "selfcheck/kv_gate.h"

namespace quire::commands {

struct EvalSide {
  std::string kv_format;  // "bfloat16", "fp8_e4m3 (OCP)"
  Perplexity perplexity;
  std::vector<std::vector<TokenId>> answers;  // greedy, of the same prompts on both sides; empty without an FP8 cache
};

struct EvalResult {
  std::string model, text;
  std::int64_t num_tokens = 0;
  EvalSide asked;
  std::optional<EvalSide> with_16_bit;  // beside an FP8 cache
  selfcheck::KvGate gate;               // no layers: not FP8
  double seconds = 0.0;
  // For each answer, the tokens that both sides share before they part; nothing without a second side.
  [[nodiscard]] std::vector<std::int64_t> shared_tokens() const;
};

[[nodiscard]] std::string eval_text(const EvalResult& result);
[[nodiscard]] boost::json::object eval_json(const EvalResult& result);
// Of a result with an FP8 cache: clipped and flushed numbers and attention error of each layer, and where greedy answers part.
[[nodiscard]] BarChart eval_chart(const EvalResult& result);

// The process's exit code: 0, or 1 when the KV gate failed (and is not relaxed) or the model could not be loaded, 2 for a wrong command line.
[[nodiscard]] int eval(const config::EvalCommand& command);

}  // namespace quire::commands
