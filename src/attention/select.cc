#include "attention/select.h"

#include <algorithm>

#include "base/suggest.h"

namespace quire::attention {
namespace {

std::string join(const std::vector<std::string>& parts) {
  std::string out;
  for (const auto& p : parts) out += (out.empty() ? "" : "; ") + p;
  return out;
}

}  // namespace

std::vector<std::string> reasons_against(const BackendCaps& row, const AttnProblem& q, std::string_view family) {
  std::vector<std::string> reasons;
  const auto refuse = [&](bool bad, const std::string& why) { if (bad) reasons.push_back(why); };
  refuse(row.device_family != family, "device " + std::string(family) + " is not " + std::string(row.device_family));
  refuse(q.head_dim < row.min_head_dim || q.head_dim > row.max_head_dim || q.head_dim % row.head_dim_multiple != 0,
         "head size " + std::to_string(q.head_dim) + " is not a multiple of " + std::to_string(row.head_dim_multiple) + " in " + std::to_string(row.min_head_dim) + ".." +
             std::to_string(row.max_head_dim));
  refuse(q.num_kv_heads <= 0 || q.num_heads % q.num_kv_heads != 0, std::to_string(q.num_heads) + " query heads do not divide among " + std::to_string(q.num_kv_heads) + " KV heads");
  refuse(q.num_kv_heads > 0 && q.num_heads % q.num_kv_heads == 0 && q.group() > row.max_group, std::to_string(q.num_kv_heads > 0 ? q.group() : 0) + " query heads per KV head is above " + std::to_string(row.max_group));
  refuse(q.block_size <= 0 || q.block_size % row.block_size_multiple != 0, "block size " + std::to_string(q.block_size) + " is not a multiple of " + std::to_string(row.block_size_multiple));
  refuse(std::find(row.kv_dtypes.begin(), row.kv_dtypes.end(), q.kv_dtype) == row.kv_dtypes.end(), std::string("KV type ") + dtype_name(q.kv_dtype) + " is not supported");
  return reasons;
}

Result<Selection> select_backend(const AttnProblem& problem, std::string_view family, const std::optional<std::string>& requested) {
  Selection selection;
  std::vector<std::string_view> names;
  std::string all;
  for (const BackendCaps& row : backend_table()) {
    names.push_back(row.name);
    if (requested.has_value() && *requested != row.name) continue;
    auto reasons = reasons_against(row, problem, family);
    if (reasons.empty()) {
      selection.backend = &row;
      return selection;
    }
    all += (all.empty() ? "" : " | ") + std::string(row.name) + ": " + join(reasons);
    selection.rejections.push_back({row.name, std::move(reasons)});
  }
  if (requested.has_value() && selection.rejections.empty())
    return invalid("unknown attention backend '" + *requested + "'" + did_you_mean(*requested, names), "--attention-backend");
  const std::string what = requested.has_value() ? "attention backend " + *requested + " cannot serve " : "no attention backend serves ";
  return Error{ErrorCode::kUnsupported, what + problem.describe() + " on " + std::string(family) + ": " + all, "--attention-backend"};
}

}  // namespace quire::attention
