#include "commands/bench_case.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <set>
#include <utility>

#include "attention/workspace.h"
#include "base/checked.h"
#include "base/fp8.h"
#include "device/workspace.h"

namespace quire::commands {
namespace {

using attention::AttnWork;
using attention::BackendCaps;
using attention::DecodePart;

// The layers together against the last cache: at twice its size nothing of a layer is left when it comes again, at four times for certain.
constexpr std::int64_t kCachesToHold = 4, kCachesToMiss = 2;
constexpr std::int64_t kMaxLayers = 64;
constexpr std::size_t kStagingBytes = 4u << 20;  // random elements that the cache is filled from
constexpr std::size_t kFillBytes = 1u << 20;     // at a time, from a random place of them

attention::DecodeLimits limits_of(const AttentionShape& s) {
  return {.max_rows = s.num_sequences, .max_seq_len = s.num_tokens, .num_heads = s.num_heads, .num_kv_heads = s.num_kv_heads, .head_dim = s.head_dim};
}

// One block more than the sequences need: permuted, so that the spare one may be any.
kv::KvLayout layout_of(const AttentionShape& s, const CaseSettings& c, std::int32_t num_layers) {
  kv::KvLayout layout{.num_layers = num_layers, .num_kv_heads = s.num_kv_heads, .head_dim = s.head_dim, .block_size = c.block_size};
  layout.num_blocks = std::int64_t{s.num_sequences} * ceil_div(s.num_tokens, c.block_size) + 1;
  layout.dtype = c.kv_dtype;
  return layout;
}

template <class T>
void upload(device::Stream& stream, const TensorView& view, const std::vector<T>& host) {
  QUIRE_CHECK_LE(host.size() * sizeof(T), view.num_bytes());
  stream.copy_to_device(view.data, host.data(), host.size() * sizeof(T));
}

// A plan's lists as kernels read them.
struct PlanLists {
  std::vector<AttnWork> decode, prefill, all;
  std::vector<DecodePart> parts;
  std::vector<std::int32_t> counts;  // decode, prefill, all, parts
  bool split = false;

  explicit PlanLists(const attention::AttnPlan& plan) : decode(plan.decode), prefill(plan.extend), all(plan.decode), parts(plan.decode_parts), split(plan.num_split > 0) {
    prefill.insert(prefill.end(), plan.prefill.begin(), plan.prefill.end());
    all.insert(all.end(), prefill.begin(), prefill.end());
    for (const std::size_t n : {decode.size(), prefill.size(), all.size(), parts.size()}) counts.push_back(static_cast<std::int32_t>(n));
  }
};

// The lists on the device.
struct PlanViews {
  TensorView decode, prefill, all, parts, counts;
  attention::AttentionWorkspace partials;

