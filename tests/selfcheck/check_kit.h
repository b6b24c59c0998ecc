// What the suites of faults share: a check of a bench, and what it found.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
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

// What was checked, of the verdicts that passed or of those that did not.
inline std::set<std::string> checks(const selfcheck::Report& r, bool passed) {
  std::set<std::string> out;
  for (const selfcheck::Verdict& v : r.verdicts)
    if (v.passed == passed) out.insert(v.check);
  return out;
}

// A kernel that computes something else, and the check that must find it.
struct Mistake {
  const char* name;
  device::KernelId kernel;
  void (*wrong)(const void* params, std::int64_t begin, std::int64_t end);
  const char* check;
};

inline void expect_found(const Mistake& mistake, ModelBenchOptions o) {
  o.kernels = all_cpu_kernels();
  for (device::CpuKernel& k : o.kernels)
    if (k.id == mistake.kernel) k.run = mistake.wrong;
  const selfcheck::Report r = checked(o);
  EXPECT_FALSE(r.passed()) << mistake.name;
  EXPECT_THAT(checks(r, false), testing::Contains(mistake.check)) << mistake.name << ": " << r.failure();
}

}  // namespace quire::test
