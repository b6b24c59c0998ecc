#include "model/family_parse.h"

#include <boost/json/value.hpp>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

namespace quire::model {
namespace {

namespace json = boost::json;

// Of soft caps and query_pre_attn_scalar: far outside any published model, and inside what float32 takes.
constexpr double kLeast = 0.001, kMost = 1e6;
constexpr double kDefaultAttentionScalar = 256.0;
constexpr std::int64_t kDefaultFirstWindowLayer = 28;  // max_window_layers of Qwen where the file says nothing

class FamilyReader {
 public:
  FamilyReader(const Family& family, const json::object& config, ModelSpec& spec, Findings& findings) : family_(family), config_(config), spec_(spec), findings_(findings) {}

  void read();

 private:
  // nullptr: absent. A null is there.
  const json::value* stated(std::string_view field) const { return config_.if_contains(field); }
  const json::value* get(std::string_view field) const {
    const json::value* value = stated(field);
    return value == nullptr || value->is_null() ? nullptr : value;
  }
  // nullopt: not stated, or the file is wrong about it, and a finding says so.
  std::optional<bool> flag(std::string_view field);
  // A number from kLeast to kMost; 0: null. `absent` where the field is not there.
  double number(std::string_view field, double absent);
  std::int64_t integer(std::string_view field, std::int64_t absent, std::int64_t least);
  // Which layers have a window; nullopt: the file is wrong about it, and a finding says so.
  std::optional<std::vector<bool>> listed_layers();
  // The same by the family's rule, where its window is in use.
  std::vector<bool> layers_by_rule();
  void read_masks();

  const Family& family_;
  const json::object& config_;
  ModelSpec& spec_;
  Findings& findings_;
};

std::optional<bool> FamilyReader::flag(std::string_view field) {
  const json::value* value = get(field);
  if (value == nullptr) return std::nullopt;
  if (const bool* b = value->if_bool()) return *b;
  findings_.wrong(std::string(field) + " = " + shown(*value) + " must be true or false");
  return std::nullopt;
}

double FamilyReader::number(std::string_view field, double absent) {
  const json::value* value = stated(field);
  if (value == nullptr) return absent;
  if (value->is_null()) return 0.0;
  const auto n = finite_number(*value);
  if (n && *n >= kLeast && *n <= kMost) return *n;
  findings_.wrong(std::string(field) + " = " + shown(*value) + " must be a number from 0.001 to 1000000, or null");
  return 0.0;
}

std::int64_t FamilyReader::integer(std::string_view field, std::int64_t absent, std::int64_t least) {
  const json::value* value = get(field);
  if (value == nullptr) return absent;
  const auto n = exact_integer(*value);
  if (n && *n >= least && *n <= std::numeric_limits<std::int32_t>::max()) return *n;
  findings_.wrong(std::string(field) + " = " + shown(*value) + " must be an integer of at least " + std::to_string(least));
  return absent;
}

std::optional<std::vector<bool>> FamilyReader::listed_layers() {
  const json::value& value = *get("layer_types");
  const json::array* list = value.if_array();
  if (list == nullptr || std::ssize(*list) != spec_.num_layers) {
    findings_.wrong("layer_types = " + shown(value) + " must list a kind for each of the " + std::to_string(spec_.num_layers) + " layers");
    return std::nullopt;
  }
  std::vector<bool> out;
  for (const json::value& kind : *list) {
    const bool window = kind.is_string() && kind.get_string() == "sliding_attention";
    if (!window && !(kind.is_string() && kind.get_string() == "full_attention")) {
      findings_.unsupported("layer_types: " + shown(kind) + " is not implemented (known: \"full_attention\", \"sliding_attention\")");
      return std::nullopt;
    }
    out.push_back(window);
  }
  return out;
}

std::vector<bool> FamilyReader::layers_by_rule() {
  const auto n = static_cast<std::size_t>(spec_.num_layers);
  std::vector<bool> out(n, false);
  std::int64_t first = 0, period = 0;
  if (family_.windows == WindowRule::kFromLayer) first = integer("max_window_layers", kDefaultFirstWindowLayer, 0);
  if (family_.windows == WindowRule::kPeriod) {
    period = integer("_sliding_window_pattern", family_.window_period, 1);
    period = integer("sliding_window_pattern", period, 1);
  }
  for (std::size_t i = 0; i < n; ++i) {
    const auto layer = static_cast<std::int64_t>(i);
    out[i] = layer >= first && (period == 0 || (layer + 1) % period != 0);
  }
  return out;
}

void FamilyReader::read_masks() {
  if (spec_.num_layers == 0) return;
  std::int64_t window = 0;
  std::vector<bool> local(static_cast<std::size_t>(spec_.num_layers), false);
  if (family_.windows != WindowRule::kNone) {
    const json::value* field = stated("sliding_window");
    const bool is_null = field != nullptr && field->is_null();
    const bool in_use = !is_null && (family_.windows != WindowRule::kFromLayer || flag("use_sliding_window").value_or(false));
    window = in_use ? integer("sliding_window", family_.default_window, 1) : 0;
    const std::vector<bool> ruled = layers_by_rule();  // its fields are checked, in use or not
    if (in_use) local = ruled;
    if (get("layer_types") != nullptr) {
      const auto listed = listed_layers();
      if (!listed) return;
      if (family_.windows == WindowRule::kEveryLayer && *listed != local)
        findings_.unsupported("layer_types of a " + std::string(family_.architecture) + " must be what sliding_window says, which all of its layers follow");
      local = *listed;
    }
  }
  const double cap = family_.soft_caps ? number("attn_logit_softcapping", family_.default_attention_cap) : 0.0;
  bool any = cap > 0.0;
  for (const bool one : local) {
    if (one && window == 0) return findings_.wrong("layer_types asks for sliding_attention, and no sliding_window is in use");
    any = any || one;
  }
  if (!any) return;
  for (const bool one : local) spec_.masks.push_back({.window = one ? static_cast<std::int32_t>(window) : 0, .soft_cap = cap});
}

void FamilyReader::read() {
  const bool stated_bias = family_.biases == Biases::kStated && flag("attention_bias").value_or(false);
  spec_.qkv_bias = stated_bias || family_.biases == Biases::kQkv;
  spec_.o_bias = stated_bias;
  spec_.mlp_bias = family_.mlp_bias && flag("mlp_bias").value_or(false);
  spec_.tie_word_embeddings = flag("tie_word_embeddings").value_or(family_.tied);
  spec_.qk_norm = family_.qk_norm;
  spec_.branch_norms = family_.branch_norms;
  spec_.norm_weight_offset = family_.norm_weight_offset;
  spec_.activation = family_.activation;
  if (family_.scaled_embeddings && spec_.hidden_size > 0) spec_.embedding_scale = std::sqrt(static_cast<double>(spec_.hidden_size));
  if (family_.attention_scalar) {
    const double scalar = number("query_pre_attn_scalar", kDefaultAttentionScalar);
    spec_.query_pre_attn_scalar = scalar > 0.0 ? scalar : kDefaultAttentionScalar;
  }
  if (family_.soft_caps) spec_.final_soft_cap = number("final_logit_softcapping", family_.default_final_cap);
  read_masks();
}

}  // namespace

void parse_family(const Family& family, const json::object& config, ModelSpec& spec, Findings& findings) { FamilyReader(family, config, spec, findings).read(); }

}  // namespace quire::model
