#include "selfcheck/faults.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "attention/cpu_kernels.h"
#include "attention/params.h"
#include "base/check.h"
#include "base/dtype.h"
#include "kit/model_bench.h"

namespace quire::test {
namespace {

using attention::AttnParams;
using attention::AttnWork;
using device::KernelId;

struct State {
  Fault fault = Fault::kNone;
  FaultShape shape;
  std::array<device::ThreadPool::Body, device::kNumKernels> right{};
  std::vector<std::int32_t> table, lengths;  // stale copies, or this launch's corrupted ones
  std::vector<float> q, out;
  std::vector<AttnWork> work;
  std::vector<BFloat16> pool;
  std::vector<const void*> layers;  // their parts of the pool, in the order of the first step
  std::vector<float> key_scales, value_scales;  // this launch's
};
State& state() {
  static State s;
  return s;
}

// The layer of a launch; the first step of a process goes through them in order.
int layer_of(const ops::KvPool& kv) {
  State& s = state();
  const auto found = std::find(s.layers.begin(), s.layers.end(), kv.data);
  const auto layer = static_cast<int>(found - s.layers.begin());
  if (found == s.layers.end()) s.layers.push_back(kv.data);
  return layer;
}

// A recorded launch has room for more work than this step's.
bool is_recorded(const AttnParams& p) { return p.launch_units != std::int64_t{*p.num_work} * p.kv.num_kv_heads; }

bool is_decode(KernelId id) { return id >= KernelId::kAttnDecodeF32 && id <= KernelId::kAttnDecodeBF16; }

// Entries of the launch's list. The decode kernel's units name them.
std::int32_t num_entries(KernelId id, const AttnParams& p) {
  if (!is_decode(id)) return *p.num_work;
  std::int32_t n = 0;
  for (std::int32_t i = 0; i < *p.num_work; ++i) n = std::max(n, p.parts[i].entry + 1);
  return n;
}

std::int64_t table_entries() { return state().shape.state_rows * state().shape.table_stride; }

void stale_table(AttnParams& p) {
  State& s = state();
  if (s.table.empty()) s.table.assign(p.block_table, p.block_table + table_entries());
  p.block_table = s.table.data();
}

void stale_lengths(AttnParams& p) {
  State& s = state();
  if (s.lengths.empty()) s.lengths.assign(p.seq_lens, p.seq_lens + s.shape.state_rows);
  p.seq_lens = s.lengths.data();
}

void cut_offsets(AttnParams& p) {
  State& s = state();
  s.table.assign(p.block_table, p.block_table + table_entries());
  const auto block_bytes = static_cast<std::uint64_t>(p.kv.block_elements) * sizeof(BFloat16);
  for (std::int32_t& b : s.table) b = static_cast<std::int32_t>(static_cast<std::uint32_t>(static_cast<std::uint64_t>(b) * block_bytes) / block_bytes);
  p.block_table = s.table.data();
}

void shorter_view(AttnParams& p) {
  State& s = state();
  if (p.masks.window > 1) return static_cast<void>(--p.masks.window);
  s.lengths.assign(p.seq_lens, p.seq_lens + s.shape.state_rows);
  for (std::int32_t& n : s.lengths) n = std::max(0, n - 1);
  p.seq_lens = s.lengths.data();
}

void share_slots(KernelId id, AttnParams& p) {
  State& s = state();
  s.work.assign(p.work, p.work + num_entries(id, p));
  for (AttnWork& w : s.work)
    if (w.slot >= 0) w.slot = 0;
  p.work = s.work.data();
}

void transpose_values(AttnParams& p) {
  State& s = state();
  const auto* from = static_cast<const BFloat16*>(p.kv.data);
  s.pool.assign(from, from + s.shape.num_blocks * p.kv.block_elements);
  const std::int64_t cell = p.kv.cell_elements, cells = p.kv.cells_per_block * std::int64_t{p.kv.num_kv_heads};
  for (std::int64_t b = 0; b < s.shape.num_blocks; ++b)
    for (std::int64_t c = cells; c < 2 * cells; ++c)
      for (std::int64_t i = 0; i < cell; ++i) s.pool[static_cast<std::size_t>(b * p.kv.block_elements + c * cell + i)] = from[b * p.kv.block_elements + c * cell + i % 16 * p.head_dim + i / 16];
  p.kv.data = s.pool.data();
}

// Query head h + 1 is computed in the place of head h.
void shifted_heads(KernelId id, const AttnParams& p, std::int64_t begin, std::int64_t end) {
  State& s = state();
  const std::int64_t heads = p.num_heads, d = p.head_dim, tokens = s.shape.max_tokens;
  s.q.resize(static_cast<std::size_t>(tokens * heads * d));
  s.out.assign(s.q.size(), std::numeric_limits<float>::quiet_NaN());
  const auto at = [&](std::int64_t t, std::int64_t h) { return (t * heads + (h + heads) % heads) * d; };
  for (std::int64_t t = 0; t < tokens; ++t)
    for (std::int64_t h = 0; h < heads; ++h) std::copy_n(p.q + at(t, h + 1), d, s.q.begin() + at(t, h));
  AttnParams wrong = p;
  wrong.q = s.q.data();
  wrong.out = s.out.data();
  s.right[static_cast<std::size_t>(id)](&wrong, begin, end);
  for (std::int64_t t = 0; t < tokens; ++t)
    for (std::int64_t h = 0; h < heads; ++h)
      if (!std::isnan(s.out[static_cast<std::size_t>(at(t, h))])) std::copy_n(s.out.begin() + at(t, h), d, p.out + at(t, h + 1));
}

void write_prefill_row(KernelId id, const AttnParams& p) {
  const std::int64_t width = std::int64_t{p.num_heads} * p.head_dim;
  if (is_decode(id) || p.query_start[1] - p.query_start[0] != 1) return;
  for (std::int32_t i = 0; i < *p.num_work; ++i) {
    const std::int32_t row = p.work[i].row;
    if (p.query_start[row + 1] - p.query_start[row] > 1) return static_cast<void>(std::copy_n(p.out, width, p.out + p.query_start[row] * width));
  }
}

void compute_padded_row(KernelId id, const AttnParams& p) {
  std::int32_t token = 0;
  for (std::int32_t i = 0; i < num_entries(id, p); ++i) token = std::max(token, p.query_start[p.work[i].row + 1]);
  const auto* block = static_cast<const BFloat16*>(p.kv.data);
  for (std::int64_t c = 0; c < std::int64_t{p.num_heads} * p.head_dim; ++c) p.out[token * std::int64_t{p.num_heads} * p.head_dim + c] = to_float(block[c]);
}

bool is_wrong_in(int layer) { return state().shape.only_layer < 0 || layer == state().shape.only_layer; }

// A layer's scales, of keys or of values, as the fault has them; `other` are the part's opposite.
std::vector<float> wrong_scales(const float* right, const float* other, std::int32_t heads, int layer) {
  std::vector<float> out(right, right + heads);
  const std::ptrdiff_t to_next = 2 * std::ptrdiff_t{heads} * (layer + 1 < state().shape.num_layers ? 1 : -layer);
  switch (state().fault) {
    case Fault::kScaleDropped: std::fill(out.begin(), out.end(), 1.0f); break;
    case Fault::kScaleDoubled: std::transform(out.begin(), out.end(), out.begin(), [](float s) { return 2.0f * s; }); break;
    case Fault::kScaleOfNextLayer: std::copy_n(right + to_next, heads, out.begin()); break;
    case Fault::kScalesSwapped: std::copy_n(other, heads, out.begin()); break;
    default: QUIRE_CHECK(false) << "no fault of scales";
  }
  return out;
}

void spoil_scales(ops::KvPool& kv, int layer) {
  State& s = state();
  s.key_scales = wrong_scales(kv.key_scales, kv.value_scales, kv.num_kv_heads, layer);
  s.value_scales = wrong_scales(kv.value_scales, kv.key_scales, kv.num_kv_heads, layer);
  if (s.shape.part != ScalePart::kValues) kv.key_scales = s.key_scales.data();
  if (s.shape.part != ScalePart::kKeys) kv.value_scales = s.value_scales.data();
}

bool is_of_scales(Fault f) { return std::ranges::find(kScaleFaults, f) != std::end(kScaleFaults); }

// The kernel of OCP caches beside one of FNUZ caches.
KernelId ocp_twin(KernelId id) {
  switch (id) {
    case KernelId::kAttnDecodeE4m3Fnuz: return KernelId::kAttnDecodeE4m3;
    case KernelId::kAttnPrefillE4m3Fnuz: return KernelId::kAttnPrefillE4m3;
    case KernelId::kAttnUnifiedE4m3Fnuz: return KernelId::kAttnUnifiedE4m3;
    default: return id;
  }
}

// Attention over an FP8 cache.
void read_faulty(KernelId id, const void* params, std::int64_t begin, std::int64_t end) {
  State& s = state();
  AttnParams p = *static_cast<const AttnParams*>(params);
  const int layer = layer_of(p.kv);
  const bool wrong = is_of_scales(s.fault) && is_wrong_in(layer) && s.shape.users != ScaleUsers::kWriters;
  if (wrong && s.fault == Fault::kFnuzReadAsOcp) return s.right[static_cast<std::size_t>(ocp_twin(id))](&p, begin, end);
  if (wrong) spoil_scales(p.kv, layer);
  s.right[static_cast<std::size_t>(id)](&p, begin, end);
}

// The write of new keys and values into an FP8 cache.
void write_faulty(KernelId id, const void* params, std::int64_t begin, std::int64_t end) {
  State& s = state();
  ops::RopeKvWriteParams p = *static_cast<const ops::RopeKvWriteParams*>(params);
  const int layer = layer_of(p.kv);
  if (is_of_scales(s.fault) && s.fault != Fault::kFnuzReadAsOcp && is_wrong_in(layer) && s.shape.users != ScaleUsers::kReaders) spoil_scales(p.kv, layer);
  s.right[static_cast<std::size_t>(id)](&p, begin, end);
}

void run_faulty(KernelId id, const void* params, std::int64_t begin, std::int64_t end) {
  State& s = state();
  AttnParams p = *static_cast<const AttnParams*>(params);
  const bool last = end == p.launch_units;
  const int layer = layer_of(p.kv);
  if (!is_wrong_in(layer)) return s.right[static_cast<std::size_t>(id)](params, begin, end);
  switch (s.fault) {
    case Fault::kNone: break;
    case Fault::kBlockTableStale: stale_table(p); break;
    case Fault::kLengthsStale: stale_lengths(p); break;
    case Fault::kOffset32: cut_offsets(p); break;
    case Fault::kWindowOffByOne: shorter_view(p); break;
    case Fault::kGroupOffByOne: return shifted_heads(id, p, begin, end);
    case Fault::kWorkspaceOverlap: share_slots(id, p); break;
    case Fault::kValuesTransposed: transpose_values(p); break;
    case Fault::kCapturedAsDecode:
      if (id == KernelId::kAttnPrefillBF16 && is_recorded(p)) return;
      break;
    case Fault::kDecodeWritesPrefillRow: case Fault::kPaddedRowReadsKv: break;
    case Fault::kScaleDropped: case Fault::kScaleDoubled: case Fault::kScaleOfNextLayer: case Fault::kScalesSwapped: case Fault::kFnuzReadAsOcp: break;  // of FP8 caches
  }
  s.right[static_cast<std::size_t>(id)](&p, begin, end);
  if (s.fault == Fault::kDecodeWritesPrefillRow && last) write_prefill_row(id, p);
  if (s.fault == Fault::kPaddedRowReadsKv && last) compute_padded_row(id, p);
}

using FaultyRun = void (*)(KernelId id, const void* params, std::int64_t begin, std::int64_t end);
template <FaultyRun kRun, KernelId kId>
void faulty(const void* params, std::int64_t begin, std::int64_t end) { kRun(kId, params, begin, end); }

template <FaultyRun kRun, KernelId... kIds>
void replace(std::vector<device::CpuKernel>& kernels) {
  for (device::CpuKernel& k : kernels) ((k.id == kIds ? static_cast<void>(k.run = faulty<kRun, kIds>) : static_cast<void>(0)), ...);
}

}  // namespace

const char* fault_name(Fault f) {
  switch (f) {
    case Fault::kNone: return "none";
    case Fault::kBlockTableStale: return "block table stale";
    case Fault::kLengthsStale: return "lengths stale";
    case Fault::kOffset32: return "32-bit offset";
    case Fault::kWindowOffByOne: return "window off by one";
    case Fault::kGroupOffByOne: return "GQA group off by one";
    case Fault::kDecodeWritesPrefillRow: return "decode writing a prefill row";
    case Fault::kWorkspaceOverlap: return "workspace overlap";
    case Fault::kPaddedRowReadsKv: return "padded row reading KV";
    case Fault::kValuesTransposed: return "V cells transposed";
    case Fault::kCapturedAsDecode: return "graph captured as decode";
    case Fault::kScaleDropped: return "KV scale dropped";
    case Fault::kScaleDoubled: return "KV scale doubled";
    case Fault::kScaleOfNextLayer: return "KV scale of another layer";
    case Fault::kScalesSwapped: return "K and V scales swapped";
    case Fault::kFnuzReadAsOcp: return "FNUZ bytes read as OCP";
  }
  return "?";
}

std::vector<device::CpuKernel> faulty_kernels(Fault fault, const FaultShape& shape) {
  state() = State{.fault = fault, .shape = shape};
  std::vector<device::CpuKernel> kernels = all_cpu_kernels();
  for (const device::CpuKernel& k : kernels) state().right[static_cast<std::size_t>(k.id)] = k.run;
  replace<run_faulty, KernelId::kAttnDecodeBF16, KernelId::kAttnCombine, KernelId::kAttnPrefillBF16, KernelId::kAttnUnifiedBF16>(kernels);
  replace<read_faulty, KernelId::kAttnDecodeE4m3, KernelId::kAttnPrefillE4m3, KernelId::kAttnUnifiedE4m3>(kernels);
  replace<read_faulty, KernelId::kAttnDecodeE4m3Fnuz, KernelId::kAttnPrefillE4m3Fnuz, KernelId::kAttnUnifiedE4m3Fnuz>(kernels);
  replace<write_faulty, KernelId::kRopeKvWriteE4m3, KernelId::kRopeKvWriteE4m3Fnuz>(kernels);
  return kernels;
}

}  // namespace quire::test
