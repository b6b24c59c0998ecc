#include "model/rope_parse.h"

#include <algorithm>
#include <array>
#include <boost/json/value.hpp>
#include <sstream>
#include <string>

#include "base/suggest.h"

namespace quire::model {
namespace {

namespace json = boost::json;

constexpr double kMaxFactor = 1e6, kMaxTheta = 1e15;
constexpr std::array<std::string_view, 5> kTypes = {"default", "linear", "dynamic", "llama3", "yarn"};

// One block of rotary parameters, "rope_parameters" or "rope_scaling".
class RopeBlock {
 public:
  RopeBlock(const json::object& fields, std::string_view name, Findings& findings) : fields_(fields), name_(name), findings_(findings) {}

  [[nodiscard]] RopeSpec parse(std::optional<std::int64_t> max_position_embeddings);
  [[nodiscard]] bool states_theta() const { return present("rope_theta"); }

 private:
  [[nodiscard]] bool present(std::string_view field) const {
    const json::value* value = fields_.if_contains(field);
    return value != nullptr && !value->is_null();
  }
  std::string full(std::string_view field) const { return std::string(name_) + "." + std::string(field); }

  // A number in [low, high], or a finding.
  double number(std::string_view field, double fallback, double low, double high);
  double required(std::string_view field, double low, double high) {
    if (!present(field)) findings_.wrong(full(field) + " is missing (needed by this rope type)");
    return number(field, low, low, high);
  }
  std::int64_t original_length(std::int64_t fallback);
  // `more` must be greater than `less`; said only while every value read since `before` was right.
  void check_order(std::string_view more, std::string_view less, bool holds, std::size_t before) {
    if (!holds && findings_.texts().size() == before) findings_.wrong(full(more) + " must be greater than " + full(less));
  }
  RopeKind kind();
  void parse_yarn(RopeSpec& rope);
  void check_known(RopeKind kind);

