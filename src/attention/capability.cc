#include "attention/capability.h"

#include <algorithm>

namespace quire::attention {

const char* mask_name(Mask m) {
  switch (m) {
    case Mask::kSlidingWindow: return "sliding window";
    case Mask::kChunkedLocal: return "chunked local attention";
    case Mask::kAlibi: return "ALiBi";
    case Mask::kSoftCap: return "soft cap";
    case Mask::kSinks: return "sinks";
  }
  return "?";
}

std::int32_t AttnProblem::group() const {
  if (num_kv_heads <= 0 || num_ranks <= 0 || num_heads <= 0 || num_heads % num_kv_heads != 0 || num_heads % num_ranks != 0) return 0;
  if (num_kv_heads % num_ranks != 0 && num_ranks % num_kv_heads != 0) return 0;
  return num_heads / num_ranks / std::max(1, num_kv_heads / num_ranks);
}

std::string AttnProblem::kv_format_text() const {
  return kv_format == kv::KvFormat::kOther && !kv_format_asked.empty() ? kv_format_asked : kv::kv_format_name(kv_format);
}

std::string AttnProblem::describe() const {
  std::string out = std::to_string(num_heads) + "/" + std::to_string(num_kv_heads) + " heads of " + std::to_string(head_dim) + ", block " + std::to_string(block_size) + ", KV " +
                    kv_format_text();
  if (query_dtype != DType::kBF16) out += std::string(", queries ") + dtype_name(query_dtype);
  for (const Mask m : kMasks)
    if (masks.has(m)) out += std::string(", ") + mask_name(m);
  if (max_context > 0) out += ", up to " + std::to_string(max_context) + " tokens";
  if (num_ranks != 1) out += ", over " + std::to_string(num_ranks) + " ranks";
  return out;
}

bool ClassCaps::takes_head_dim(std::int32_t d) const {
  if (!head_sizes.empty()) return std::find(head_sizes.begin(), head_sizes.end(), d) != head_sizes.end();
  return d >= min_head_dim && d <= max_head_dim && d % head_dim_multiple == 0;
}

bool ClassCaps::takes_block_size(std::int32_t b) const {
  if (!block_sizes.empty()) return std::find(block_sizes.begin(), block_sizes.end(), b) != block_sizes.end();
  return b > 0 && b % block_size_multiple == 0;
}

bool ClassCaps::takes_format(kv::KvFormat f) const { return std::find(kv_formats.begin(), kv_formats.end(), f) != kv_formats.end(); }
bool ClassCaps::takes_query(DType t) const { return std::find(query_dtypes.begin(), query_dtypes.end(), t) != query_dtypes.end(); }

namespace {

std::string list_text(std::span<const std::int32_t> values) {
  std::string out;
  for (const std::int32_t v : values) out += (out.empty() ? "" : ", ") + std::to_string(v);
  return out;
}

}  // namespace

std::string ClassCaps::head_sizes_text() const {
  if (!head_sizes.empty()) return list_text(head_sizes);
  return "multiples of " + std::to_string(head_dim_multiple) + " in " + std::to_string(min_head_dim) + ".." + std::to_string(max_head_dim);
}

std::string ClassCaps::block_sizes_text() const { return block_sizes.empty() ? "multiples of " + std::to_string(block_size_multiple) : list_text(block_sizes); }

bool BackendCaps::on(std::string_view family) const { return std::find(families.begin(), families.end(), family) != families.end(); }

const BackendCaps* find_backend(std::string_view name) {
  for (const BackendCaps& row : backend_table())
    if (row.answers_to(name)) return &row;
  return nullptr;
}

std::vector<std::string_view> built_backends(std::string_view family) {
  std::vector<std::string_view> names;
  for (const BackendCaps& row : backend_table())
    if (row.built == Built::kYes && row.on(family)) names.push_back(row.name);
  return names;
}

const ForeignBackend* find_foreign_backend(std::string_view name) {
  for (const ForeignBackend& foreign : foreign_backends())
    if (foreign.name == name) return &foreign;
  return nullptr;
}

std::vector<std::string_view> known_backend_names() {
  std::vector<std::string_view> names;
  for (const BackendCaps& row : backend_table()) {
    names.push_back(row.name);
    if (!row.alias.empty()) names.push_back(row.alias);
  }
  for (const ForeignBackend& foreign : foreign_backends()) names.push_back(foreign.name);
  return names;
}

}  // namespace quire::attention
