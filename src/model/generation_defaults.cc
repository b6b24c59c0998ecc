// generation_config.json: the operator's sampling defaults. As in vLLM, only the six fields below and the end tokens count, with or
// without do_sample; every other field of that file configures Python code and is passed over.
#include <boost/json/value.hpp>
#include <limits>

#include "base/files.h"
#include "model/json_fields.h"
#include "model/spec.h"
#include "model/token_ids.h"

namespace quire::model {
namespace {

namespace json = boost::json;

struct Range {
  double low, high;
  bool low_allowed;
  const char* text;
};

std::optional<double> number(const json::object& fields, const std::string& field, const Range& range, Findings& findings) {
  const json::value* value = fields.if_contains(field);
  if (value == nullptr || value->is_null()) return std::nullopt;
  const auto n = finite_number(*value);
  if (n && (*n > range.low || (range.low_allowed && *n == range.low)) && *n <= range.high) return n;
  findings.wrong(field + " = " + shown(*value) + " must be " + range.text);
  return std::nullopt;
}

std::optional<std::int64_t> integer(const json::object& fields, const std::string& field, std::int64_t low, const char* text, Findings& findings) {
  const json::value* value = fields.if_contains(field);
  if (value == nullptr || value->is_null()) return std::nullopt;
  const auto n = exact_integer(*value);
  if (n && *n >= low && *n <= std::numeric_limits<std::int32_t>::max()) return n;
  findings.wrong(field + " = " + shown(*value) + " must be " + text);
  return std::nullopt;
}

}  // namespace

Result<GenerationDefaults> read_generation_defaults(const std::string& model_dir) {
  const std::string path = model_dir + "/generation_config.json";
  GenerationDefaults defaults;
  if (!file_exists(path)) return defaults;
  auto parsed = read_object(path, {.max_bytes = 16u << 20, .max_depth = 32});
  if (!parsed.ok()) return parsed.error();
  const json::object& fields = parsed.value().get_object();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Findings findings;
  defaults.temperature = number(fields, "temperature", {0, kInfinity, true, "a number of at least 0"}, findings);
  defaults.top_p = number(fields, "top_p", {0, 1, false, "a number above 0 and at most 1"}, findings);
  defaults.min_p = number(fields, "min_p", {0, 1, true, "a number from 0 to 1"}, findings);
  defaults.repetition_penalty = number(fields, "repetition_penalty", {0, kInfinity, false, "a number above 0"}, findings);
  defaults.top_k = integer(fields, "top_k", -1, "an integer: -1 or 0 for off, else at least 1", findings);
  defaults.max_new_tokens = integer(fields, "max_new_tokens", 1, "an integer of at least 1", findings);
  defaults.eos_token_ids = parse_token_ids(fields, "eos_token_id", std::numeric_limits<TokenId>::max(), findings);
  QUIRE_RETURN_IF_ERROR(findings.status(path));
  return defaults;
}

}  // namespace quire::model
