// Memory with sentinels on both sides and poison inside: finds writes past an output's ends and outputs that were never written.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "tensor/view.h"

namespace quire::test {

// Fills with NaN of `dtype` (a float type) and asserts, by reading back, that it is NaN.
void poison(std::span<std::byte> bytes, DType dtype);

class GuardedBuffer {
 public:
  // `num_elements` of `dtype`, all NaN, aligned to 64 bytes plus `misalign_bytes`.
  GuardedBuffer(DType dtype, std::size_t num_elements, std::size_t misalign_bytes = 0);
  [[nodiscard]] std::span<std::byte> bytes();
  [[nodiscard]] std::span<const std::byte> bytes() const;
  // A dense view of the whole payload; the product of `shape` must be the number of elements.
  [[nodiscard]] TensorView view(std::initializer_list<std::int64_t> shape);
  template <class T>
  [[nodiscard]] std::span<T> as() {
    return {reinterpret_cast<T*>(bytes().data()), num_bytes_ / sizeof(T)};
  }
  // Empty when both sentinels stand, else which byte changed, counted from the payload's start.
  [[nodiscard]] std::string damage() const;
  // The payload as float64.
  [[nodiscard]] std::vector<double> values() const;

 private:
  DType dtype_;
  std::size_t num_bytes_, start_ = 0;
  std::vector<std::byte> storage_;
};

}  // namespace quire::test
