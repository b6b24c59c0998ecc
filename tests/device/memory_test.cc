// Device memory: who owns what, what is counted, and a workspace whose plan and use can never disagree by a byte.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "device/cpu/cpu_device.h"
#include "device/dry_device.h"
#include "device/workspace.h"
#include "kit/seed.h"

namespace quire::device {
namespace {

TEST(Buffer, IsZeroedAlignedAndCounted) {
  CpuDevice device(1, {});
  std::size_t total = 0;
  std::vector<Buffer> buffers;
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{63}, std::size_t{4096}, std::size_t{4097}, std::size_t{3} << 20}) {
    buffers.push_back(device.allocate(bytes, "x").value());
    total += bytes;
    EXPECT_EQ(device.allocated_bytes(), total);
    EXPECT_EQ(buffers.back().bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffers.back().data()) % 64, 0u);
    EXPECT_TRUE(std::all_of(buffers.back().data(), buffers.back().data() + bytes, [](std::byte b) { return b == std::byte{0}; }));
    std::fill_n(buffers.back().data(), bytes, std::byte{0xff});
  }
  buffers.erase(buffers.begin() + 1);
  EXPECT_EQ(device.allocated_bytes(), total - 63);
  buffers.clear();
  EXPECT_EQ(device.allocated_bytes(), 0u);
}

TEST(Buffer, MovingNeverCountsOrFreesTwice) {
  CpuDevice device(1, {});
  Buffer a = device.allocate(100, "a").value();
  std::byte* const where = a.data();
  Buffer b(std::move(a));
  EXPECT_EQ(b.data(), where);
  EXPECT_EQ(device.allocated_bytes(), 100u);
  {
    Buffer c = device.allocate(30, "c").value();
    b = std::move(c);
  }
  EXPECT_EQ(device.allocated_bytes(), 30u);
  EXPECT_EQ(b.bytes(), 30u);
  b = Buffer();
  EXPECT_EQ(b.data(), nullptr);
  EXPECT_EQ(device.allocated_bytes(), 0u);
}

TEST(Buffer, NothingIsAllowedAndCostsNothing) {
  CpuDevice device(1, {});
  device.seal();
  const Buffer none = device.allocate(0, "nothing").value();
  EXPECT_EQ(none.data(), nullptr);
  EXPECT_EQ(device.allocations_after_seal(), 0u);
}

TEST(Accounts, FollowWhatIsHeld) {
  CpuDevice device(1, {});
  Buffer a = device.allocate(100, "a").value();
  {
    const Buffer b = device.allocate(5000, "b").value(), more = device.allocate(4096, "a").value();
    EXPECT_EQ(device.accounts().at("a"), 4196u);
    EXPECT_EQ(device.accounts().at("b"), 5000u);
    EXPECT_EQ(device.rounding_bytes(), (4096u - 100) + (8192u - 5000));
  }
  EXPECT_EQ(device.accounts().at("a"), 100u);
  EXPECT_EQ(device.accounts().at("b"), 0u);
  const Buffer moved(std::move(a));
  EXPECT_EQ(device.accounts().at("a"), 100u);
  EXPECT_EQ(device.rounding_bytes(), 4096u - 100);
}

struct Nothing {
  int x = 0;
};

TEST(DryDevice, CountsWithoutMemory) {
  DryDevice device({.family = "cpu", .name = "dry"}, kCpuPageBytes);
  {
    const Buffer large = device.allocate(std::size_t{1} << 38, "256 GiB").value(), small = device.allocate(1, "small").value();
    EXPECT_NE(large.data(), nullptr);
    EXPECT_EQ(device.accounts().at("256 GiB"), std::size_t{1} << 38);
    EXPECT_EQ(device.rounding_bytes(), 4095u);
    EXPECT_DEATH(*small.data() = std::byte{1}, "");
  }
  EXPECT_EQ(device.allocated_bytes(), 0u);
  EXPECT_EQ(device.rounding_bytes(), 0u);
}

TEST(DryDevice, RecordsAndNeverRuns) {
  DryDevice device({.family = "cpu", .name = "dry"}, 1);
  const auto stream = device.make_stream();
  Graph graph;
  stream->begin_record(graph);
  stream->launch(KernelId::kEmbedF32, Geometry{}, Nothing{});
  stream->end_record();
  EXPECT_EQ(graph.launches.size(), 1u);
  EXPECT_DEATH(stream->replay(graph), "runs nothing");
  EXPECT_DEATH(stream->copy_to_host(&graph, nullptr, 1), "holds no bytes");
}

TEST(Buffer, WhatCannotBeAllocatedIsRefusedByName) {
  CpuDevice device(1, {});
  for (const std::size_t bytes : {std::size_t{1} << 60, SIZE_MAX, SIZE_MAX - 4096}) {
    const auto got = device.allocate(bytes, "the KV cache");
    ASSERT_FALSE(got.ok());
    EXPECT_EQ(got.error().code, ErrorCode::kResourceExhausted);
    EXPECT_NE(got.error().message.find("the KV cache"), std::string::npos);
    EXPECT_NE(got.error().message.find(std::to_string(bytes)), std::string::npos);
  }
  EXPECT_EQ(device.allocated_bytes(), 0u);
}

