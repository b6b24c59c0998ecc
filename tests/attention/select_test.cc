// Selection as a pure function of the table: every reason, explicit choices, names.
#include "attention/select.h"

#include <gtest/gtest.h>

#include "attention/plan.h"

namespace quire::attention {
namespace {

const AttnProblem kGood{32, 8, 64, 16, DType::kBF16};

TEST(Select, TheFirstRowOfTheTableServesByDefault) {
  const auto s = select_backend(kGood, "cpu", std::nullopt).value();
  ASSERT_NE(s.backend, nullptr);
  EXPECT_EQ(s.backend, &backend_table()[0]);
  EXPECT_TRUE(s.rejections.empty());
}

TEST(Select, AnExplicitChoiceWins) {
  for (const BackendCaps& row : backend_table()) EXPECT_EQ(select_backend(kGood, "cpu", std::string(row.name)).value().backend, &row);
}

TEST(Select, TheTwoCpuRowsDifferAsTheDesignSays) {
  EXPECT_EQ(select_backend(kGood, "cpu", "CPU_UNIFIED").value().backend->graph_support, GraphSupport::kAlways);
  EXPECT_EQ(select_backend(kGood, "cpu", "CPU_SPLIT").value().backend->graph_support, GraphSupport::kUniformSingleTokenDecode);
  EXPECT_EQ(select_backend(kGood, "cpu", "CPU_SPLIT").value().backend->split, KernelSplit::kDecodeAndPrefill);
}

struct Refusal {
  AttnProblem problem;
  const char* device;
  std::vector<std::string> reasons;
};

TEST(Select, EveryReasonIsGiven) {
  AttnProblem head = kGood, odd = kGood, small = kGood, group = kGood, block = kGood, none = kGood, dtype = kGood, all = kGood, ragged = kGood;
  head.head_dim = 258;
  odd.head_dim = 65;
  small.head_dim = 6;
  group.num_heads = 66, group.num_kv_heads = 2;
  block.block_size = 24;
  none.block_size = 0;
  dtype.kv_dtype = DType::kU8;
  ragged.num_heads = 30;
  all = AttnProblem{66, 2, 300, 8, DType::kI32};
  const std::vector<Refusal> refusals = {
      {head, "cpu", {"head size 258 is not a multiple of 2 in 8..256"}},
      {odd, "cpu", {"head size 65"}},
      {small, "cpu", {"head size 6"}},
      {group, "cpu", {"33 query heads per KV head is above 32"}},
      {ragged, "cpu", {"30 query heads do not divide among 8 KV heads"}},
      {block, "cpu", {"block size 24 is not a multiple of 16"}},
      {none, "cpu", {"block size 0"}},
      {dtype, "cpu", {"KV type uint8 is not supported"}},
      {kGood, "sm90", {"device sm90 is not cpu"}},
      {all, "gfx942", {"device gfx942 is not cpu", "head size 300", "33 query heads", "block size 8", "KV type int32"}},
  };
  for (const Refusal& r : refusals) {
    for (const BackendCaps& row : backend_table()) {
      const auto reasons = reasons_against(row, r.problem, r.device);
      ASSERT_EQ(reasons.size(), r.reasons.size()) << r.problem.describe();
      for (std::size_t i = 0; i < reasons.size(); ++i) EXPECT_EQ(reasons[i].rfind(r.reasons[i], 0), 0u) << reasons[i];
    }
    const auto nothing = select_backend(r.problem, r.device, std::nullopt);
    ASSERT_FALSE(nothing.ok());
    EXPECT_EQ(nothing.error().code, ErrorCode::kUnsupported);
    for (const BackendCaps& row : backend_table()) {
      EXPECT_NE(nothing.error().message.find(row.name), std::string::npos) << nothing.error().message;
      const auto explicitly = select_backend(r.problem, r.device, std::string(row.name));
      ASSERT_FALSE(explicitly.ok()) << "an explicit choice is never replaced";
      EXPECT_EQ(explicitly.error().param, "--attention-backend");
      for (const std::string& reason : r.reasons) EXPECT_NE(explicitly.error().message.find(reason), std::string::npos) << explicitly.error().message;
    }
  }
}

TEST(Select, AnUnknownNameIsRefusedWithTheNearest) {
  const auto r = select_backend(kGood, "cpu", "CPU_SPLITT");
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(r.error().message.find("'CPU_SPLITT'"), std::string::npos);
  EXPECT_NE(r.error().message.find("did you mean 'CPU_SPLIT'"), std::string::npos);
  EXPECT_FALSE(select_backend(kGood, "cpu", "").ok());
}

TEST(Select, EveryServedShapeFitsTheKernelsArrays) {
  for (const BackendCaps& row : backend_table()) {
    EXPECT_LE(row.max_head_dim, kMaxHeadDim);
    EXPECT_LE(row.max_group, kMaxGroup);
    for (std::int32_t group = 1; group <= row.max_group; ++group) EXPECT_LE(query_tile(group) * group, kMaxRows);
  }
}

TEST(Plan, MaxWorkIsEnoughAndTight) {
  for (const std::int32_t group : {1, 3, 8, 32})
    for (const std::int32_t n : {1, 2, 31, 32, 33, 100})
      for (const std::int32_t rows : {1, 2, 9}) {
        std::vector<RowLengths> lengths(static_cast<std::size_t>(rows), RowLengths{0, n, 0});
        AttnPlan plan;
        build_plan(lengths, group, plan);
        const auto entries = static_cast<std::int64_t>(plan.decode.size() + plan.extend.size() + plan.prefill.size());
        EXPECT_LE(entries, max_work(std::int64_t{n} * rows, rows, group));
      }
  AttnPlan plan;
  const RowLengths none{5, 0, 0};
  EXPECT_DEATH(build_plan(std::span(&none, 1), 1, plan), "");
}

}  // namespace
}  // namespace quire::attention