  template <class V>
  void visit(V& v, const PlanLists& lists, const BackendCaps& caps, const AttentionShape& shape) {
    ints(v, decode, lists.decode);
    ints(v, prefill, lists.prefill);
    ints(v, all, lists.all);
    ints(v, parts, lists.parts);
    ints(v, counts, lists.counts);
    partials.visit(v, caps, limits_of(shape));
  }
  template <class V, class T>
  static void ints(V& v, TensorView& view, const std::vector<T>& list) {
    v.tensor(view, DType::kI32, {static_cast<std::int64_t>(list.size() * sizeof(T) / sizeof(std::int32_t))});
  }
  void fill(device::Stream& stream, const PlanLists& lists) const {
    upload(stream, decode, lists.decode);
    upload(stream, prefill, lists.prefill);
    upload(stream, all, lists.all);
    upload(stream, parts, lists.parts);
    upload(stream, counts, lists.counts);
  }
  [[nodiscard]] attention::DeviceWork work(const PlanLists& lists) const {
    const std::int32_t* on_device = counts.as<std::int32_t>();
    return {.decode = decode.as<AttnWork>(),
            .prefill = prefill.as<AttnWork>(),
            .all = all.as<AttnWork>(),
            .num_decode = on_device,
            .num_prefill = on_device + 1,
            .num_all = on_device + 2,
            .launch_decode = lists.counts[0],
            .launch_prefill = lists.counts[1],
            .launch_all = lists.counts[2],
            .parts = parts.as<DecodePart>(),
            .num_parts = on_device + 3,
            .launch_parts = lists.counts[3],
            .launch_combine = lists.split ? lists.counts[0] : 0,
            .partials = partials.partials()};
  }
};

std::size_t plan_bytes(const AttentionShape& s, const BackendCaps& caps) {
  const std::int64_t work = attention::max_work(s.query_rows(), s.num_sequences, s.num_heads / s.num_kv_heads);
  device::WorkspaceCounter count;
  attention::AttentionWorkspace partials;
  partials.visit(count, caps, limits_of(s));
  return count.bytes() + static_cast<std::size_t>(2 * work) * sizeof(AttnWork) + static_cast<std::size_t>(attention::max_decode_parts(caps, limits_of(s))) * sizeof(DecodePart);
}

// The element in the lower bytes.
std::uint32_t stored_bits(DType dtype, float x) {
  switch (dtype) {
    case DType::kF32: return std::bit_cast<std::uint32_t>(x);
    case DType::kF16: return to_float16(x).bits;
    case DType::kBF16: return to_bfloat16(x).bits;
    case DType::kFp8E4m3: return to_fp8<Fp8E4m3>(x).bits;
    case DType::kFp8E4m3Fnuz: return to_fp8<Fp8E4m3Fnuz>(x).bits;
    case DType::kFp8E5m2: return to_fp8<Fp8E5m2>(x).bits;
    case DType::kI32: case DType::kI64: case DType::kU8: break;
  }
  QUIRE_CHECK(false) << "no cache is made of " << dtype_name(dtype);
  return 0;
}

// Elements around 0 with a standard deviation of about 1, as stored.
std::vector<std::byte> random_elements(DType dtype, std::size_t bytes) {
  std::mt19937_64 rng(20240917);
  std::normal_distribution<float> normal;
  std::vector<std::byte> out(bytes);
  for (std::size_t at = 0; at < bytes; at += dtype_bytes(dtype)) {
    const std::uint32_t bits = stored_bits(dtype, normal(rng));
    std::memcpy(out.data() + at, &bits, dtype_bytes(dtype));
  }
  return out;
}

void fill_randomly(device::Stream& stream, std::byte* device_memory, std::size_t bytes, DType dtype) {
  const std::vector<std::byte> elements = random_elements(dtype, kStagingBytes);
  std::mt19937_64 rng(7);
  const std::size_t element = dtype_bytes(dtype);
  std::uniform_int_distribution<std::size_t> place(0, (kStagingBytes - kFillBytes) / element);
  for (std::size_t at = 0; at < bytes; at += kFillBytes) stream.copy_to_device(device_memory + at, elements.data() + place(rng) * element, std::min(kFillBytes, bytes - at));
}

}  // namespace

template <class V>
void AttentionCase::visit(V& v) {
  const std::int64_t width = std::int64_t{shape_.num_heads} * shape_.head_dim, n = shape_.num_sequences;
  v.tensor(q_, DType::kF32, {shape_.query_rows(), width});
  v.tensor(out_, DType::kF32, {shape_.query_rows(), width});
  v.tensor(query_start_, DType::kI32, {n + 1});
  v.tensor(seq_lens_, DType::kI32, {n});
  v.tensor(block_table_, DType::kI32, {n, ceil_div(shape_.num_tokens, settings_.block_size) + 1});
}

Result<CaseSizes> case_sizes(const AttentionShape& shape, const CaseSettings& settings) {
  CaseSizes sizes;
  sizes.layer_bytes = layout_of(shape, settings, 1).total_bytes();
  std::size_t plans = 0;
  for (const BackendCaps& caps : attention::backend_table())
    if (caps.on("cpu")) plans = std::max(plans, plan_bytes(shape, caps));
  const std::int64_t width = std::int64_t{shape.num_heads} * shape.head_dim * static_cast<std::int64_t>(sizeof(float));
  const std::int64_t beside = 2 * shape.query_rows() * width + static_cast<std::int64_t>(plans) + layout_of(shape, settings, 1).num_blocks * 2 * static_cast<std::int64_t>(sizeof(std::int32_t));
  const std::int64_t room = settings.free_bytes - beside;
  if (sizes.layer_bytes > room)
    return Error{ErrorCode::kResourceExhausted, "needs " + std::to_string((sizes.layer_bytes + beside) >> 20) + " MiB, " + std::to_string(settings.free_bytes >> 20) + " MiB of memory are free", {}};
  const std::int64_t wanted = std::clamp<std::int64_t>(ceil_div(kCachesToHold * settings.last_cache_bytes, sizes.layer_bytes), 1, kMaxLayers);
  sizes.num_layers = static_cast<std::int32_t>(std::min(wanted, room / sizes.layer_bytes));
  sizes.total_bytes = sizes.num_layers * sizes.layer_bytes + beside;
  sizes.from_memory = sizes.num_layers * sizes.layer_bytes >= kCachesToMiss * settings.last_cache_bytes;
  return sizes;
}

AttentionCase::AttentionCase(device::Device& device, const AttentionShape& shape, const CaseSettings& settings, const CaseSizes& sizes, kv::KvStore store, device::Buffer memory)
    : device_(device), stream_(device.make_stream()), shape_(shape), settings_(settings), sizes_(sizes), store_(std::move(store)), memory_(std::move(memory)),
      scale_(static_cast<float>(1.0 / std::sqrt(static_cast<double>(shape.head_dim)))) {}

Result<std::unique_ptr<AttentionCase>> AttentionCase::create(device::Device& device, const AttentionShape& shape, const CaseSettings& settings, const BackendCaps& caps) {
  const auto sizes = case_sizes(shape, settings);
  if (!sizes.ok()) return sizes.error();
  kv::KvLayout layout = layout_of(shape, settings, sizes->num_layers);
  layout.key_order = caps.key_order;
  layout.value_order = caps.value_order;
  auto store = kv::KvStore::create(device, layout);
  if (!store.ok()) return store.error();
  std::unique_ptr<AttentionCase> made(new AttentionCase(device, shape, settings, sizes.value(), std::move(store).value(), {}));
  auto memory = device::place_workspace(device, "bench inputs", [&](auto& v) { made->visit(v); });
  if (!memory.ok()) return memory.error();
  made->memory_ = std::move(memory).value();
  made->fill_inputs();
  return made;
}

void AttentionCase::fill_inputs() {
  const kv::KvLayout& layout = store_.layout();
  store_.set_scales(std::vector<float>(kv::KvStore::num_scales(layout), 1.0f));
  fill_randomly(*stream_, static_cast<std::byte*>(store_.data()), static_cast<std::size_t>(layout.total_bytes()), layout.dtype);
  fill_randomly(*stream_, q_.as<std::byte>(), q_.num_bytes(), DType::kF32);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(layout.num_blocks));
  std::iota(ids.begin(), ids.end(), 0);
  std::shuffle(ids.begin(), ids.end(), std::mt19937_64(11));
  const std::int32_t n = shape_.num_sequences, per_sequence = ceil_div(shape_.num_tokens, settings_.block_size), new_tokens = shape_.new_tokens();
  std::vector<std::int32_t> table, starts{0};
  for (std::int32_t s = 0; s < n; ++s) {
    const auto from = ids.begin() + std::ptrdiff_t{s} * per_sequence;
    blocks_.emplace_back(from, from + per_sequence);
    table.insert(table.end(), blocks_.back().begin(), blocks_.back().end());
    table.push_back(-1);  // past the end: never read
    starts.push_back(starts.back() + new_tokens);
  }
  upload(*stream_, query_start_, starts);
  upload(*stream_, seq_lens_, std::vector<std::int32_t>(static_cast<std::size_t>(n), shape_.num_tokens));
  upload(*stream_, block_table_, table);
  sample_ = std::make_unique<selfcheck::AttentionSample>(store_, sampled_sequences(), *stream_);
}