TEST(Device, CountsAllocationsAfterTheSeal) {
  CpuDevice device(1, {});
  const Buffer before = device.allocate(10, "before").value();
  EXPECT_EQ(device.allocations_after_seal(), 0u);
  device.seal();
  const Buffer one = device.allocate(10, "one").value();
  const Buffer two = device.allocate(10, "two").value();
  EXPECT_EQ(device.allocations_after_seal(), 2u);
}

TEST(Device, ProfileDescribesThisMachine) {
  const DeviceProfile p = read_cpu_profile();
  EXPECT_EQ(p.family, "cpu");
  EXPECT_FALSE(p.name.empty());
}

struct Piece {
  DType dtype;
  std::int64_t rows, columns;
  TensorView view = {};
};

struct Pieces {
  std::vector<Piece> list;
  template <class V>
  void visit(V& v) {
    for (Piece& p : list) v.tensor(p.view, p.dtype, {p.rows, p.columns});
  }
};

Pieces random_pieces(std::mt19937_64& rng) {
  constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kI32, DType::kI64, DType::kU8};
  Pieces pieces;
  for (std::size_t i = 0; i < 1 + rng() % 12; ++i)
    pieces.list.push_back({kTypes[rng() % 6], static_cast<std::int64_t>(rng() % 40), static_cast<std::int64_t>(1 + rng() % 90)});
  return pieces;
}

TEST(Workspace, PiecesAreAlignedInsideAndApart) {
  auto rng = test::seeded_rng();
  for (int round = 0; round < 200; ++round) {
    Pieces pieces = random_pieces(rng);
    CpuDevice device(1, {});
    const Buffer buffer = place_workspace(device, "workspace", [&](auto& v) { pieces.visit(v); }).value();
    EXPECT_EQ(device.accounts().contains("workspace"), buffer.bytes() > 0);
    const std::byte* last = buffer.data();
    for (const Piece& p : pieces.list) {
      const auto* begin = static_cast<const std::byte*>(p.view.data);
      EXPECT_GE(begin, last);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(begin) % kWorkspaceAlignment, reinterpret_cast<std::uintptr_t>(buffer.data()) % kWorkspaceAlignment);
      EXPECT_EQ(p.view.num_bytes(), static_cast<std::size_t>(p.rows * p.columns) * dtype_bytes(p.dtype));
      last = begin + p.view.num_bytes();
    }
    EXPECT_LE(last, buffer.data() + buffer.bytes());
  }
}

void carve(Pieces p, WorkspaceSize planned) {
  std::vector<std::byte> memory(planned.bytes + 4096);
  WorkspaceCarver c(memory.data(), planned);
  p.visit(c);
  c.finish();
}

WorkspaceSize planned(Pieces p) {
  WorkspaceCounter count;
  p.visit(count);
  return count.size();
}

// A plan and a use that differ in any one tensor by its smallest step, which is often hidden by alignment; in the number or order of
// tensors; or in the whole.
TEST(WorkspaceDeath, ADifferenceOfOneByteIsNoticed) {
  const Pieces pieces{{{DType::kU8, 1, 256}, {DType::kF32, 3, 64}, {DType::kU8, 1, 7}, {DType::kBF16, 5, 3}}};
  const WorkspaceSize size = planned(pieces);
  EXPECT_EQ(size.bytes, 256u + 768u + 256u + 256u);
  carve(pieces, size);
  for (std::size_t i = 0; i < pieces.list.size(); ++i)
    for (const std::int64_t step : {-1, 1}) {
      Pieces moved = pieces;
      (moved.list[i].rows == 1 ? moved.list[i].columns : moved.list[i].rows) += step;
      EXPECT_DEATH(carve(moved, size), "workspace overrun|planned and carved differently") << i;
    }
  Pieces fewer = pieces, swapped = pieces;
  fewer.list.pop_back();
  std::swap(swapped.list[2], swapped.list[3]);
  EXPECT_DEATH(carve(fewer, size), "planned and carved differently");
  EXPECT_DEATH(carve(swapped, size), "planned and carved differently");
  EXPECT_DEATH(carve(pieces, {size.bytes - 1, size.digest}), "workspace overrun");
  EXPECT_DEATH(carve(pieces, {size.bytes + 1, size.digest}), "planned and carved differently");
}

// The digest alone: no two random lists that differ in one size agree.
TEST(Workspace, EverySizeIsInTheDigest) {
  auto rng = test::seeded_rng();
  for (int round = 0; round < 500; ++round) {
    const Pieces pieces = random_pieces(rng);
    Pieces moved = pieces;
    Piece& p = moved.list[rng() % moved.list.size()];
    if (p.rows == 0) p.rows = 1;
    else ++p.columns;
    EXPECT_NE(planned(moved).digest, planned(pieces).digest);
  }
}

}  // namespace
}  // namespace quire::device
