// Reads the goldens that tools/make_hf_goldens.py writes, and checkpoints as float64 weights for the reference.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "model/spec.h"
#include "reference/llama.h"
#include "reference/logprobs.h"

namespace quire::golden {

inline constexpr double kFloat32Promise = 1e-4;  // for float32, on every log-probability

struct ScoredPrompt {
  std::vector<TokenId> ids;
  std::vector<double> next;                                        // [ids - 1]: log-probability of ids[p + 1] at position p
  std::map<std::int64_t, std::vector<reference::TokenScore>> top;  // position -> the 20 most likely, descending
};

struct Continuation {
  std::vector<TokenId> prompt, tokens;
  std::vector<double> gaps;  // logit of the chosen token over the second one, at each step
};

struct SmallModelGolden {
  std::int64_t max_model_len = 0;
  std::vector<ScoredPrompt> scored;
};

// A missing or malformed file ends the test program with its name.
[[nodiscard]] std::vector<ScoredPrompt> read_scored(const std::string& path, const std::string& dtype);
[[nodiscard]] std::vector<Continuation> read_continuations(const std::string& path, const std::string& dtype);
[[nodiscard]] SmallModelGolden read_small_model(const std::string& path);

// How far log-probabilities are from those of a golden.
struct Differences {
  double largest = 0.0, sum_of_squares = 0.0;
  std::int64_t count = 0;
  void add(double d) {
    largest = std::max(largest, std::fabs(d));
    sum_of_squares += d * d;
    ++count;
  }
  [[nodiscard]] double rms() const { return std::sqrt(sum_of_squares / static_cast<double>(count)); }  // NaN of none, which is within no bound
};

struct LoadedModel {
  model::ModelSpec spec;
  reference::LlamaReference llama;
};
// The folder's checkpoint, its weights widened exactly from what the file holds; `change` is made to what its config says.
[[nodiscard]] LoadedModel load_reference(const std::string& model_dir, const reference::LlamaOptions& options,
                                         const std::function<void(model::ModelSpec&)>& change = {});

}  // namespace quire::golden
