// The nearest supported configuration: per row, each field of the question moved to the closest value that every class of rows takes; the row with
// the fewest moves wins, the table's order breaks ties.
#include <algorithm>

#include "attention/device_family.h"
#include "attention/select.h"

namespace quire::attention {
namespace {

constexpr std::int32_t kMaxHeadTried = 1024, kMaxBlockTried = 1024;

template <class Takes>
bool all_classes(const BackendCaps& row, Takes takes) {
  return takes(row.decode) && takes(row.extend) && takes(row.prefill);
}

// The value closest to `wanted` in 1..limit (the smaller of two) that `takes` accepts; 0: none.
template <class Takes>
std::int32_t closest(std::int32_t wanted, std::int32_t limit, Takes takes) {
  const std::int32_t from = std::clamp(wanted, 1, limit);
  for (std::int32_t d = 0; d <= limit; ++d) {
    if (from - d >= 1 && takes(from - d)) return from - d;
    if (from + d <= limit && takes(from + d)) return from + d;
  }
  return 0;
}

struct Moves {
  const BackendCaps& row;
  const DeviceFamily& device;
  AttnProblem q;
  std::vector<std::string> changes;

  void say(const std::string& what, const std::string& now, const std::string& was) { changes.push_back(what + " " + now + " instead of " + was); }

  void heads() {
    if (q.num_heads <= 0 || q.num_heads > (1 << 20)) say("query heads", "1", std::to_string(q.num_heads)), q.num_heads = 1;
    const auto old_kv = q.num_kv_heads;
    const auto old_ranks = q.num_ranks;
    if (q.num_kv_heads <= 0 || q.num_heads % q.num_kv_heads != 0)
      q.num_kv_heads = closest(old_kv, q.num_heads, [&](std::int32_t n) { return q.num_heads % n == 0; });
    if (q.group() == 0) {
      const std::int32_t ranks = std::clamp(q.num_ranks, 1, q.num_heads);
      for (q.num_ranks = ranks; q.num_ranks > 1 && q.group() == 0;) --q.num_ranks;
    }
    const auto group_fits = [&] { return all_classes(row, [&](const ClassCaps& c) { return q.group() >= c.min_group && q.group() <= c.max_group; }); };
    if (!group_fits()) {
      const std::int32_t kv = q.num_kv_heads;
      const std::int32_t found = closest(kv, q.num_heads, [&](std::int32_t n) { return q.num_heads % n == 0 && (q.num_kv_heads = n, group_fits()); });
      q.num_kv_heads = found == 0 ? kv : found;
    }
    if (q.num_kv_heads != old_kv) say("KV heads", std::to_string(q.num_kv_heads), std::to_string(old_kv));
    if (q.num_ranks != old_ranks) say("ranks", std::to_string(q.num_ranks), std::to_string(old_ranks));
  }
  void sizes() {
    const auto head = closest(q.head_dim, kMaxHeadTried, [&](std::int32_t d) { return all_classes(row, [&](const ClassCaps& c) { return c.takes_head_dim(d); }); });
    if (head != q.head_dim) say("head size", std::to_string(head), std::to_string(q.head_dim));
    q.head_dim = head;
    const auto block_fits = [&](std::int32_t b) { return all_classes(row, [&](const ClassCaps& c) { return c.takes_block_size(b); }); };
    if (block_fits(q.block_size)) return;
    const auto block = closest(q.block_size, kMaxBlockTried, block_fits);
    say("block size", std::to_string(block), std::to_string(q.block_size));
    q.block_size = block;
  }
  void types() {
    const auto query_fits = [&](DType t) { return all_classes(row, [&](const ClassCaps& c) { return c.takes_query(t); }); };
    if (!query_fits(q.query_dtype)) {
      const DType was = q.query_dtype;
      for (const DType t : {DType::kBF16, DType::kF16, DType::kF32})
        if (!query_fits(q.query_dtype)) q.query_dtype = t;
      say("queries in", dtype_name(q.query_dtype), dtype_name(was));
    }
    const auto format_fits = [&](kv::KvFormat f) { return device.stores(f) && all_classes(row, [&](const ClassCaps& c) { return c.takes_format(f); }); };
    if (format_fits(q.kv_format)) return;
    const std::string was = q.kv_format_text();
    if (is_fp8(q.kv_format)) q.kv_format = device.e4m3();  // the same width first
    for (const kv::KvFormat f : {kv::KvFormat::kBF16, kv::KvFormat::kF16, kv::KvFormat::kF32, device.e4m3()})
      if (!format_fits(q.kv_format)) q.kv_format = f;
    say("KV", q.kv_format_text(), was);
  }
  void masks_and_length() {
    for (const Mask m : kMasks) {
      if (!q.masks.has(m) || all_classes(row, [&](const ClassCaps& c) { return c.masks.has(m); })) continue;
      q.masks.remove(m);
      changes.push_back(std::string("no ") + mask_name(m));
    }
    for (const RowClass p : kRowClasses) {
      const std::int64_t most = row.of(p).max_context;
      if (most == 0 || q.max_context <= most) continue;
      say("at most", std::to_string(most) + " tokens", std::to_string(q.max_context));
      q.max_context = most;
    }
  }
};

}  // namespace

std::optional<Nearest> nearest_supported(const AttnProblem& problem, std::string_view family, const BackendCaps* asked, Unbuilt unbuilt) {
  const DeviceFamily* device = find_device_family(family);
  if (device == nullptr) return std::nullopt;
  std::optional<Nearest> best;
  const bool keep_row = asked != nullptr && asked->on(family) && (asked->built == Built::kYes || unbuilt == Unbuilt::kTakesPart);
  for (const BackendCaps& row : backend_table()) {
    if (keep_row ? &row != asked : row.opt_in == OptIn::kByName) continue;
    if (!row.on(family) || (row.built == Built::kNo && unbuilt == Unbuilt::kRefused)) continue;
    Moves moves{row, *device, problem, {}};
    moves.heads();
    moves.sizes();
    moves.types();
    moves.masks_and_length();
    if (!reasons_against(row, moves.q, family).empty()) continue;
    if (!best.has_value() || moves.changes.size() < best->changes.size()) best = Nearest{&row, moves.q, std::move(moves.changes)};
  }
  return best;
}

}  // namespace quire::attention
