// The KV gate: what an FP8 cache loses against a 16-bit one, layer by layer, on a real text through the real runner and pool, before
// anything is served. Says how much, where, and whether that is more than the limits allow. Knows token ids, no text.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "selfcheck/selfcheck.h"

namespace quire::selfcheck {

// Keys or values of one layer: fractions of the stored numbers.
struct KvLoss {
  double saturated = 0.0;  // past the largest number of the format: clipped
  double flushed = 0.0;    // not zero, stored as zero
  double error = 0.0;      // root mean square of what storing changed, relative to the numbers
  double largest = 0.0;    // magnitude before storing: what a scale must make fit
};

struct KvGateLayer {
  KvLoss keys, values;
  // Attention's output from the FP8 cache against exact attention over the same queries and a 16-bit cache: root mean square of the
  // difference, relative to the output.
  double attention_error = 0.0;
};

// One rounding to e5m2 (the coarsest format that is accepted) changes a number by an eighth at most, and attention averages: more than
// that is no longer the format's own noise. A hundredth of clipped numbers is a scale that does not fit.
struct KvGateLimits {
  double attention_error = 0.125;
  double saturated = 0.01;
};

struct KvGate {
  std::vector<KvGateLayer> layers;  // empty: the cache is not FP8
  std::int64_t num_tokens = 0;      // of the text that were used
  double seconds = 0.0;
  KvGateLimits limits;

  [[nodiscard]] bool passed() const { return failure().empty(); }
  // The worst layer and number over a limit; empty when all are within.
  [[nodiscard]] std::string failure() const;
  // "attention error at most 0.021 (layer 3, limit 0.125), saturated at most 0 %, ...", for a line of the log.
  [[nodiscard]] std::string summary() const;
};

// Runs at most the first 256 tokens of `text` as one sequence, in chunks that the limits allow. Afterwards its blocks are zero and the
// runner knows no sequence.
[[nodiscard]] KvGate run_kv_gate(const Subject& subject, std::span<const TokenId> text);

}  // namespace quire::selfcheck
