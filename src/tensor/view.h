// A typed, strided window on memory that somebody else owns. Says what memory means; never allocates, never frees.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "base/check.h"
#include "base/dtype.h"

namespace quire {

inline constexpr int kMaxRank = 4;

// Row-major unless strides say otherwise. Strides count elements. `data` is an address on the owning device.
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::kF32;
  int rank = 0;
  std::array<std::int64_t, kMaxRank> shape{};
  std::array<std::int64_t, kMaxRank> stride{};

  [[nodiscard]] static TensorView dense(void* data, DType dtype, std::initializer_list<std::int64_t> shape) {
    QUIRE_CHECK_LE(shape.size(), static_cast<std::size_t>(kMaxRank));
    TensorView v;
    v.data = data;
    v.dtype = dtype;
    for (std::int64_t n : shape) v.shape[static_cast<std::size_t>(v.rank++)] = n;
    std::int64_t run = 1;
    for (int i = v.rank - 1; i >= 0; --i) {
      v.stride[static_cast<std::size_t>(i)] = run;
      run *= v.shape[static_cast<std::size_t>(i)];
    }
    return v;
  }
  [[nodiscard]] std::int64_t dim(int i) const { return shape[static_cast<std::size_t>(i)]; }
  [[nodiscard]] std::int64_t num_elements() const {
    std::int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= dim(i);
    return n;
  }
  [[nodiscard]] std::size_t num_bytes() const { return static_cast<std::size_t>(num_elements()) * dtype_bytes(dtype); }
  [[nodiscard]] bool is_dense() const {
    std::int64_t run = 1;
    for (int i = rank - 1; i >= 0; --i) {
      if (dim(i) != 1 && stride[static_cast<std::size_t>(i)] != run) return false;
      run *= dim(i);
    }
    return true;
  }
  // The first `n` rows (dimension 0).
  [[nodiscard]] TensorView rows(std::int64_t n) const { TensorView v = *this; v.shape[0] = n; return v; }
  template <class T>
  [[nodiscard]] T* as() const { return static_cast<T*>(data); }
  [[nodiscard]] std::string describe() const;  // "bfloat16[16, 256]"
};

}  // namespace quire
