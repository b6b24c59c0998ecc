#include "runner/step_buffers.h"

#include "attention/params.h"

#include <utility>

namespace quire::runner {
namespace {

// Structs are carved as rows of bytes.
template <class T>
constexpr std::int64_t kBytes = static_cast<std::int64_t>(sizeof(T));

}  // namespace

const char* field_name(Field f) {
  switch (f) {
    case Field::kRowOfToken: return "row_of_token";
    case Field::kPositions: return "positions";
    case Field::kSlots: return "slots";
    case Field::kQueryStart: return "query_start";
    case Field::kSeqLens: return "seq_lens";
    case Field::kWorkDecode: return "work_decode";
    case Field::kWorkParts: return "work_parts";
    case Field::kWorkPrefill: return "work_prefill";
    case Field::kWorkAll: return "work_all";
    case Field::kWorkCounts: return "work_counts";
    case Field::kTokenRows: return "token_rows";
    case Field::kLogitsRows: return "logits_rows";
    case Field::kTokenIds: return "token_ids";
    case Field::kCount: break;
  }
  return "?";
}

template <class V>
void StepBuffers::visit(V& v, const StepLimits& l) {
  const auto field = [&](Field f) -> TensorView& { return views_[static_cast<std::size_t>(f)]; };
  v.tensor(field(Field::kRowOfToken), DType::kI32, {l.max_tokens});
  v.tensor(field(Field::kPositions), DType::kI32, {l.max_tokens});
  v.tensor(field(Field::kSlots), DType::kI64, {l.max_tokens});
  v.tensor(field(Field::kQueryStart), DType::kI32, {l.max_rows + 1});
  v.tensor(field(Field::kSeqLens), DType::kI32, {l.max_rows});
  v.tensor(field(Field::kWorkDecode), DType::kU8, {l.max_work, kBytes<attention::AttnWork>});
  v.tensor(field(Field::kWorkParts), DType::kU8, {l.max_parts, kBytes<attention::DecodePart>});
  v.tensor(field(Field::kWorkPrefill), DType::kU8, {l.max_work, kBytes<attention::AttnWork>});
  v.tensor(field(Field::kWorkAll), DType::kU8, {l.max_work, kBytes<attention::AttnWork>});
  v.tensor(field(Field::kWorkCounts), DType::kI32, {4});
  v.tensor(field(Field::kTokenRows), DType::kI32, {l.max_logits});
  v.tensor(field(Field::kLogitsRows), DType::kU8, {l.max_logits, kBytes<ops::LogitsRow>});
  v.tensor(field(Field::kTokenIds), DType::kI32, {l.max_tokens});
  v.tensor(results_, DType::kU8, {l.max_logits, kBytes<ops::LogitsResult>});
  v.tensor(top_ids_, DType::kI32, {l.max_logits, l.top_stride});
  v.tensor(top_logprobs_, DType::kF32, {l.max_logits, l.top_stride});
}

Result<StepBuffers> StepBuffers::create(device::Device& device, const StepLimits& limits) {
  StepBuffers b;
  auto memory = device::place_workspace(device, "step inputs", [&](auto& v) { b.visit(v, limits); });
  if (!memory.ok()) return memory.error();
  b.memory_ = std::move(memory).value();
  return b;
}

void StepBuffers::require(std::uint64_t step) const {
  for (std::size_t i = 0; i < kFields; ++i)
    QUIRE_CHECK_EQ(stamps_[i], step) << "field " << field_name(static_cast<Field>(i)) << " was not produced for this step";
}

}  // namespace quire::runner