std::vector<selfcheck::SampledSequence> AttentionCase::sampled_sequences() const {
  const std::int32_t n = shape_.num_sequences, new_tokens = shape_.new_tokens();
  std::vector<selfcheck::SampledSequence> out;
  for (const std::int32_t s : std::set<std::int32_t>{0, n / 2, n - 1}) out.push_back({blocks_[static_cast<std::size_t>(s)], shape_.num_tokens, new_tokens, std::int64_t{s} * new_tokens});
  return out;
}

Result<PlannedBackend> AttentionCase::plan(const BackendCaps& caps) {
  const std::int32_t new_tokens = shape_.new_tokens();
  std::vector<attention::RowLengths> rows;
  for (std::int32_t s = 0; s < shape_.num_sequences; ++s) rows.push_back({shape_.num_tokens - new_tokens, new_tokens, s});
  attention::AttnPlan plan;
  attention::build_plan(rows, {.group = shape_.num_heads / shape_.num_kv_heads, .partial_slots = attention::partial_slots(caps, limits_of(shape_))}, plan);
  const PlanLists lists(plan);
  PlanViews views;
  auto memory = device::place_workspace(device_, "bench plan", [&](auto& v) { views.visit(v, lists, caps, shape_); });
  if (!memory.ok()) return memory.error();
  views.fill(*stream_, lists);
  PlannedBackend out{.caps = &caps, .memory = std::move(memory).value(), .work = views.work(lists)};
  for (std::int32_t layer = 0; layer < sizes_.num_layers; ++layer) out.layers.push_back(record(out, layer));
  for (const device::Launch& launch : out.layers.front().launches) {
    out.kernels.emplace_back(device::kernel_name(launch.id));
    out.launched_units += launch.geometry.units;
  }
  return out;
}