  const json::object& fields_;
  std::string_view name_;
  Findings& findings_;
};

double RopeBlock::number(std::string_view field, double fallback, double low, double high) {
  if (!present(field)) return fallback;
  const json::value& value = fields_.at(field);
  const auto n = finite_number(value);
  if (n && *n >= low && *n <= high) return *n;
  std::ostringstream range;
  range << low << " to " << high;
  findings_.wrong(full(field) + " = " + shown(value) + " must be a number from " + range.str());
  return fallback;
}

std::int64_t RopeBlock::original_length(std::int64_t fallback) {
  constexpr std::string_view kField = "original_max_position_embeddings";
  if (!present(kField)) return fallback;
  const auto n = exact_integer(fields_.at(kField));
  if (n && *n >= 1 && *n <= INT32_MAX) return *n;
  findings_.wrong(full(kField) + " = " + shown(fields_.at(kField)) + " must be a positive integer");
  return fallback;
}

RopeKind RopeBlock::kind() {
  const bool newer = present("rope_type"), older = present("type");
  if (!newer && !older) return RopeKind::kDefault;
  const json::value& value = fields_.at(newer ? "rope_type" : "type");
  if (newer && older && fields_.at("type") != value) {
    findings_.wrong(full("type") + " = " + shown(fields_.at("type")) + " contradicts " + full("rope_type") + " = " + shown(value));
    return RopeKind::kDefault;
  }
  const std::string type = value.is_string() ? std::string(value.get_string().data(), value.get_string().size()) : std::string();
  const auto* found = std::find(kTypes.begin(), kTypes.end(), type);
  if (found == kTypes.end()) {
    findings_.unsupported(full(newer ? "rope_type" : "type") + " = " + shown(value) +
                          " is not implemented (known: default, linear, dynamic, llama3, yarn)" + did_you_mean(type, kTypes));
    return RopeKind::kDefault;
  }
  return static_cast<RopeKind>(found - kTypes.begin());
}

// Every field of a block must mean something for its type: a misspelt one would change every position's angle.
void RopeBlock::check_known(RopeKind kind) {
  std::vector<std::string_view> known = {"rope_type", "type", "rope_theta"};
  std::vector<std::string_view> one = {"partial_rotary_factor"};  // accepted when 1
  if (kind == RopeKind::kDefault)
    one.push_back("factor");
  else
    known.push_back("factor");
  if (kind != RopeKind::kDefault && kind != RopeKind::kLinear) known.push_back("original_max_position_embeddings");
  if (kind == RopeKind::kLlama3) known.insert(known.end(), {"low_freq_factor", "high_freq_factor"});
  if (kind == RopeKind::kYarn) {
    known.insert(known.end(), {"attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate", "finetuned"});
    one.insert(one.end(), {"attn_factor", "extrapolation_factor"});
  }
  for (const auto& entry : fields_) {
    const std::string_view field(entry.key().data(), entry.key().size());
    if (entry.value().is_null() || std::find(known.begin(), known.end(), field) != known.end()) continue;
    if (std::find(one.begin(), one.end(), field) != one.end()) {
      if (finite_number(entry.value()) != 1.0) findings_.unsupported(full(field) + " = " + shown(entry.value()) + " is not implemented (only 1)");
      continue;
    }
    findings_.unsupported("unknown field " + shown_text(full(field)) + " = " + shown(entry.value()) + " for rope type '" +
                          std::string(kTypes[static_cast<std::size_t>(kind)]) + "'" + did_you_mean(field, known));
  }
}

void RopeBlock::parse_yarn(RopeSpec& rope) {
  const std::size_t before = findings_.texts().size();
  rope.beta_fast = number("beta_fast", rope.beta_fast, 1e-6, 1e6);
  rope.beta_slow = number("beta_slow", rope.beta_slow, 1e-6, 1e6);
  check_order("beta_fast", "beta_slow", rope.beta_fast > rope.beta_slow, before);
  if (present("attention_factor")) rope.attention_factor = number("attention_factor", 1.0, 1e-6, 1e6);
  rope.mscale = number("mscale", 0.0, 0.0, 1e3);
  rope.mscale_all_dim = number("mscale_all_dim", 0.0, 0.0, 1e3);
  if (!present("truncate")) return;
  if (const bool* truncate = fields_.at("truncate").if_bool())
    rope.truncate = *truncate;
  else
    findings_.wrong(full("truncate") + " = " + shown(fields_.at("truncate")) + " must be true or false");
}

RopeSpec RopeBlock::parse(std::optional<std::int64_t> max_position_embeddings) {
  const std::int64_t positions = max_position_embeddings.value_or(0);
  RopeSpec rope;
  rope.kind = kind();
  check_known(rope.kind);
  rope.theta = number("rope_theta", rope.theta, 1e-3, kMaxTheta);
  if (rope.kind == RopeKind::kDefault) return rope;
  rope.factor = required("factor", 1.0, kMaxFactor);
  const std::size_t before = findings_.texts().size();
  switch (rope.kind) {
    case RopeKind::kDefault:
    case RopeKind::kLinear: break;
    case RopeKind::kDynamic:
      // Files disagree on what this field would mean here; the known implementations use max_position_embeddings.
      if (max_position_embeddings && original_length(positions) != positions)
        findings_.unsupported(full("original_max_position_embeddings") +
                              " other than max_position_embeddings is not implemented for rope type 'dynamic'");
      break;
    case RopeKind::kLlama3:
      rope.low_freq_factor = required("low_freq_factor", 1e-6, 1e6);
      rope.high_freq_factor = required("high_freq_factor", 1e-6, 1e6);
      check_order("high_freq_factor", "low_freq_factor", rope.high_freq_factor > rope.low_freq_factor, before);
      rope.original_max_position_embeddings = original_length(positions);
      break;
    case RopeKind::kYarn:
      rope.original_max_position_embeddings = original_length(positions);
      parse_yarn(rope);
      break;
  }
  return rope;
}

bool same(const RopeSpec& a, const RopeSpec& b) {
  return a.kind == b.kind && a.theta == b.theta && a.factor == b.factor && a.low_freq_factor == b.low_freq_factor &&
         a.high_freq_factor == b.high_freq_factor && a.original_max_position_embeddings == b.original_max_position_embeddings &&
         a.beta_fast == b.beta_fast && a.beta_slow == b.beta_slow && a.attention_factor == b.attention_factor && a.mscale == b.mscale &&
         a.mscale_all_dim == b.mscale_all_dim && a.truncate == b.truncate;
}

// An object, or nullptr for absent, null and {} (which says nothing).
const json::object* block(const json::object& config, std::string_view name, Findings& findings) {
  const json::value* value = config.if_contains(name);
  if (value == nullptr || value->is_null()) return nullptr;
  if (!value->is_object()) {
    findings.wrong(std::string(name) + " = " + shown(*value) + " must be an object or null");
    return nullptr;
  }
  return value->get_object().empty() ? nullptr : &value->get_object();
}

// A field that is a number above 0 wherever it stands; nullopt: absent, null, or wrong with a finding.
std::optional<double> base_frequency(const json::object& config, std::string_view name, Findings& findings) {
  const json::value* value = config.if_contains(name);
  if (value == nullptr || value->is_null()) return std::nullopt;
  const auto n = finite_number(*value);
  if (n && *n > 0 && *n <= kMaxTheta) return n;
  findings.wrong(std::string(name) + " = " + shown(*value) + " must be a positive number");
  return std::nullopt;
}

// One block, with the theta that the config states beside it under `top_name`.
struct BlockPlace {
  const json::object& config;
  std::string_view name, top_name;
  std::optional<double> top_theta;
  double default_theta;
  std::optional<std::int64_t> positions;
};

RopeSpec parse_block(const json::object& fields, const BlockPlace& at, Findings& findings) {
  RopeBlock parser(fields, at.name, findings);
  RopeSpec parsed = parser.parse(at.positions);
  if (!parser.states_theta())
    parsed.theta = at.top_theta.value_or(at.default_theta);
  else if (at.top_theta && *at.top_theta != parsed.theta)
    findings.wrong(std::string(at.name) + ".rope_theta contradicts " + std::string(at.top_name) + " = " + shown(*at.config.if_contains(at.top_name)));
  return parsed;
}

constexpr std::string_view kFull = "full_attention", kSliding = "sliding_attention";

// rope_parameters by kind of layer: an object of objects.
bool is_by_layer(const json::object& fields) {
  return std::any_of(fields.begin(), fields.end(), [](const auto& entry) { return entry.key() == json::string_view(kFull.data(), kFull.size()) || entry.key() == json::string_view(kSliding.data(), kSliding.size()); });
}

// The block of one kind of layer; nullptr: not there, and a finding says so.
const json::object* layer_block(const json::object& fields, std::string_view kind, Findings& findings) {
  const json::value* value = fields.if_contains(kind);
  if (value != nullptr && value->is_object()) return &value->get_object();
  findings.wrong("rope_parameters." + std::string(kind) + " = " + (value == nullptr ? "(absent)" : shown(*value)) + " must be an object");
  return nullptr;
}

RopePair by_layer(const json::object& config, const json::object& fields, const RopeDefaults& defaults, std::optional<std::int64_t> positions, Findings& findings) {
  RopePair out;
  for (const auto& entry : fields)
    if (entry.key() != json::string_view(kFull.data(), kFull.size()) && entry.key() != json::string_view(kSliding.data(), kSliding.size()))
      findings.unsupported("rope_parameters." + std::string(entry.key()) + " is not implemented beside full_attention and sliding_attention");
  if (const json::object* full = layer_block(fields, kFull, findings))
    out.all = parse_block(*full, {config, "rope_parameters.full_attention", "rope_theta", base_frequency(config, "rope_theta", findings), defaults.theta, positions}, findings);
  if (const json::object* sliding = layer_block(fields, kSliding, findings))
    out.local = parse_block(*sliding, {config, "rope_parameters.sliding_attention", "rope_local_base_freq", base_frequency(config, "rope_local_base_freq", findings), defaults.local_theta, positions}, findings);
  if (block(config, "rope_scaling", findings) != nullptr) findings.unsupported("rope_scaling beside rope_parameters by kind of layer is not implemented");
  return out;
}

RopeSpec one_rope(const json::object& config, const RopeDefaults& defaults, std::optional<std::int64_t> positions, Findings& findings) {
  RopeSpec rope;
  const std::size_t before = findings.texts().size();
  const std::optional<double> top_theta = base_frequency(config, "rope_theta", findings);
  rope.theta = top_theta.value_or(defaults.theta);
  std::optional<RopeSpec> stated;
  for (const std::string_view name : {std::string_view("rope_parameters"), std::string_view("rope_scaling")}) {
    const json::object* fields = block(config, name, findings);
    if (fields == nullptr) continue;
    const RopeSpec parsed = parse_block(*fields, {config, name, "rope_theta", top_theta, stated ? stated->theta : defaults.theta, positions}, findings);
    if (stated && findings.texts().size() == before && !same(*stated, parsed)) findings.wrong("rope_scaling contradicts rope_parameters");
    if (!stated) stated = parsed;
  }
  return stated.value_or(rope);
}

void check_rope(const RopeSpec& rope, std::int32_t head_dim, Findings& findings) {
  if (rope.kind == RopeKind::kYarn && rope.theta <= 1.0) findings.wrong("rope_theta must be greater than 1 for rope type 'yarn'");
  if (rope.kind == RopeKind::kDynamic && head_dim > 0 && head_dim < 4) findings.wrong("rope type 'dynamic' needs a head_dim of at least 4");
}

}  // namespace

RopePair parse_rope(const json::object& config, const RopeDefaults& defaults, const RopeSizes& sizes, Findings& findings) {
  const bool two = defaults.local_theta > 0.0;
  const json::object* parameters = two ? block(config, "rope_parameters", findings) : nullptr;
  RopePair out;
  if (parameters != nullptr && is_by_layer(*parameters)) {
    out = by_layer(config, *parameters, defaults, sizes.max_position_embeddings, findings);
  } else {
    out.all = one_rope(config, defaults, sizes.max_position_embeddings, findings);
    if (two) out.local = RopeSpec{.theta = base_frequency(config, "rope_local_base_freq", findings).value_or(defaults.local_theta)};
  }
  check_rope(out.all, sizes.head_dim, findings);
  if (out.local) check_rope(*out.local, sizes.head_dim, findings);
  return out;
}

}  // namespace quire::model
