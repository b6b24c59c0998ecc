// Mistakes of attention kernels, each switched on in a device of its own: the self-check must fail, and a failing verdict must be the
// one that the table names. Thread #25104's pairing (mixed batches in a whole graph of a decode-only backend) is refused by name.
#include "selfcheck/faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "check_kit.h"

namespace quire::test {
namespace {

using selfcheck::Report;
using selfcheck::Verdict;
using testing::HasSubstr;

struct Expected {
  Fault fault;
  const char* backend;
  const char* graph_mode;
  // A failing verdict that must be there; batches by the beginning of the name.
  const char* check;
  const char* batch;
  const char* row_class;
  // Verdicts that the fault does not touch: all of this class and of these batches pass. "": nothing to say.
  const char* clean_batch = "";
  const char* clean_class = "";
};

// clang-format off
const Expected kExpected[] = {
    {Fault::kBlockTableStale, "CPU_UNIFIED", "FULL", "attention", "decode rows, FULL graph, replayed with other lengths and blocks", "decode", "decode rows, FULL graph", "decode"},
    {Fault::kBlockTableStale, "CPU_SPLIT", "FULL_AND_PIECEWISE", "attention", "decode rows, FULL graph, replayed with other lengths and blocks", "decode", "decode rows, FULL graph", "decode"},
    {Fault::kLengthsStale, "CPU_UNIFIED", "FULL", "attention", "decode rows, FULL graph, replayed with other lengths and blocks", "decode", "decode rows, FULL graph", "decode"},
    {Fault::kLengthsStale, "CPU_SPLIT", "PIECEWISE", "attention", "decode rows, PIECEWISE graphs, replayed with other lengths and blocks", "decode", "decode rows, PIECEWISE graphs", "decode"},
    {Fault::kWindowOffByOne, "CPU_UNIFIED", "FULL", "attention", "extend rows, FULL graph", "extend"},
    {Fault::kWindowOffByOne, "CPU_SPLIT", "NONE", "attention", "prefill rows, eager", "prefill"},
    {Fault::kGroupOffByOne, "CPU_UNIFIED", "FULL", "attention", "decode rows, FULL graph", "decode"},
    {Fault::kGroupOffByOne, "CPU_SPLIT", "NONE", "attention", "extend rows, eager", "extend"},
    {Fault::kDecodeWritesPrefillRow, "CPU_UNIFIED", "FULL", "attention", "mixed rows, FULL graph", "extend", "mixed rows, FULL graph", "decode"},
    {Fault::kDecodeWritesPrefillRow, "CPU_SPLIT", "FULL_AND_PIECEWISE", "attention", "mixed rows, PIECEWISE graphs", "extend", "decode rows", "decode"},
    {Fault::kWorkspaceOverlap, "CPU_SPLIT", "FULL_AND_PIECEWISE", "attention", "decode rows, FULL graph", "decode", "prefill rows", "prefill"},
    {Fault::kPaddedRowReadsKv, "CPU_UNIFIED", "FULL", "attention", "mixed rows, FULL graph", "padded", "mixed rows, FULL graph", "prefill"},
    {Fault::kPaddedRowReadsKv, "CPU_SPLIT", "FULL_AND_PIECEWISE", "attention", "decode rows, FULL graph", "padded", "decode rows, FULL graph", "decode"},
    {Fault::kValuesTransposed, "CPU_UNIFIED", "NONE", "attention", "prefill rows, eager", "prefill"},
    {Fault::kValuesTransposed, "CPU_SPLIT", "FULL_AND_PIECEWISE", "attention", "decode rows, FULL graph", "decode"},
};
// clang-format on

ModelBenchOptions gsm_tiny(const std::string& backend, const std::string& mode) {
  ModelBenchOptions o;
  o.model_dir = std::string(QUIRE_SOURCE_DIR) + "/models/gsm-tiny";
  o.backend = backend;
  o.graph_mode = mode;
  o.scheduler = SchedulerConfig{.max_num_batched_tokens = 64, .max_num_seqs = 16, .max_model_len = 2048, .num_blocks = 150};
  return o;
}

// Checks that a fault of attention may fail: its own, and whatever a NaN from it reaches.
bool may_fail(const Verdict& v) { return v.check == "attention" || v.check == "greedy token" || v.check == "same bits as eager" || v.where.find("nan") != std::string::npos; }

void expect_caught(const Expected& e, const Report& r) {
  SCOPED_TRACE(std::string(fault_name(e.fault)) + " on " + e.backend + " in " + e.graph_mode + ", failing:\n" + failures(r));
  EXPECT_FALSE(r.passed());
  EXPECT_FALSE(r.failure().empty());
  bool named = false;
  for (const Verdict& v : r.verdicts) {
    named = named || (!v.passed && v.check == e.check && v.batch == e.batch && v.row_class == e.row_class);
    const bool clean = *e.clean_class != '\0' && v.batch.starts_with(e.clean_batch) && v.batch.find("replayed") == std::string::npos && v.row_class == e.clean_class && v.check == e.check &&
                       v.batch.find("eager") == std::string::npos;
    EXPECT_TRUE(v.passed || !clean) << "blamed though innocent: " << v.check << " | " << v.batch << " | " << v.row_class << " | " << v.where;
    // Kernels that are right stay right on whatever the broken ones gave them.
    EXPECT_TRUE(v.passed || may_fail(v)) << v.check << " | " << v.batch << " | " << v.row_class << " | " << v.where;
  }
  EXPECT_TRUE(named) << "not named: " << e.check << " | " << e.batch << " | " << e.row_class;
}

TEST(SelfCheckFaults, EachIsCaughtAndNamed) {
  for (const Expected& e : kExpected) {
    ModelBenchOptions o = gsm_tiny(e.backend, e.graph_mode);
    o.kernels = faulty_kernels(e.fault, shape_of(o.scheduler));
    expect_caught(e, checked(o));
  }
}

TEST(SelfCheckFaults, TheRigWithoutAFaultPasses) {
  for (const char* backend : {"CPU_UNIFIED", "CPU_SPLIT"}) {
    ModelBenchOptions o = gsm_tiny(backend, "FULL");
    o.kernels = faulty_kernels(Fault::kNone, shape_of(o.scheduler));
    const Report r = checked(o);
    EXPECT_TRUE(r.passed()) << failures(r);
  }
}

// A pool whose one layer is larger than 4 GiB (never touched but for the blocks of the check): offsets that are cut to 32 bits reach the
// wrong block at the pool's end and nowhere else.
TEST(SelfCheckFaults, OffsetsOf32BitsFailAtThePoolsEnd) {
  ModelBenchOptions o = gsm_tiny("CPU_UNIFIED", "NONE");
  o.dummy = model::read_model_spec(o.model_dir).value();
  o.dummy->num_layers = 1;
  const std::int32_t block_bytes = 2 * o.dummy->num_kv_heads * o.scheduler.block_size * o.dummy->head_dim * 2;
  o.scheduler.num_blocks = static_cast<std::int32_t>((std::int64_t{1} << 32) / block_bytes + 40);
  EXPECT_TRUE(checked(o).passed());
  o.kernels = faulty_kernels(Fault::kOffset32, shape_of(o.scheduler));
  const Report r = checked(o);
  const std::string why = failures(r);
  EXPECT_FALSE(r.passed());
  EXPECT_THAT(why, HasSubstr("attention | decode rows, eager | decode"));
  for (const Verdict& v : r.verdicts) EXPECT_TRUE(v.passed || may_fail(v)) << v.check << " | " << v.where;
}

std::set<std::string> failing_classes(const Report& r, const std::string& check, const std::string& batch) {
  std::set<std::string> out;
  for (const Verdict& v : r.verdicts)
    if (!v.passed && v.check == check && v.batch == batch) out.insert(v.row_class);
  return out;
}

// Only whole graphs are wrong, and only rows that are no decode rows.
void expect_decode_graphs_only(const Report& r) {
  SCOPED_TRACE("failing:\n" + failures(r));
  EXPECT_EQ(failing_classes(r, "same bits as eager", "mixed rows, FULL graph"), (std::set<std::string>{"extend", "prefill"}));
  EXPECT_EQ(failing_classes(r, "same bits as eager", "prefill rows, FULL graph, replayed with other lengths and blocks"), std::set<std::string>{"prefill"});
  for (const Verdict& v : r.verdicts) {
    if (v.passed || v.check == "graph support") continue;
    EXPECT_THAT(v.batch, HasSubstr("FULL graph")) << v.check;
    EXPECT_NE(v.row_class, "decode") << v.check << " | " << v.batch;
    EXPECT_TRUE(v.check != "same bits as eager" || v.layer == 0) << v.where;
  }
}

// Thread #25104: FULL forced open on a backend whose graphs hold decode rows alone. Refused by what the row says of itself, and by the
// numbers: the recorded step launches no prefill kernel.
TEST(SelfCheckFaults, AMixedBatchInTheGraphOfADecodeOnlyBackendIsRefusedByName) {
  ModelBenchOptions o = gsm_tiny("CPU_SPLIT", "");
  o.forced_graph_mode = graph::GraphMode::kFull;
  ModelBench b(o);
  ASSERT_EQ(b.config.graph_mode, graph::GraphMode::kFull);
  const Report r = selfcheck::run({b.config, *b.weights, *b.kv, *b.runner, b.kv_scales});
  EXPECT_THAT(r.failure(), HasSubstr("graph support of mixed (decode with extend and prefill) rows"));
  EXPECT_THAT(r.failure(), HasSubstr("CPU_SPLIT supports UNIFORM_SINGLE_TOKEN_DECODE, mode FULL records mixed batches in FULL graphs"));
  EXPECT_THAT(r.failure(), HasSubstr("; in the numbers: same bits as eager of prefill rows in prefill rows, FULL graph: after the attention of layer 0: key of layer 1, row 0"));
  expect_decode_graphs_only(r);
}

// The same where the row claims to hold every batch: nothing but the numbers says that it does not.
TEST(SelfCheckFaults, AFalseClaimOfGraphSupportIsFoundInTheNumbers) {
  ModelBenchOptions o = gsm_tiny("CPU_SPLIT", "FULL");
  o.claimed_graph_support = attention::GraphSupport::kAlways;
  EXPECT_TRUE(checked(o).passed()) << "the claim alone harms nobody whose kernels keep it";
  o.kernels = faulty_kernels(Fault::kCapturedAsDecode, shape_of(o.scheduler));
  const Report r = checked(o);
  EXPECT_THAT(r.failure(), testing::StartsWith("same bits as eager of prefill rows in prefill rows, FULL graph: after the attention of layer 0"));
  expect_decode_graphs_only(r);
}

// A kernel that is wrong in one layer alone is found there, whichever it is: the others' attention is right about what it was given.
TEST(SelfCheckFaults, TheLayerIsNamed) {
  struct Case {
    Fault fault;
    const char *backend, *mode, *batch, *row_class;
  };
  for (const Case& c : {Case{Fault::kWindowOffByOne, "CPU_UNIFIED", "NONE", "decode rows, eager", "decode"}, Case{Fault::kGroupOffByOne, "CPU_SPLIT", "PIECEWISE", "extend rows, PIECEWISE graphs", "extend"},
                        Case{Fault::kValuesTransposed, "CPU_UNIFIED", "FULL", "mixed rows, FULL graph", "prefill"}, Case{Fault::kLengthsStale, "CPU_SPLIT", "FULL_AND_PIECEWISE", "decode rows, FULL graph, replayed with other lengths and blocks", "decode"}})
    for (const int layer : {0, 3, 5}) {
      ModelBenchOptions o = gsm_tiny(c.backend, c.mode);
      FaultShape shape = shape_of(o.scheduler);
      shape.only_layer = layer;
      o.kernels = faulty_kernels(c.fault, shape);
      const Report r = checked(o);
      SCOPED_TRACE(std::string(fault_name(c.fault)) + " in layer " + std::to_string(layer) + " on " + c.backend + ", failing:\n" + failures(r));
      EXPECT_TRUE(failing_classes(r, "attention", c.batch).contains(c.row_class)) << c.batch;
      for (const Verdict& v : r.verdicts) {
        if (v.check != "attention" || v.passed) continue;
        EXPECT_EQ(v.layer, layer) << v.batch;
        EXPECT_THAT(v.where, testing::StartsWith("layer " + std::to_string(layer) + ", row ")) << v.batch;
      }
    }
}

// A real window that is one key short, in the layers that have one.
TEST(SelfCheckFaults, AWindowThatIsOneKeyShort) {
  for (const auto& [backend, mode] : {std::pair{"CPU_UNIFIED", "FULL"}, std::pair{"CPU_SPLIT", "FULL_AND_PIECEWISE"}}) {
    ModelBenchOptions o = gsm_tiny(backend, mode);
    o.dummy = model::read_model_spec(o.model_dir).value();
    o.dummy->masks.assign(6, {.window = 40});
    o.dummy->masks[2].window = 512;
    FaultShape shape = shape_of(o.scheduler);
    for (const int layer : {0, 2, 5}) {
      shape.only_layer = layer;
      o.kernels = faulty_kernels(Fault::kWindowOffByOne, shape);
      const Report r = checked(o);
      SCOPED_TRACE("layer " + std::to_string(layer) + " of " + backend + ", failing:\n" + failures(r));
      EXPECT_TRUE(failing_classes(r, "attention", "decode rows, eager").contains("decode"));
      EXPECT_TRUE(failing_classes(r, "attention", "longest rows, eager").contains("extend"));
      for (const Verdict& v : r.verdicts) EXPECT_TRUE(v.passed || (v.check == "attention" && v.layer == layer)) << v.check << " | " << v.where;
    }
  }
}

// What only a replay does wrong, inside a whole graph that nothing can watch, is named by the layer too.
TEST(SelfCheckFaults, TheLayerIsNamedInsideAWholeGraph) {
  for (const int layer : {0, 3, 5}) {
    ModelBenchOptions o = gsm_tiny("CPU_SPLIT", "FULL");
    o.claimed_graph_support = attention::GraphSupport::kAlways;
    FaultShape shape = shape_of(o.scheduler);
    shape.only_layer = layer;
    o.kernels = faulty_kernels(Fault::kCapturedAsDecode, shape);
    const Report r = checked(o);
    SCOPED_TRACE("layer " + std::to_string(layer) + ", failing:\n" + failures(r));
    EXPECT_FALSE(r.passed());
    for (const Verdict& v : r.verdicts) EXPECT_TRUE(v.check != "same bits as eager" || v.passed || v.layer == layer) << v.batch << " | " << v.where;
  }
}

// Every fault of the list stands in the table or has a test of its own.
TEST(SelfCheckFaults, TheTableIsComplete) {
  for (const Fault f : kFaults) {
    bool listed = f == Fault::kOffset32 || f == Fault::kCapturedAsDecode;
    for (const Expected& e : kExpected) listed = listed || e.fault == f;
    EXPECT_TRUE(listed) << fault_name(f);
  }
}

}  // namespace
}  // namespace quire::test