device::Graph AttentionCase::record(const PlannedBackend& backend, std::int32_t layer) {
  attention::LayerAttention a;
  a.q = ops::ActTensor{q_};
  a.out = ops::ActTensor{out_};
  a.query_start = query_start_.as<std::int32_t>();
  a.seq_lens = seq_lens_.as<std::int32_t>();
  a.block_table = block_table_.as<std::int32_t>();
  a.block_table_stride = block_table_.dim(1);
  a.num_heads = shape_.num_heads;
  a.scale = scale_;
  a.layout = &store_.layout();
  a.pool = store_.data();
  a.kv_scales = store_.scales();
  a.layer = layer;
  device::Graph graph;
  stream_->begin_record(graph);
  attention::run_attention(*stream_, *backend.caps, a, backend.work);
  stream_->end_record();
  return graph;
}

selfcheck::AttentionRows AttentionCase::rows() const { return {q_, out_, shape_.num_heads, static_cast<double>(scale_)}; }

AttentionCase::Checked AttentionCase::check(const PlannedBackend& backend) {
  sample_->mark_output(rows(), *stream_);
  const auto from = std::chrono::steady_clock::now();
  stream_->replay(backend.layers.back());
  stream_->synchronize();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
  return {sample_->check(rows(), *stream_), seconds};
}

Timing AttentionCase::time(const PlannedBackend& backend, const TimingRules& rules) {
  return time_repeats(rules, [&](std::size_t repeat) {
    stream_->replay(backend.layers[repeat % backend.layers.size()]);
    stream_->synchronize();
  });
}

}  // namespace quire::commands
