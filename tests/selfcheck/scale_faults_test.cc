// Mistakes with the scales of an FP8 cache, each switched on in the kernels that read it, in those that write it, in both, or in the table
// that all of them read: the self-check fails, names the layer, and says what it looks like.
#include "selfcheck/scales.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "check_kit.h"

namespace quire::test {
namespace {

using selfcheck::Report;
using selfcheck::Verdict;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::StartsWith;

ModelBenchOptions gsm_tiny(DType kv, const std::string& backend, const std::string& mode) {
  ModelBenchOptions o;
  o.model_dir = std::string(QUIRE_SOURCE_DIR) + "/models/gsm-tiny";
  o.kv_dtype = kv;
  o.backend = backend;
  o.graph_mode = mode;
  o.scheduler = SchedulerConfig{.max_num_batched_tokens = 32, .max_num_seqs = 6, .max_model_len = 128, .num_blocks = 48};
  return o;
}

// Of gsm-tiny. The bench's scales differ in every layer and part.
constexpr int kLayers = 6;

struct Case {
  Fault fault;
  ScalePart part;
  const char* cause;  // what the message says
};
const Case kCases[] = {
    {Fault::kScaleDropped, ScalePart::kKeys, "the scale of K were dropped (1 instead of 0."},
    {Fault::kScaleDropped, ScalePart::kValues, "the scale of V were dropped (1 instead of 0."},
    {Fault::kScaleDropped, ScalePart::kBoth, "the scales of K and V were dropped (1 instead of 0."},
    {Fault::kScaleDoubled, ScalePart::kKeys, "the scale of K were doubled"},
    {Fault::kScaleDoubled, ScalePart::kValues, "the scale of V were doubled"},
    {Fault::kScaleDoubled, ScalePart::kBoth, "the scales of K and V were doubled"},
    {Fault::kScaleOfNextLayer, ScalePart::kKeys, "the scale of K were that of layer "},
    {Fault::kScaleOfNextLayer, ScalePart::kValues, "the scale of V were that of layer "},
    {Fault::kScaleOfNextLayer, ScalePart::kBoth, "the scales of K and V were those of layer "},
    {Fault::kScalesSwapped, ScalePart::kBoth, "the scales of K and V were swapped"},
};

// Every kind of row, where the fault shows in attention alone and in the new cells alone.
void expect_named(const Report& r, const Case& c, ScaleUsers users) {
  EXPECT_FALSE(r.passed());
  EXPECT_THAT(r.failure(), HasSubstr(c.cause));
  const bool writes = users != ScaleUsers::kReaders, reads = users != ScaleUsers::kWriters;
  for (const char* row_class : {"decode", "extend", "prefill"})
    for (const char* check : {"attention", "key write", "value write"}) {
      const bool of_writes = std::string_view(check) != "attention";
      const bool touched = std::string_view(check) == "key write" ? c.part != ScalePart::kValues : c.part != ScalePart::kKeys;
      if (of_writes ? !(writes && touched) : !reads) continue;
      const auto found = std::ranges::find_if(r.verdicts, [&](const Verdict& v) { return v.check == check && v.batch.starts_with("mixed rows") && v.row_class == row_class; });
      ASSERT_NE(found, r.verdicts.end()) << check << " | " << row_class;
      EXPECT_FALSE(found->passed) << check << " | " << row_class;
      EXPECT_THAT(found->cause, HasSubstr(c.cause)) << check << " | " << row_class << " | " << found->where;
    }
  for (const Verdict& v : r.verdicts)
    EXPECT_TRUE(v.passed || v.check == "attention" || v.check == "key write" || v.check == "value write" || v.check == "greedy token" || v.where.find("nan") != std::string::npos) << v.check << " | " << v.where;
}

class ScaleFaults : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Formats, ScaleFaults, testing::Values(DType::kFp8E4m3, DType::kFp8E4m3Fnuz), [](const auto& param) { return param.param == DType::kFp8E4m3 ? "E4m3" : "E4m3Fnuz"; });

TEST_P(ScaleFaults, EachIsCaughtAndNamed) {
  for (const Case& c : kCases)
    for (const ScaleUsers users : c.part == ScalePart::kBoth ? std::vector{ScaleUsers::kBoth} : std::vector{ScaleUsers::kReaders, ScaleUsers::kWriters}) {
      const bool split = users != ScaleUsers::kReaders;
      ModelBenchOptions o = split ? gsm_tiny(GetParam(), "CPU_SPLIT", "PIECEWISE") : gsm_tiny(GetParam(), "CPU_UNIFIED", "NONE");
      FaultShape shape = shape_of(o.scheduler, kLayers);
      shape.users = users;
      shape.part = c.part;
      o.kernels = faulty_kernels(c.fault, shape);
      const Report r = checked(o);
      SCOPED_TRACE(std::string(fault_name(c.fault)) + ", part " + std::to_string(static_cast<int>(c.part)) + ", users " + std::to_string(static_cast<int>(users)) + ", failing:\n" + failures(r));
      expect_named(r, c, users);
    }
}

// In whole graphs too, and the layer that it is in, whichever.
TEST_P(ScaleFaults, TheLayerIsNamed) {
  for (const int layer : {0, 3, 5}) {
    const std::string next = "as if the scales of K and V were those of layer " + std::to_string((layer + 1) % 6);
    for (const auto& [fault, cause] : {std::pair{Fault::kScaleDropped, std::string("as if the scales of K and V were dropped")}, std::pair{Fault::kScaleDoubled, std::string("as if the scales of K and V were doubled")},
                                       std::pair{Fault::kScaleOfNextLayer, next}, std::pair{Fault::kScalesSwapped, std::string("as if the scales of K and V were swapped")}}) {
      ModelBenchOptions o = gsm_tiny(GetParam(), "CPU_UNIFIED", "FULL");
      FaultShape shape = shape_of(o.scheduler, kLayers);
      shape.only_layer = layer;
      shape.users = layer == 3 ? ScaleUsers::kWriters : ScaleUsers::kReaders;
      o.kernels = faulty_kernels(fault, shape);
      const Report r = checked(o);
      SCOPED_TRACE(std::string(fault_name(fault)) + " in layer " + std::to_string(layer) + ", failing:\n" + failures(r));
      EXPECT_THAT(r.failure(), AllOf(HasSubstr(": layer " + std::to_string(layer) + ", "), HasSubstr(cause)));
      for (const Verdict& v : r.verdicts) EXPECT_TRUE(v.passed || v.layer == layer) << v.check << " | " << v.where;
    }
  }
}

// The numbers are those of doubled scales, and only a FNUZ cache can have them from its bytes.
TEST(ScaleFaultsOfFnuz, BytesReadAsOcpAreCaughtAndNamed) {
  for (const auto& [backend, mode] : {std::pair{"CPU_UNIFIED", "FULL"}, std::pair{"CPU_SPLIT", "FULL_AND_PIECEWISE"}})
    for (const int layer : {-1, 2}) {
      ModelBenchOptions o = gsm_tiny(DType::kFp8E4m3Fnuz, backend, mode);
      FaultShape shape = shape_of(o.scheduler, kLayers);
      shape.only_layer = layer;
      o.kernels = faulty_kernels(Fault::kFnuzReadAsOcp, shape);
      const Report r = checked(o);
      SCOPED_TRACE(std::string(backend) + ", failing:\n" + failures(r));
      EXPECT_FALSE(r.passed());
      EXPECT_THAT(r.failure(), AllOf(StartsWith("attention of "), AnyOf(HasSubstr("the scales of K and V were doubled: what FNUZ bytes read as OCP give"), HasSubstr("as if FNUZ bytes were read as OCP"))));
      EXPECT_THAT(r.failure(), HasSubstr(layer < 0 ? ": layer " : ": layer 2, "));
      for (const Verdict& v : r.verdicts) EXPECT_TRUE(v.passed || v.check == "attention" || v.check == "greedy token" || v.where.find("nan") != std::string::npos) << v.check << " | " << v.where;
    }
}

TEST_P(ScaleFaults, TheRigWithoutAFaultPasses) {
  for (const char* backend : {"CPU_UNIFIED", "CPU_SPLIT"}) {
    ModelBenchOptions o = gsm_tiny(GetParam(), backend, "FULL");
    o.kernels = faulty_kernels(Fault::kNone, shape_of(o.scheduler, kLayers));
    const Report r = checked(o);
    EXPECT_TRUE(r.passed()) << failures(r);
    EXPECT_TRUE(std::ranges::any_of(r.verdicts, [](const Verdict& v) { return v.check == "KV scale" && v.row_class == "values"; }));
  }
}

// The wiring: readers and writers agree on a table that is not the checkpoint's, so nothing but the table itself can tell.
TEST_P(ScaleFaults, ATableThatIsNotTheCheckpointsIsCaughtAndNamed) {
  ModelBench b(gsm_tiny(GetParam(), "CPU_UNIFIED", "NONE"));
  const auto at = [](int layer, int part) { return static_cast<std::size_t>((2 * layer + part) * 2); };  // 2 KV heads
  struct Wrong {
    std::size_t first;  // of two scales
    float a, b;
    const char *where, *cause;
  };
  const auto scale = [&](int layer, int part, int head) { return b.kv_scales[at(layer, part) + static_cast<std::size_t>(head)]; };
  for (const Wrong& w : {Wrong{at(3, 0), 1.0f, 1.0f, "KV scale of keys: layer 3, keys of head 0: 1 instead of ", "as if the scale of K were dropped"},
                         Wrong{at(2, 1), 2.0f * scale(2, 1, 0), 2.0f * scale(2, 1, 1), "KV scale of values: layer 2, values of head 0", "as if the scale of V were doubled"},
                         Wrong{at(4, 0), scale(5, 0, 0), scale(5, 0, 1), "KV scale of keys: layer 4, keys of head 0", "as if the scale of K were that of layer 5"},
                         Wrong{at(1, 1), 0.5f * scale(1, 1, 0), 0.5f * scale(1, 1, 1), "KV scale of values: layer 1", "as if the scale of V were halved"}}) {
    std::vector<float> wrong = b.kv_scales;
    wrong[w.first] = w.a;
    wrong[w.first + 1] = w.b;
    b.kv->set_scales(wrong);
    const Report r = selfcheck::run({b.config, *b.weights, *b.kv, *b.runner, b.kv_scales});
    EXPECT_THAT(r.failure(), AllOf(StartsWith(w.where), HasSubstr(w.cause))) << failures(r);
    for (const Verdict& v : r.verdicts) EXPECT_TRUE(v.passed || v.check == "KV scale") << v.check << " | " << v.where;
  }
  std::vector<float> swapped = b.kv_scales;
  for (int layer = 0; layer < 6; ++layer)
    for (int head = 0; head < 2; ++head) std::swap(swapped[at(layer, 0) + static_cast<std::size_t>(head)], swapped[at(layer, 1) + static_cast<std::size_t>(head)]);
  b.kv->set_scales(swapped);
  EXPECT_THAT(selfcheck::run({b.config, *b.weights, *b.kv, *b.runner, b.kv_scales}).failure(), AllOf(StartsWith("KV scale of keys: layer 0, keys of head 0"), HasSubstr("as if the scales of K and V were swapped")));
}

// A kernel that is wrong about something else is not blamed on scales.
TEST(ScaleFaultsOfNone, AnUnrelatedDifferenceHasNoCause) {
  const selfcheck::ScaleTable right{{0.5f, 0.25f, 0.125f, 0.75f}, 2, 1};
  const selfcheck::ScalePlace place{right, DType::kFp8E4m3, 0, 0};
  EXPECT_EQ(selfcheck::suspected_mistake(place, [](double, double) { return false; }), "");
  EXPECT_EQ(selfcheck::suspected_mistake(place, [](double k, double v) { return k == 0.5 && v == 0.25; }), "") << "the right scales give it: the mistake is elsewhere";
  EXPECT_EQ(selfcheck::suspected_mistake(place, [](double k, double v) { return k == 0.125 && v == 0.75; }), "as if the scales of K and V were those of layer 1");
}

}  // namespace
}  // namespace quire::test
