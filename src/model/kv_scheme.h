// What a checkpoint's config declares about its KV cache, before any tensor is looked at. Knows no quantisation method: the readers of
// their configs fill a KvScheme in, whatever they call it. No scheme (nullopt wherever one may stand): nothing about the cache is declared.
#pragma once
#include <boost/json/fwd.hpp>
#include <cstdint>
#include <optional>
#include <string>

namespace quire::model {

class Findings;

// An FP8 e4m3 cache with static, symmetric scales: the only kind there is.
struct KvScheme {
  enum class Granularity : std::uint8_t { kTensor, kHead };
  Granularity granularity = Granularity::kTensor;  // one scale for a layer's keys (values), or one for each KV head
  std::string declared_by;                         // the field and what it says, for messages: kv_cache_scheme = "static"
  friend bool operator==(const KvScheme&, const KvScheme&) = default;
};

// The value of `kv_cache_scheme`: null, the string "static", or an object of num_bits 8, type "float", strategy "tensor" or "attn_head",
// dynamic false, symmetric true. `field` is its path in the file, for messages. Anything else is a finding.
[[nodiscard]] std::optional<KvScheme> parse_kv_cache_scheme(const boost::json::value& value, const std::string& field, Findings& findings);

}  // namespace quire::model
