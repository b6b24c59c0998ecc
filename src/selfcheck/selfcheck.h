// The self-check: runs the real runner on the real pool before anything is served, eager and by its recorded graphs. Eager steps are compared
// with the plain reference under derived bounds, layer by layer; recorded ones with the eager step of the same batch, bit for bit, and with
// the reference where they differ. Owns cases and verdicts; must not know the command line.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kv/store/kv_store.h"
#include "model/weights.h"
#include "runner/runner.h"

namespace quire::selfcheck {

inline constexpr std::int32_t kNoLayer = -1;

// One comparison, over every element of one kind in the batches of one name.
struct Verdict {
  std::string check;        // "attention", "key write", "same bits as eager", "graph support", ...
  std::string batch;        // "mixed rows, FULL graph, replayed with other lengths and blocks"; empty: of no step
  std::string row_class;    // "decode", "extend", "prefill", "padded", "mixed", ...; of no step: "keys", "values"
  bool passed = true;
  double worst_error = 0.0; // |got - want| of the element that used most of its bound; infinite: NaN or infinity on one side
  double bound = 0.0;       // that element's
  std::string where = {};   // that element, with both values
  std::int32_t layer = kNoLayer;  // that element's
  std::string cause = {};         // "as if the scale of K were doubled"; empty: not known
};

struct Report {
  std::vector<Verdict> verdicts;  // in the order of running
  double seconds = 0.0;
  std::int64_t num_steps = 0;
  [[nodiscard]] bool passed() const;
  // What serve says: the first failure by check, batch, row class, place and likely cause, and how many there are; after a pairing that is not allowed
  // also the first one in the numbers. Empty when all passed.
  [[nodiscard]] std::string failure() const;
};

struct Subject {
  const runner::RunnerConfig& config;
  const model::Weights& weights;
  kv::KvStore& kv;              // the real pool; its contents are used up
  runner::ModelRunner& runner;  // with its graphs recorded and no step submitted
  // What the cache's scales must be, as KvStore::set_scales takes them; run() needs every one.
  std::span<const float> kv_scales = {};
  std::function<void(std::int32_t percent)> progress = {};  // called now and then, from 0 to 100
};

// Afterwards the touched blocks are zero and the runner knows no sequence. A pairing of graph mode and backend that is not allowed is
// reported, and run like any other. Allocates no device memory.
[[nodiscard]] Report run(const Subject& subject);

}  // namespace quire::selfcheck
