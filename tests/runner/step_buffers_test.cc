// A step refuses to start on an input that was not produced for it, whichever it is: a replay never reads a stale one.
#include "runner/step_buffers.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>

#include "device/cpu/cpu_device.h"

namespace quire::runner {
namespace {

constexpr auto kFields = static_cast<std::size_t>(Field::kCount);

struct Buffers {
  device::CpuDevice device{1, {}};
  std::unique_ptr<device::Stream> stream = device.make_stream();
  StepBuffers b = StepBuffers::create(device, {.max_tokens = 8, .max_rows = 2, .max_work = 4, .max_parts = 4, .max_logits = 4, .top_stride = 1}).value();

  void produce(std::size_t field, std::uint64_t step) {
    constexpr std::array<std::byte, 4> kBytes{};
    b.fill(*stream, static_cast<Field>(field), kBytes.data(), kBytes.size(), step);
  }
};

TEST(StepBuffers, AStepWithAllItsInputsStarts) {
  Buffers x;
  for (const std::uint64_t step : {1u, 2u, 7u}) {
    for (std::size_t f = 0; f < kFields; ++f) x.produce(f, step);
    x.b.require(step);
  }
}

TEST(StepBuffersDeath, AnInputOfAnotherStepIsRefusedByName) {
  Buffers x;
  for (std::size_t f = 0; f < kFields; ++f) x.produce(f, 1);
  EXPECT_DEATH(x.b.require(2), "was not produced for this step");
  for (std::size_t stale = 0; stale < kFields; ++stale) {
    for (std::size_t f = 0; f < kFields; ++f) x.produce(f, f == stale ? 4 : 5);
    EXPECT_DEATH(x.b.require(5), std::string("field ") + field_name(static_cast<Field>(stale)) + " was not produced for this step");
  }
  for (std::size_t f = 0; f < kFields; ++f) x.produce(f, 6);
  x.b.forget();
  EXPECT_DEATH(x.b.require(6), "was not produced for this step") << "after forgetting, nothing was";
}

TEST(StepBuffersDeath, MoreThanAFieldHoldsEndsTheProcess) {
  Buffers x;
  const std::array<std::int32_t, 9> tokens{};
  x.b.fill(*x.stream, Field::kPositions, tokens.data(), 8, 1);
  EXPECT_DEATH(x.b.fill(*x.stream, Field::kPositions, tokens.data(), 9, 1), "positions");
}

TEST(StepBuffers, FieldsAreApart) {
  Buffers x;
  std::array<std::int32_t, 8> ones{}, back{};
  ones.fill(1);
  x.b.fill(*x.stream, Field::kPositions, ones.data(), 8, 1);
  x.b.fill(*x.stream, Field::kRowOfToken, back.data(), 8, 1);
  x.stream->copy_to_host(back.data(), x.b.get<std::int32_t>(Field::kPositions), sizeof back);
  EXPECT_EQ(back, ones);
}

}  // namespace
}  // namespace quire::runner
