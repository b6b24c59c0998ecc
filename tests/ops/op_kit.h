// What the tests of operations share: devices with the CPU kernels, tensors in guarded memory, random inputs that are exact in a storage
// type. QUIRE_TEST_ISA in the environment limits the kernels to one instruction set (op_kit.cc).
#pragma once
#include <cstdint>
#include <random>
#include <vector>

#include "device/cpu/cpu_device.h"
#include "kit/guarded_buffer.h"
#include "ops/tensors.h"
#include "reference/matrix.h"

namespace quire::test {

// Sizes around every boundary a kernel could have: lanes, panels, row blocks.
inline constexpr std::int64_t kOddSizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257};
inline constexpr DType kStorageTypes[] = {DType::kF32, DType::kF16, DType::kBF16};

// A stream of a device with `threads` threads; the same one every time.
[[nodiscard]] device::Stream& op_stream(int threads = 1);

// float32 activations in guarded memory, NaN until written. `misalign` in bytes, a multiple of 4.
struct GuardedActs {
  GuardedActs(std::int64_t rows, std::int64_t columns, std::size_t misalign = 0);
  GuardedActs(const reference::Matrix& values, std::size_t misalign = 0);  // every value must be a float32
  [[nodiscard]] ops::ActTensor tensor() { return ops::ActTensor{buffer.view({rows, columns})}; }
  [[nodiscard]] std::span<float> floats() { return buffer.as<float>(); }
  [[nodiscard]] std::span<float> row(std::int64_t r) { return floats().subspan(static_cast<std::size_t>(r * columns), static_cast<std::size_t>(columns)); }
  std::int64_t rows, columns;
  GuardedBuffer buffer;
};

// Normal values of standard deviation `size`, rounded to `dtype`; one in 16 is zero.
[[nodiscard]] reference::Matrix random_matrix(std::int64_t rows, std::int64_t columns, DType dtype, double size, std::mt19937_64& rng);

// Row-major bytes of `m` in `dtype`, as a checkpoint holds them.
[[nodiscard]] std::vector<std::byte> raw_bytes(const reference::Matrix& m, DType dtype);

[[nodiscard]] ops::WeightFormat format_of(DType dtype);

}  // namespace quire::test
