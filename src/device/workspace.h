// Sizes and carves a workspace with one visitor, so that the bytes that are planned and the offsets that are used can never disagree.
//
//   struct Activations {
//     TensorView hidden, qkv;
//     template <class V> void visit(V& v, std::int64_t tokens) {
//       v.tensor(hidden, DType::kF32, {tokens, 256});
//       v.tensor(qkv, DType::kF32, {tokens, 512});
//     }
//   };
//   Buffer memory = place_workspace(device, "activations", [&](auto& v) { a.visit(v, 2048); }).value();
#pragma once
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "base/check.h"
#include "base/checked.h"
#include "base/result.h"
#include "device/device.h"
#include "tensor/view.h"

namespace quire::device {

inline constexpr std::size_t kWorkspaceAlignment = 256;

// What a visitor asked for. Two that differ in any tensor's size, if only by a byte that alignment would hide, differ here.
struct WorkspaceSize {
  std::size_t bytes = 0;
  std::uint64_t digest = 0xcbf29ce484222325u;  // of every tensor's exact size, in order

  void add(std::size_t tensor_bytes) {
    bytes += round_up(tensor_bytes, kWorkspaceAlignment);
    digest = (digest ^ tensor_bytes) * 0x100000001b3u;
  }
  friend bool operator==(const WorkspaceSize&, const WorkspaceSize&) = default;
};

class WorkspaceCounter {
 public:
  void tensor(TensorView& view, DType dtype, std::initializer_list<std::int64_t> shape) {
    view = TensorView::dense(nullptr, dtype, shape);
    size_.add(view.num_bytes());
  }
  [[nodiscard]] const WorkspaceSize& size() const { return size_; }
  [[nodiscard]] std::size_t bytes() const { return size_.bytes; }

 private:
  WorkspaceSize size_;
};

class WorkspaceCarver {
 public:
  WorkspaceCarver(std::byte* base, const WorkspaceSize& planned) : base_(base), planned_(planned) {}
  // Every tensor must have been carved as it was counted.
  void finish() const { QUIRE_CHECK(used_ == planned_) << "workspace planned and carved differently: " << planned_.bytes << " and " << used_.bytes << " bytes"; }
  void tensor(TensorView& view, DType dtype, std::initializer_list<std::int64_t> shape) {
    view = TensorView::dense(base_ + used_.bytes, dtype, shape);
    used_.add(view.num_bytes());
    QUIRE_CHECK_LE(used_.bytes, planned_.bytes) << "workspace overrun";
  }

 private:
  std::byte* base_;
  WorkspaceSize planned_, used_;
};

// Counts with `visit(visitor)`, allocates under the name `what`, and carves with it. Nothing to place allocates nothing.
template <class Visit>
[[nodiscard]] Result<Buffer> place_workspace(Device& device, const std::string& what, Visit visit) {
  WorkspaceCounter counter;
  visit(counter);
  if (counter.bytes() == 0) return Buffer();
  auto memory = device.allocate(counter.bytes(), what);
  if (!memory.ok()) return memory.error();
  WorkspaceCarver carver(memory->data(), counter.size());
  visit(carver);
  carver.finish();
  return memory;
}

}  // namespace quire::device
