// The table of linears: what it says has a kernel has one, and what it refuses it refuses by name.
#include <gtest/gtest.h>

#include <algorithm>

#include "device/kernel_id.h"
#include "ops/cpu_kernels.h"
#include "ops/linear_table.h"

namespace quire {
namespace {

using namespace ops;

TEST(LinearTable, EveryRowWithoutARefusalHasAKernelOnThisDevice) {
  int kernels = 0;
  for (const LinearRow& row : linear_table()) {
    if (!row.refusal.empty()) continue;
    ++kernels;
    EXPECT_EQ(row.device, LinearDevice::kCpu);
    EXPECT_TRUE(std::ranges::any_of(cpu_kernels(), [&](const device::CpuKernel& k) { return k.id == row.kernel; })) << row.weights;
    EXPECT_TRUE(linear_support(row.weights, row.input, row.scaling, row.device).ok());
    EXPECT_EQ(find_linear(row.weights, row.input, row.scaling, row.device), &row);
  }
  EXPECT_EQ(kernels, 19);
}

TEST(LinearTable, EveryWeightFormatIsMultipliedOnTheCpuByFloat32) {
  for (const WeightFormat f : {WeightFormat::kF32, WeightFormat::kF16, WeightFormat::kBF16, WeightFormat::kFp8E4m3, WeightFormat::kFp8E4m3Fnuz}) {
    EXPECT_TRUE(linear_support(f, {}, LinearDevice::kCpu).ok()) << dtype_name(storage_dtype(f));
    EXPECT_FALSE(linear_support(f, {}, LinearDevice::kCuda).ok());
  }
}

TEST(LinearTable, EveryCodedFormatIsMultipliedByInt8AndByNothingElse) {
  for (const CodedLayout& l : kCodedLayouts) {
    EXPECT_TRUE(linear_support(l.format, kInt8Input, LinearDevice::kCpu).ok()) << l.name;
    const Status wide = linear_support(l.format, {}, LinearDevice::kCpu);
    ASSERT_FALSE(wide.ok());
    EXPECT_EQ(wide.error().message, std::string(l.name) + " weights by float32 on CPU: codes of GGUF blocks are multiplied with int8 activations; these weights take: int8, scale per token and 32 columns");
  }
  EXPECT_FALSE(linear_support(WeightFormat::kBF16, kInt8Input, LinearDevice::kCpu).ok());
}

TEST(LinearTable, ARefusalNamesBothFormatsTheDeviceTheReasonAndWhatThereIs) {
  const InputQuant fnuz{ActFormat::kFp8E4m3Fnuz, ActScaling::kPerToken, 0, {}};
  const Status other = linear_support(WeightFormat::kFp8E4m3, fnuz, LinearDevice::kCpu);
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(other.error().message,
            "float8_e4m3fn weights by float8_e4m3fnuz, scale per token on CPU: weights and input must share one FP8 encoding; these weights take: float32; float8_e4m3fn, static scale; "
            "float8_e4m3fn, scale per token; float8_e4m3fn, scale per token and 128 columns");
  const Status gguf = linear_support("Q4_K", ActFormat::kF32, ActScaling::kNone, LinearDevice::kCuda);
  ASSERT_FALSE(gguf.ok());
  EXPECT_EQ(gguf.error().message, "Q4_K weights by float32 on CUDA: GGUF blocks have no kernel in this build; nothing multiplies these weights there");
  const Status unknown = linear_support("int3", ActFormat::kF32, ActScaling::kNone, LinearDevice::kRocm);
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().message, "int3 weights by float32 on ROCm: no such linear; nothing multiplies these weights there");
}

}  // namespace
}  // namespace quire
