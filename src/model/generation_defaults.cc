// generation_config.json: the operator's sampling defaults. As in vLLM, only the fields below count, with or without do_sample; every
// other field of that file configures Python code and is passed over, which the log says.
#include <algorithm>
#include <boost/json/value.hpp>

#include "base/files.h"
#include "base/log.h"
#include "base/sampling_ranges.h"
#include "base/text.h"
#include "gguf/file.h"
#include "model/generation_fields.h"
#include "model/gguf_config.h"
#include "model/json_fields.h"
#include "model/token_ids.h"

namespace quire::model {
namespace {

namespace json = boost::json;

constexpr std::size_t kLongestName = 64;  // of a field that is told
constexpr std::string_view kMaxNewTokens = "max_new_tokens", kEndTokens = "eos_token_id";
constexpr std::string_view kNames[] = {sampling_range::kTemperature.name, sampling_range::kTopP.name,   sampling_range::kMinP.name, sampling_range::kRepetitionPenalty.name,
                                       sampling_range::kTopK.name,        kMaxNewTokens, kEndTokens};

// Sets one value; wrong values are told and leave it empty.
class FieldReader {
 public:
  FieldReader(const json::object& fields, Findings& findings) : fields_(fields), findings_(findings) {}

  void number(const SamplingRange& range, std::optional<double>& out) {
    const json::value* value = find(range.name);
    if (value == nullptr) return;
    out = value->is_null() ? std::nullopt : finite_number(*value);
    settle(range.name, *value, range, out);
  }
  void integer(std::string_view name, const SamplingRange& range, std::optional<std::int64_t>& out) {
    const json::value* value = find(name);
    if (value == nullptr) return;
    out = value->is_null() ? std::nullopt : exact_integer(*value);
    settle(name, *value, range, out);
  }
  [[nodiscard]] const json::value* find(std::string_view name) const { return fields_.if_contains(json::string_view(name.data(), name.size())); }

 private:
  template <class T>
  void settle(std::string_view name, const json::value& value, const SamplingRange& range, std::optional<T>& out) {
    if (value.is_null() || (out.has_value() && range.takes(static_cast<double>(*out)))) return;
    out.reset();
    findings_.wrong(std::string(name) + " = " + shown(value) + " must be " + std::string(range.text));
  }

  const json::object& fields_;
  Findings& findings_;
};

}  // namespace

std::span<const std::string_view> generation_field_names() { return kNames; }

GenerationFields read_generation_fields(const json::object& fields, std::int64_t vocab_size, GenerationDefaults before) {
  GenerationFields out{.defaults = std::move(before), .wrong = {}};
  GenerationDefaults& d = out.defaults;
  Findings findings;
  FieldReader reader(fields, findings);
  reader.number(sampling_range::kTemperature, d.temperature);
  reader.number(sampling_range::kTopP, d.top_p);
  reader.number(sampling_range::kMinP, d.min_p);
  reader.number(sampling_range::kRepetitionPenalty, d.repetition_penalty);
  reader.integer(sampling_range::kTopK.name, sampling_range::kTopK, d.top_k);
  reader.integer(kMaxNewTokens, sampling_range::kMaxTokens, d.max_new_tokens);
  if (reader.find(kEndTokens) != nullptr) d.eos_token_ids = parse_token_ids(fields, std::string(kEndTokens), vocab_size, findings);
  out.wrong = findings.texts();
  return out;
}

namespace {

Result<GenerationDefaults> defaults_of(const std::string& path, const json::object& fields, std::int64_t vocab_size) {
  GenerationFields read = read_generation_fields(fields, vocab_size);
  if (read.wrong.empty()) return std::move(read.defaults);
  std::string message = path + ": ";
  for (const std::string& text : read.wrong) message += text + "; ";
  return Error{ErrorCode::kCorrupt, message + "correct the file, or pass over it with --generation-config vllm", {}};
}

}  // namespace

Result<GenerationDefaults> read_generation_defaults(const std::string& model_dir, std::int64_t vocab_size) {
  if (gguf::is_gguf_path(model_dir)) {
    const auto file = gguf::File::open(model_dir);
    return file.ok() ? defaults_of(model_dir, gguf_sampling(file.value()), vocab_size) : file.error();
  }
  const std::string path = model_dir + "/generation_config.json";
  if (!file_exists(path)) return GenerationDefaults{};
  auto parsed = read_object(path, {.max_bytes = 16u << 20, .max_depth = 32});
  if (!parsed.ok()) return parsed.error();
  const json::object& fields = parsed.value().get_object();
  std::vector<std::string> others;
  for (const auto& [key, value] : fields)
    if (std::find(std::begin(kNames), std::end(kNames), std::string_view(key)) == std::end(kNames)) others.push_back(loggable(std::string_view(key), kLongestName));
  if (!others.empty()) QUIRE_LOG_INFO("generation_config.json: passed over, as vLLM does: {}", joined(others, ", "));
  return defaults_of(path, fields, vocab_size);
}

}  // namespace quire::model
