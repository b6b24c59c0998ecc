// Sizes and carves a workspace with one visitor, so that the bytes that are planned and the offsets that are used can never disagree.
//
//   struct Activations {
//     TensorView hidden, qkv;
//     template <class V> void visit(V& v, std::int64_t tokens) {
//       v.tensor(hidden, DType::kF32, {tokens, 256});
//       v.tensor(qkv, DType::kF32, {tokens, 512});
//     }
//   };
//   WorkspaceCounter count;      a.visit(count, 2048);   buffer = device.allocate(count.bytes(), "activations");
//   WorkspaceCarver carve(buffer.data(), buffer.bytes()); a.visit(carve, 2048);
#pragma once
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "base/check.h"
#include "base/checked.h"
#include "tensor/view.h"

namespace quire::device {

inline constexpr std::size_t kWorkspaceAlignment = 256;

class WorkspaceCounter {
 public:
  void tensor(TensorView& view, DType dtype, std::initializer_list<std::int64_t> shape) {
    view = TensorView::dense(nullptr, dtype, shape);
    bytes_ += round_up(view.num_bytes(), kWorkspaceAlignment);
  }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

class WorkspaceCarver {
 public:
  WorkspaceCarver(std::byte* base, std::size_t bytes) : base_(base), bytes_(bytes) {}
  // Every byte that was counted must have been carved, no more and no less.
  void finish() const { QUIRE_CHECK_EQ(used_, bytes_) << "workspace planned and carved differently"; }
  void tensor(TensorView& view, DType dtype, std::initializer_list<std::int64_t> shape) {
    view = TensorView::dense(base_ + used_, dtype, shape);
    used_ += round_up(view.num_bytes(), kWorkspaceAlignment);
    QUIRE_CHECK_LE(used_, bytes_) << "workspace overrun";
  }

 private:
  std::byte* base_;
  std::size_t bytes_;
  std::size_t used_ = 0;
};

}  // namespace quire::device
