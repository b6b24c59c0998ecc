// Every device buffer that a step reads, with one owner and one stamp per field: "a producer for step N was enqueued". A step refuses to
// start unless each field carries its number, so that a stale or forgotten input is a stop, never a wrong answer (docs/CONTRACTS.md, "Runner").
// There is one instance for each step in flight.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "device/device.h"
#include "device/workspace.h"
#include "ops/sample.h"

namespace quire::runner {

// Each field has one producer: the host (a copy of this step's staging) or a kernel of the step.
enum class Field : std::uint8_t {
  kRowOfToken, kPositions, kSlots, kQueryStart, kSeqLens, kWorkDecode, kWorkParts, kWorkPrefill, kWorkAll, kWorkCounts, kTokenRows, kLogitsRows,  // host
  kTokenIds,                                                                                                                          // gather_tokens
  kCount,
};
[[nodiscard]] const char* field_name(Field f);

struct StepLimits {
  std::int64_t max_tokens = 0, max_rows = 0;
  std::int64_t max_work = 0;       // entries of a work list
  std::int64_t max_parts = 0;      // units of split decode
  std::int64_t max_logits = 0;     // rows of logits over a whole step: sampled and scored
  std::int64_t top_stride = 0;     // top log-probabilities kept for a row
};

class StepBuffers {
 public:
  [[nodiscard]] static Result<StepBuffers> create(device::Device& device, const StepLimits& limits);

  // Copies `count` elements of staging into a field and stamps it. Elements past `count` keep older values; readers get counts or padding.
  template <class T>
  void fill(device::Stream& stream, Field field, const T* host, std::size_t count, std::uint64_t step) {
    TensorView& view = views_[static_cast<std::size_t>(field)];
    QUIRE_CHECK_LE(count * sizeof(T), view.num_bytes()) << field_name(field);
    stream.copy_to_device(view.data, host, count * sizeof(T));
    stamp(field, step);
  }
  void stamp(Field field, std::uint64_t step) { stamps_[static_cast<std::size_t>(field)] = step; }
  // No step was produced yet.
  void forget() { stamps_.fill(0); }
  // QUIRE_CHECKs that every field was produced for `step`.
  void require(std::uint64_t step) const;

  template <class T>
  [[nodiscard]] T* get(Field field) const { return views_[static_cast<std::size_t>(field)].as<T>(); }
  // Written by the sampler of the step.
  [[nodiscard]] ops::LogitsResult* results() const { return static_cast<ops::LogitsResult*>(results_.data); }
  [[nodiscard]] std::int32_t* top_ids() const { return top_ids_.as<std::int32_t>(); }
  [[nodiscard]] float* top_logprobs() const { return top_logprobs_.as<float>(); }

  template <class V>
  void visit(V& v, const StepLimits& limits);

 private:
  static constexpr std::size_t kFields = static_cast<std::size_t>(Field::kCount);
  device::Buffer memory_;
  std::array<TensorView, kFields> views_{};
  std::array<std::uint64_t, kFields> stamps_{};
  TensorView results_, top_ids_, top_logprobs_;
};

}  // namespace quire::runner
