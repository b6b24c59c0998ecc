// The question (AttnProblem), the offers (BackendCaps rows) and their graded graph support. Plain values without device headers: docs,
// selection, explain and tests read the same rows (table.cc).
#pragma once
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attention/row_class.h"
#include "base/dtype.h"
#include "graph/mode.h"
#include "kv/store/kv_format.h"
#include "kv/store/kv_layout.h"

namespace quire::attention {

using graph::graph_support_name;
using graph::GraphSupport;

// A step's rows, as graphs see them: all of one token, all of one same length, or any mix.
enum class BatchClass : std::uint8_t { kSingleTokenDecode, kUniform, kMixed };
[[nodiscard]] constexpr bool graph_holds(GraphSupport s, BatchClass b) { return static_cast<int>(s) > static_cast<int>(b); }

// What a row's queries do to the cache. Every row can be causal with the full context; the others are extra.
enum class Mask : std::uint8_t { kSlidingWindow, kChunkedLocal, kAlibi, kSoftCap, kSinks };
inline constexpr Mask kMasks[] = {Mask::kSlidingWindow, Mask::kChunkedLocal, Mask::kAlibi, Mask::kSoftCap, Mask::kSinks};
[[nodiscard]] const char* mask_name(Mask m);  // "sliding window", ...

class MaskSet {
 public:
  constexpr MaskSet() = default;
  constexpr MaskSet(std::initializer_list<Mask> masks) { for (const Mask m : masks) add(m); }
  constexpr void add(Mask m) { bits_ = static_cast<std::uint8_t>(bits_ | bit(m)); }
  constexpr void remove(Mask m) { bits_ = static_cast<std::uint8_t>(bits_ & ~bit(m)); }
  [[nodiscard]] constexpr bool has(Mask m) const { return (bits_ & bit(m)) != 0; }
  [[nodiscard]] constexpr bool empty() const { return bits_ == 0; }
  friend constexpr bool operator==(MaskSet, MaskSet) = default;

 private:
  static constexpr unsigned bit(Mask m) { return 1u << static_cast<unsigned>(m); }
  std::uint8_t bits_ = 0;
};

// What a model and its settings ask of attention. Layers of one model share it.
struct AttnProblem {
  std::int32_t num_heads = 0, num_kv_heads = 0, head_dim = 0;  // of the whole model
  std::int32_t block_size = 16;
  kv::KvFormat kv_format = kv::KvFormat::kBF16;
  DType query_dtype = DType::kBF16;
  MaskSet masks = {};
  std::int64_t max_context = 0;  // tokens; 0: not stated
  std::int32_t num_ranks = 1;    // that share each layer's heads
  std::string kv_format_asked = {};  // of a kv_format kOther: the name that was asked for; "": none was

  // Query heads per KV head on one rank; more ranks than KV heads replicate them. 0: the heads do not divide.
  [[nodiscard]] std::int32_t group() const;
  [[nodiscard]] std::string kv_format_text() const;
  [[nodiscard]] std::string describe() const;
};

enum class KernelSplit : std::uint8_t { kUnified, kDecodeAndPrefill };

// What a backend's kernel for one class of rows takes.
struct ClassCaps {
  std::span<const std::int32_t> head_sizes = {};  // empty: every multiple of head_dim_multiple in min_head_dim..max_head_dim
  std::int32_t min_head_dim = 0, max_head_dim = 0, head_dim_multiple = 1;
  std::int32_t min_group = 1, max_group = 32;      // query heads per KV head
  std::span<const std::int32_t> block_sizes = {};  // empty: every multiple of block_size_multiple
  std::int32_t block_size_multiple = kv::kCellTokens;
  std::span<const DType> query_dtypes = {};
  std::span<const kv::KvFormat> kv_formats = {};
  MaskSet masks = {};
  std::int64_t max_context = 0;  // 0: no limit

  [[nodiscard]] bool takes_head_dim(std::int32_t d) const;
  [[nodiscard]] bool takes_block_size(std::int32_t b) const;
  [[nodiscard]] bool takes_format(kv::KvFormat f) const;
  [[nodiscard]] bool takes_query(DType t) const;
  // "64, 128, 256" or "multiples of 2 in 8..256".
  [[nodiscard]] std::string head_sizes_text() const;
  [[nodiscard]] std::string block_sizes_text() const;
};

// The function that sizes a row's workspace: how many partials (partitions times query tokens) of decode rows a step may hold at once.
struct DecodeLimits;  // workspace.h, which also carves what the function asks for
struct WorkspaceRule {
  std::string_view name = "none";
  std::int64_t (*partial_slots)(const DecodeLimits&) = nullptr;  // nullptr: no workspace
};

enum class Built : std::uint8_t { kYes, kNo };     // kNo: takes part in explain, marked; serve refuses it by name
enum class OptIn : std::uint8_t { kNo, kByName };  // kByName: only for an explicit choice

// One backend on its device families: everything it supports. Nothing else in the program may state support.
struct BackendCaps {
  std::string_view name;                       // unique; what --attention-backend takes
  std::string_view alias = {};                 // vLLM's name of the same path; "": none
  std::span<const std::string_view> families;  // names of device_family.h's table
  KernelSplit split = KernelSplit::kUnified;
  GraphSupport graph_support = GraphSupport::kNever;
  ClassCaps decode = {}, extend = {}, prefill = {};
  WorkspaceRule workspace = {};
  kv::CellOrder key_order = kv::CellOrder::kDimMajor, value_order = kv::CellOrder::kTokenMajor;  // the layout its writer and readers share
  Built built = Built::kYes;
  OptIn opt_in = OptIn::kNo;
  std::string_view summary;  // one line for documents

  [[nodiscard]] const ClassCaps& of(RowClass p) const { return p == RowClass::kDecode ? decode : p == RowClass::kExtend ? extend : prefill; }
  [[nodiscard]] bool on(std::string_view family) const;
  [[nodiscard]] bool same_layout(const BackendCaps& other) const { return key_order == other.key_order && value_order == other.value_order; }
  [[nodiscard]] bool answers_to(std::string_view spelling) const { return spelling == name || (!alias.empty() && spelling == alias); }
};

// Rows in order of preference on their devices.
[[nodiscard]] std::span<const BackendCaps> backend_table();
[[nodiscard]] const BackendCaps* find_backend(std::string_view name_or_alias);  // nullptr: unknown

// The built rows of one device family, in the table's order.
[[nodiscard]] std::vector<std::string_view> built_backends(std::string_view family);

// A name that vLLM gives to a path that the table has no row for. Asked for, it is refused with what it would need.
struct ForeignBackend {
  std::string_view name, needs;
};
[[nodiscard]] std::span<const ForeignBackend> foreign_backends();
[[nodiscard]] const ForeignBackend* find_foreign_backend(std::string_view name);  // nullptr: none of them
// Every name that means something: rows, their aliases, foreign ones. For nearest-name messages.
[[nodiscard]] std::vector<std::string_view> known_backend_names();

// docs/CAPABILITIES.md.
[[nodiscard]] std::string capabilities_markdown();

}  // namespace quire::attention
