// Selection as a pure function of the table: every reason, explicit choices, names, classes shared by rows, the nearest configuration.
#include "attention/select.h"

#include <gtest/gtest.h>

#include <random>

#include "attention/device_family.h"
#include "attention/plan.h"
#include "kit/seed.h"

namespace quire::attention {
namespace {

using kv::KvFormat;

const AttnProblem kGood{32, 8, 64, 16, KvFormat::kBF16};
const SelectRequest kExplain{.unbuilt = Unbuilt::kTakesPart};

SelectRequest asking(std::string name, Unbuilt unbuilt = Unbuilt::kTakesPart) { return {.backend = std::move(name), .unbuilt = unbuilt}; }
SelectRequest aiter(FastPath path) { return {.fast_path = path, .unbuilt = Unbuilt::kTakesPart}; }
std::string winner(const AttnProblem& q, std::string_view family, const SelectRequest& request) {
  const auto s = negotiate(q, family, request).value();
  return s.backend == nullptr ? "" : std::string(s.backend->name);
}
std::vector<std::string> texts(const std::vector<Reason>& reasons) {
  std::vector<std::string> out;
  for (const Reason& r : reasons) out.push_back(r.to_string());
  return out;
}
const BackendCaps& row_named(std::string_view name) {
  const BackendCaps* row = find_backend(name);
  QUIRE_CHECK(row != nullptr) << std::string(name);
  return *row;
}

TEST(Select, TheFirstRowOfTheTableServesByDefault) {
  const auto s = select_backend(kGood, "cpu", std::nullopt).value();
  ASSERT_NE(s.backend, nullptr);
  EXPECT_EQ(s.backend, &backend_table()[0]);
  EXPECT_TRUE(s.set.one_row());
  EXPECT_TRUE(s.fallbacks.empty());
  EXPECT_EQ(s.candidates.size(), backend_table().size());
}

TEST(Select, AnExplicitChoiceWins) {
  for (const char* name : {"CPU_UNIFIED", "CPU_SPLIT", "cpu_split"}) {
    const auto s = select_backend(kGood, "cpu", std::string(name)).value();
    EXPECT_EQ(s.backend, &row_named(name == std::string("CPU_UNIFIED") ? "CPU_UNIFIED" : "CPU_SPLIT"));
    EXPECT_EQ(s.chosen_by, "--attention-backend");
  }
  EXPECT_EQ(select_backend(kGood, "cpu", "auto").value().backend, &backend_table()[0]);
}

TEST(Select, TheTwoCpuRowsDifferAsTheDesignSays) {
  EXPECT_EQ(row_named("CPU_UNIFIED").graph_support, GraphSupport::kAlways);
  EXPECT_EQ(row_named("CPU_SPLIT").graph_support, GraphSupport::kUniformSingleTokenDecode);
  EXPECT_EQ(row_named("CPU_SPLIT").split, KernelSplit::kDecodeAndPrefill);
}

TEST(Select, RowsThatAreNotBuiltAreRefusedByNameAndMarkedInExplain) {
  for (const BackendCaps& row : backend_table()) {
    if (row.built == Built::kYes) continue;
    const std::string family(row.families.front());
    const auto refused = select_backend(kGood, family, std::string(row.name));
    ASSERT_FALSE(refused.ok()) << row.name;
    EXPECT_NE(refused.error().message.find("not built in this program"), std::string::npos) << refused.error().message;
    EXPECT_EQ(winner(kGood, family, asking(std::string(row.name))), row.name);
    EXPECT_FALSE(select_backend(kGood, family, std::nullopt).ok()) << family;
  }
}

struct Refusal {
  AttnProblem problem;
  const char* device;
  std::vector<std::string> reasons;  // the starts of all of them
};

TEST(Select, EveryReasonIsGivenOnTheCpu) {
  AttnProblem head = kGood, odd = kGood, small = kGood, group = kGood, block = kGood, none = kGood, other = kGood, ragged = kGood, ranks = kGood, kv_ranks = kGood,
              query = kGood, fnuz = kGood;
  head.head_dim = 258;
  odd.head_dim = 65;
  small.head_dim = 6;
  group.num_heads = 66, group.num_kv_heads = 2;
  block.block_size = 24;
  none.block_size = 0;
  other.kv_format = KvFormat::kOther;
  fnuz.kv_format = KvFormat::kFp8E4m3Fnuz;
  ragged.num_heads = 30;
  ranks.num_ranks = 3;
  kv_ranks.num_heads = 48, kv_ranks.num_kv_heads = 8, kv_ranks.num_ranks = 3;
  query.query_dtype = DType::kI64;
  const AttnProblem all{66, 2, 300, 8, KvFormat::kOther, DType::kU8};
  const std::vector<Refusal> refusals = {
      {head, "cpu", {"head size 258 is not among multiples of 2 in 8..256"}},
      {odd, "cpu", {"head size 65"}},
      {small, "cpu", {"head size 6"}},
      {group, "cpu", {"33 query heads per KV head is above 32"}},
      {ragged, "cpu", {"30 query heads do not divide among 8 KV heads"}},
      {ranks, "cpu", {"32 query heads do not divide among 3 ranks"}},
      {kv_ranks, "cpu", {"8 KV heads neither divide among 3 ranks nor divide them"}},
      {block, "cpu", {"block size 24 is not among multiples of 16"}},
      {none, "cpu", {"block size 0"}},
      {other, "cpu", {"KV in a format of no row is not supported"}},
      {fnuz, "gfx950", {"device gfx950 is not among cpu", "KV fp8_e4m3 (FNUZ): gfx950 stores fp8_e4m3 (OCP)"}},
      {query, "cpu", {"queries in int64 are not supported"}},
      {kGood, "sm90", {"device sm90 is not among cpu"}},
      {all, "gfx942", {"device gfx942 is not among cpu", "head size 300", "33 query heads", "block size 8", "queries in uint8", "KV in a format of no row"}},
  };
  for (const Refusal& r : refusals) {
    for (const char* name : {"CPU_UNIFIED", "CPU_SPLIT"}) {
      const auto reasons = texts(reasons_against(row_named(name), r.problem, r.device));
      ASSERT_EQ(reasons.size(), r.reasons.size()) << r.problem.describe() << ": " << ::testing::PrintToString(reasons);
      for (std::size_t i = 0; i < reasons.size(); ++i) EXPECT_EQ(reasons[i].rfind(r.reasons[i], 0), 0u) << reasons[i];
      const auto explicitly = select_backend(r.problem, r.device, std::string(name));
      ASSERT_FALSE(explicitly.ok()) << "an explicit choice is never replaced";
      EXPECT_EQ(explicitly.error().param, "--attention-backend");
      for (const std::string& reason : r.reasons) EXPECT_NE(explicitly.error().message.find(reason), std::string::npos) << explicitly.error().message;
    }
    const auto nothing = select_backend(r.problem, r.device, std::nullopt);
    ASSERT_FALSE(nothing.ok());
    EXPECT_EQ(nothing.error().code, ErrorCode::kUnsupported);
  }
}

TEST(Select, MasksAndLimitsOfAMadeUpRowAreReasons) {
  BackendCaps row = row_named("CPU_UNIFIED");
  for (ClassCaps* p : {&row.decode, &row.extend, &row.prefill}) p->max_context = 100, p->min_group = 8, p->masks = {};
  row.decode.masks = {Mask::kSinks};
  AttnProblem q = kGood;
  q.max_context = 101;
  for (const Mask m : kMasks) q.masks.add(m);
  EXPECT_EQ(texts(reasons_against(row, q, "cpu")),
            (std::vector<std::string>{"4 query heads per KV head is below 8", "sliding window is not supported", "chunked local attention is not supported", "ALiBi is not supported",
                                      "soft cap is not supported", "101 tokens of context is above 100", "extend, prefill: sinks is not supported"}));
}

TEST(Select, AnUnknownNameIsRefusedWithTheNearest) {
  const auto r = select_backend(kGood, "cpu", "CPU_SPLITT");
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(r.error().message.find("'CPU_SPLITT'"), std::string::npos);
  EXPECT_NE(r.error().message.find("did you mean 'CPU_SPLIT'"), std::string::npos);
  EXPECT_FALSE(select_backend(kGood, "cpu", "").ok());
}

TEST(Select, TheFastRocmRowIsOptInAndForInstinctOnly) {
  for (const DeviceFamily& f : device_families()) {
    if (!is_rocm(f.platform)) continue;
    const bool instinct = f.platform == Platform::kInstinct;
    EXPECT_EQ(winner(kGood, f.name, kExplain), "ROCM_GENERIC");
    EXPECT_EQ(winner(kGood, f.name, aiter(FastPath::kOff)), "ROCM_GENERIC");
    EXPECT_EQ(winner(kGood, f.name, aiter(FastPath::kOn)), instinct ? "ROCM_FAST" : "ROCM_GENERIC") << f.name;
    EXPECT_EQ(winner(kGood, f.name, asking("rocm_fast")), instinct ? "ROCM_FAST" : "") << f.name;
    EXPECT_EQ(winner(kGood, f.name, asking("ROCM_AITER_FA")), instinct ? "ROCM_FAST" : "") << f.name;
    const auto s = negotiate(kGood, f.name, aiter(FastPath::kOn)).value();
    ASSERT_EQ(s.fallbacks.size(), instinct ? 0u : 1u) << "a Radeon keeps its path, and says so";
    if (!instinct) {
      EXPECT_EQ(s.fallbacks[0].from, "ROCM_FAST");
      EXPECT_EQ(s.fallbacks[0].to, "ROCM_GENERIC");
      EXPECT_NE(s.fallbacks[0].why.find("Radeon"), std::string::npos);
    }
  }
  AttnProblem odd = kGood;
  odd.head_dim = 96;
  const auto refused = negotiate(odd, "gfx942", aiter(FastPath::kOn)).value();
  EXPECT_EQ(refused.backend, nullptr) << "the environment's choice is explicit: refused, not replaced";
  ASSERT_TRUE(refused.nearest.has_value());
  EXPECT_EQ(refused.nearest->row->name, "ROCM_FAST");
  EXPECT_EQ(refused.nearest->changes, std::vector<std::string>{"head size 64 instead of 96"});
  EXPECT_EQ(winner(odd, "gfx942", kExplain), "ROCM_GENERIC");
  AttnProblem wide = kGood;
  wide.num_heads = 64, wide.num_kv_heads = 2;
  EXPECT_EQ(winner(wide, "gfx950", aiter(FastPath::kOn)), "ROCM_FAST") << "32 query heads per KV head";
  EXPECT_EQ(winner(kGood, "sm90", aiter(FastPath::kOn)), "CUDA_SM90");
}

TEST(Select, ClassesThatOneRowLacksGoToARowOfTheSameCellsAnnounced) {
  AttnProblem q = kGood;
  q.kv_format = KvFormat::kF16;
  const auto s = negotiate(q, "sm90", kExplain).value();
  ASSERT_NE(s.backend, nullptr);
  EXPECT_EQ(s.set.decode->name, "CUDA_SM90");
  EXPECT_EQ(s.set.writer, s.set.decode);
  EXPECT_EQ(s.set.prefill->name, "CUDA_GENERIC");
  EXPECT_EQ(s.set.extend->name, "CUDA_GENERIC");
  EXPECT_FALSE(s.set.one_row());
  ASSERT_EQ(s.fallbacks.size(), 2u);
  EXPECT_EQ(s.fallbacks[1].from, "CUDA_SM90 prefill");
  EXPECT_EQ(s.fallbacks[1].to, "CUDA_GENERIC prefill");
  EXPECT_NE(s.fallbacks[1].why.find("KV float16"), std::string::npos);
  EXPECT_EQ(negotiate(q, "sm90", asking("CUDA_SM90")).value().backend, nullptr) << "not for an explicit choice";
  AttnProblem wide = kGood;
  wide.head_dim = 160;
  const auto whole = negotiate(wide, "sm90", kExplain).value();
  EXPECT_EQ(whole.backend->name, "CUDA_GENERIC");
  ASSERT_EQ(whole.fallbacks.size(), 1u);
  EXPECT_EQ(whole.fallbacks[0].from, "CUDA_SM90");
}

TEST(Select, Fp8EncodingsAreTheDevices) {
  AttnProblem q = kGood;
  for (const DeviceFamily& f : device_families()) {
    if (f.platform == Platform::kCpu) continue;
    q.kv_format = f.e4m3();
    EXPECT_NE(winner(q, f.name, kExplain), "") << f.name;
    q.kv_format = f.e4m3() == KvFormat::kFp8E4m3 ? KvFormat::kFp8E4m3Fnuz : KvFormat::kFp8E4m3;
    const auto s = negotiate(q, f.name, kExplain).value();
    EXPECT_EQ(s.backend, nullptr) << f.name;
    ASSERT_TRUE(s.nearest.has_value());
    EXPECT_EQ(s.nearest->problem.kv_format, f.e4m3());
  }
  EXPECT_EQ(find_device_family("gfx942")->e4m3(), KvFormat::kFp8E4m3Fnuz);
  EXPECT_EQ(find_device_family("gfx950")->e4m3(), KvFormat::kFp8E4m3);
}

TEST(Select, RanksShareHeadsAndReplicateKvHeads) {
  AttnProblem q{64, 8, 128, 16, KvFormat::kBF16};
  EXPECT_EQ(q.group(), 8);
  q.num_ranks = 4;
  EXPECT_EQ(q.group(), 8);
  q.num_ranks = 16;
  EXPECT_EQ(q.group(), 4);
  q.num_ranks = 12;
  EXPECT_EQ(q.group(), 0);
}

template <class T, std::size_t N>
T pick(std::mt19937_64& rng, const T (&list)[N]) { return list[rng() % N]; }

AttnProblem random_problem(std::mt19937_64& rng) {
  AttnProblem q;
  q.num_kv_heads = pick(rng, {1, 2, 3, 8, 16});
  q.num_heads = rng() % 8 == 0 ? static_cast<std::int32_t>(rng() % 70) : q.num_kv_heads * pick(rng, {1, 2, 4, 7, 16, 32, 33, 64});
  q.head_dim = rng() % 4 == 0 ? static_cast<std::int32_t>(rng() % 300) : pick(rng, {32, 64, 80, 96, 112, 120, 128, 160, 192, 224, 256});
  q.block_size = pick(rng, {16, 16, 32, 48, 64, 128, 8, 24, 0, 100000});
  q.kv_format = rng() % 16 == 0 ? KvFormat::kOther : pick(rng, kv::kKvFormats);
  q.query_dtype = pick(rng, {DType::kF32, DType::kF16, DType::kBF16, DType::kBF16, DType::kI32});
  for (const Mask m : kMasks)
    if (rng() % 4 == 0) q.masks.add(m);
  q.max_context = static_cast<std::int64_t>(rng() % 200000);
  q.num_ranks = pick(rng, {1, 1, 1, 2, 3, 4, 8});
  return q;
}

void check_selection(const AttnProblem& q, std::string_view family, const SelectRequest& request, const Selection& s) {
  SCOPED_TRACE(q.describe() + " on " + std::string(family));
  ASSERT_EQ(s.candidates.size(), backend_table().size());
  for (const RowClass p : kRowClasses) {
    const BackendCaps* row = s.set.of(p);
    ASSERT_EQ(row == nullptr, s.set.empty());
    if (row == nullptr) continue;
    for (const Reason& r : reasons_against(*row, q, family)) EXPECT_FALSE(r.touches(p)) << row->name << ": " << r.to_string();
    EXPECT_TRUE(row->same_layout(*s.set.writer)) << "one layout";
    if (s.asked != nullptr) { EXPECT_EQ(row, s.asked) << "an explicit choice is never replaced"; }
    if (request.unbuilt == Unbuilt::kRefused) { EXPECT_EQ(row->built, Built::kYes); }
    if (row->opt_in == OptIn::kByName) { EXPECT_EQ(row, s.asked); }
    EXPECT_LE(static_cast<int>(s.set.graph_support()), static_cast<int>(row->graph_support));
  }
  for (const Candidate& c : s.candidates)
    if (s.set.empty()) { EXPECT_FALSE(c.reasons.empty() && c.passed_over.empty()) << c.row->name << " is refused without a reason"; }
  if (s.set.empty() && s.nearest.has_value()) {
    EXPECT_FALSE(s.nearest->changes.empty() && s.asked == nullptr);
    EXPECT_TRUE(reasons_against(*s.nearest->row, s.nearest->problem, family).empty());
  }
}

TEST(Select, RandomProblemsKeepThePromises) {
  std::mt19937_64 rng = test::seeded_rng();
  int served = 0, mixed = 0, nearest = 0;
  for (int i = 0; i < 20000; ++i) {
    const AttnProblem q = random_problem(rng);
    const DeviceFamily& family = device_families()[rng() % device_families().size()];
    SelectRequest request{.unbuilt = rng() % 4 == 0 ? Unbuilt::kRefused : Unbuilt::kTakesPart};
    if (rng() % 2 == 0) request.backend = std::string(backend_table()[rng() % backend_table().size()].name);
    request.fast_path = pick(rng, {FastPath::kNotSaid, FastPath::kOn, FastPath::kOff});
    const auto s = negotiate(q, family.name, request);
    ASSERT_TRUE(s.ok());
    check_selection(q, family.name, request, s.value());
    served += s->set.empty() ? 0 : 1;
    mixed += s->set.one_row() ? 0 : 1;
    nearest += s->nearest.has_value() ? 1 : 0;
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(served, 500);
  EXPECT_GT(mixed, 5);
  EXPECT_GT(nearest, 2000);
}

TEST(Select, EveryServedShapeFitsTheKernelsArrays) {
  for (const BackendCaps& row : backend_table()) {
    if (!row.on("cpu")) continue;
    for (const RowClass p : kRowClasses) {
      EXPECT_LE(row.of(p).max_head_dim, kMaxHeadDim);
      EXPECT_LE(row.of(p).max_group, kMaxGroup);
      for (std::int32_t group = 1; group <= row.of(p).max_group; ++group) EXPECT_LE(query_tile(group) * group, kMaxRows);
    }
  }
}

TEST(Select, TheTablesAreSound) {
  for (const BackendCaps& row : backend_table()) EXPECT_EQ(row.workspace.name == WorkspaceRule{}.name, row.workspace.partial_slots == nullptr) << row.name;
  for (const BackendCaps& row : backend_table()) {
    EXPECT_FALSE(row.summary.empty());
    for (const std::string_view f : row.families) EXPECT_NE(find_device_family(f), nullptr) << f;
    for (const RowClass p : kRowClasses) {
      EXPECT_FALSE(row.of(p).kv_formats.empty() || row.of(p).query_dtypes.empty()) << row.name;
      EXPECT_TRUE(!row.of(p).head_sizes.empty() || row.of(p).max_head_dim > 0) << row.name;
    }
  }
  for (const DeviceFamily& f : device_families()) EXPECT_NE(winner(kGood, f.name, kExplain), "") << f.name << " has no path";
  EXPECT_TRUE(graph_holds(GraphSupport::kAlways, BatchClass::kMixed));
  EXPECT_FALSE(graph_holds(GraphSupport::kUniformBatch, BatchClass::kMixed));
  EXPECT_TRUE(graph_holds(GraphSupport::kUniformSingleTokenDecode, BatchClass::kSingleTokenDecode));
  EXPECT_FALSE(graph_holds(GraphSupport::kNever, BatchClass::kSingleTokenDecode));
}

TEST(Plan, MaxWorkIsEnoughAndTight) {
  for (const std::int32_t group : {1, 3, 8, 32})
    for (const std::int32_t n : {1, 2, 31, 32, 33, 100})
      for (const std::int32_t rows : {1, 2, 9}) {
        std::vector<RowLengths> lengths(static_cast<std::size_t>(rows), RowLengths{0, n, 0});
        AttnPlan plan;
        build_plan(lengths, {.group = group}, plan);
        const auto entries = static_cast<std::int64_t>(plan.decode.size() + plan.extend.size() + plan.prefill.size());
        EXPECT_LE(entries, max_work(std::int64_t{n} * rows, rows, group));
      }
  AttnPlan plan;
  const RowLengths none{5, 0, 0};
  EXPECT_DEATH(build_plan(std::span(&none, 1), {.group = 1}, plan), "");
}

}  // namespace
}  // namespace quire::attention
