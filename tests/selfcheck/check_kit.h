// What the suites of faults share: a check of a bench, and what it found.
#pragma once
#include <string>

#include "base/checked.h"
#include "kit/model_bench.h"
#include "selfcheck/faults.h"
#include "selfcheck/selfcheck.h"

namespace quire::test {

// `num_layers`: faults of scales need it.
inline FaultShape shape_of(const SchedulerConfig& s, int num_layers = 0) {
  return {.state_rows = s.max_num_seqs, .table_stride = ceil_div(s.max_model_len, s.block_size), .num_blocks = s.num_blocks, .max_tokens = s.max_num_batched_tokens, .num_layers = num_layers};
}

inline selfcheck::Report checked(const ModelBenchOptions& o) {
  ModelBench b(o);
  return selfcheck::run({b.config, *b.weights, *b.kv, *b.runner, b.kv_scales});
}

// One line for each verdict that did not pass.
inline std::string failures(const selfcheck::Report& r) {
  std::string out;
  for (const selfcheck::Verdict& v : r.verdicts)
    if (!v.passed) out += "  " + v.check + " | " + v.batch + " | " + v.row_class + " | " + v.where + " | " + v.cause + "\n";
  return out;
}

}  // namespace quire::test
