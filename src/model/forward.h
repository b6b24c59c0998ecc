// The forward pass of every family, written once against ops and attention. Launches only: it may be run, or recorded and replayed.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>

#include "attention/backend.h"
#include "device/device.h"
#include "device/workspace.h"
#include "kv/store/kv_store.h"
#include "model/weights.h"

namespace quire::model {

// What a step gives the model: device pointers, valid while the launches run.
struct StepView {
  std::int64_t num_tokens = 0;         // padded count when recorded
  const std::int32_t* token_ids = nullptr;
  const std::int32_t* positions = nullptr;
  const std::int64_t* slots = nullptr;
  const std::int32_t* query_start = nullptr;
  const std::int32_t* seq_lens = nullptr;
  const std::int32_t* block_table = nullptr;
  std::int64_t block_table_stride = 0;
  attention::DeviceWork work;
};

// What a model's linears need beside float32 activations; all zero where no input is quantised. The same before loading and after it: room
// is for every part of a fused projection to have an input scale of its own.
struct QuantisedNeeds {
  ops::ActFormat format = ops::ActFormat::kF32;
  std::int64_t values = 0, scales = 0;  // of a row
  bool head = false;                    // lm_head's input too
};
[[nodiscard]] QuantisedNeeds quantised_needs(const Weights& weights);

// Intermediate tensors; one set serves every layer.
struct Activations {
  TensorView residual, hidden, qkv, q, attended, projected, gate_up, activated;  // [max_tokens, ...]
  TensorView gathered, logits;                                                   // [logits_rows, ...]
  TensorView quantised, scales;  // the input of the linear that is next, if it is quantised

  template <class V>
  void visit(V& v, const ModelSpec& s, const QuantisedNeeds& needs, std::int64_t max_tokens, std::int64_t logits_rows) {
    const std::int64_t q_size = std::int64_t{s.num_heads} * s.head_dim, kv_size = std::int64_t{s.num_kv_heads} * s.head_dim;
    v.tensor(residual, DType::kF32, {max_tokens, s.hidden_size});
    v.tensor(hidden, DType::kF32, {max_tokens, s.hidden_size});
    v.tensor(qkv, DType::kF32, {max_tokens, q_size + 2 * kv_size});
    v.tensor(q, DType::kF32, {max_tokens, q_size});
    v.tensor(attended, DType::kF32, {max_tokens, q_size});
    v.tensor(projected, DType::kF32, {max_tokens, s.hidden_size});
    v.tensor(gate_up, DType::kF32, {max_tokens, 2 * std::int64_t{s.intermediate_size}});
    v.tensor(activated, DType::kF32, {max_tokens, s.intermediate_size});
    v.tensor(gathered, DType::kF32, {logits_rows, s.hidden_size});
    v.tensor(logits, DType::kF32, {logits_rows, s.vocab_size});
    const std::int64_t rows = needs.head ? std::max(max_tokens, logits_rows) : max_tokens;
    if (needs.values > 0) v.tensor(quantised, storage_dtype(needs.format), {rows, needs.values});
    if (needs.scales > 0) v.tensor(scales, DType::kF32, {rows, needs.scales});
  }
  // What `w` reads of x [rows, w.k]: x itself, or the place of its quantised form.
  [[nodiscard]] ops::ActTensor input_of(const ops::Weight& w, const ops::ActTensor& x) const;
};

// Where a layer can be looked at while it runs launch by launch: the inputs of its linear layers, and the queries, keys and values before
// they are rotated and stored. `act` then holds that layer's in float32, but for an input that is quantised. Called on the host between launches, so never while recording.
enum class Site : std::uint8_t { kQkvInput, kQkvOutput, kOInput, kGateUpInput, kDownInput };
using SiteObserver = std::function<void(Site site, std::int32_t layer)>;

struct ForwardModel {
  const ModelSpec& spec;
  const Weights& weights;
  const attention::BackendCaps& backend;
  kv::KvStore& kv;
  const Activations& act;
  const SiteObserver* observer = nullptr;  // nullptr: nobody looks
};

// The forward pass is cut at attention, so that a graph may hold all of it, or only the pieces between (PIECEWISE):
//   piece 0, attention 0, piece 1, attention 1, ..., attention n - 1, piece n      (n layers)
// Piece 0 starts with the embedding; piece i ends with layer i's keys and values in the cache; piece n ends with the final norm.
void forward_piece(device::Stream& stream, const ForwardModel& m, const StepView& step, std::int32_t piece);
void forward_attention(device::Stream& stream, const ForwardModel& m, const StepView& step, std::int32_t layer);
// All pieces in order: act.hidden holds the last hidden states of the step's tokens.
void forward(device::Stream& stream, const ForwardModel& m, const StepView& step);
// Logits of the tokens `token_rows[0, count)` (indices into the step's tokens; -1: zeros) into the first rows of act.logits, capped where the model says so.
void logits(device::Stream& stream, const ForwardModel& m, const std::int32_t* token_rows, std::int64_t count);

}  // namespace quire::model
