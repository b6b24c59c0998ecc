#include "config/attention_flags.h"

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <vector>

#include "attention/capability.h"
#include "attention/device_family.h"
#include "base/suggest.h"
#include "base/text.h"

namespace quire::config {
namespace {

namespace json = boost::json;
using Severity = Adjustment::Severity;

using attention::kServedFamily;

std::string joined(const auto& names, const char* last) {
  std::string out;
  for (std::size_t i = 0; i < names.size(); ++i) out += (i == 0 ? "" : i + 1 == names.size() ? last : ", ") + std::string(names[i]);
  return out;
}

// The row's own name, or "" after a problem.
std::string backend_by_name(const std::string& spelling, std::string_view value, Problems& problems) {
  const std::string name = upper(value);
  if (name == "AUTO") return "";
  const attention::BackendCaps* row = attention::find_backend(name);
  const bool here = row != nullptr && row->on(kServedFamily);
  if (here && row->built == attention::Built::kYes) return std::string(row->name);
  const std::string has = "this device has " + joined(attention::built_backends(kServedFamily), " and ");
  if (row != nullptr) {
    const std::string shown = name == row->name ? name : name + " (here " + std::string(row->name) + ")";
    const std::string elsewhere = here ? "" : "not on this device (" + std::string(kServedFamily) + "): it is for " + joined(row->families, " and ") + (row->built == attention::Built::kNo ? ", and " : "");
    problems.add(Error{ErrorCode::kUnsupported, spelling + " " + shown + ": " + elsewhere + (row->built == attention::Built::kNo ? "not built yet" : "") + "; " + has, "--attention-backend"});
  } else if (const attention::ForeignBackend* foreign = attention::find_foreign_backend(name)) {
    problems.add(Error{ErrorCode::kUnsupported, spelling + " " + name + ": not on this device (" + std::string(kServedFamily) + "): it " + std::string(foreign->needs) + "; " + has, "--attention-backend"});
  } else {
    auto names = attention::known_backend_names();
    names.emplace_back("AUTO");
    problems.add("--attention-backend", spelling + " " + quote_value(value) + ": unknown backend; " + has + did_you_mean(name, names));
  }
  return "";
}

constexpr std::string_view kAttentionKeys[] = {"backend",
                                               "flash_attn_version",
                                               "use_prefill_decode_attention",
                                               "flash_attn_max_num_splits_for_cuda_graph",
                                               "use_cudnn_prefill",
                                               "use_trtllm_attention",
                                               "disable_flashinfer_prefill",
                                               "disable_flashinfer_q_quantization",
                                               "use_prefill_query_quantization",
                                               "use_trtllm_ragged_deepseek_prefill"};

}  // namespace

std::optional<NamedBackend> attention_name(const Options& options, std::vector<Adjustment>& notes, Problems& problems) {
  const json::object& config = options.json("attention-config");
  const std::string flag = options.spelling("attention-config");
  std::optional<std::string> from_config;
  for (const auto& [key, value] : config) {
    if (key == "backend") {
      if (value.is_string())
        from_config = std::string(value.get_string());
      else if (!value.is_null())
        problems.add("--attention-config", flag + " key backend: " + quote_value(json::serialize(value)) + " must be the name of a backend");
    } else if (std::find(std::begin(kAttentionKeys), std::end(kAttentionKeys), std::string_view(key)) != std::end(kAttentionKeys)) {
      notes.push_back({Severity::kWarning, flag, "key " + std::string(key) + " has no effect: it tunes a GPU backend"});
    } else {
      problems.add("--attention-config", flag + ": unknown key " + quote_value(key) + did_you_mean(key, kAttentionKeys));
    }
  }
  const auto direct = options.given_text("attention-backend");
  if (direct && from_config) {
    problems.add("--attention-backend", "--attention-backend and --attention-config.backend exclude each other; keep one");
    return std::nullopt;
  }
  if (direct) return NamedBackend{options.spelling("attention-backend"), *direct};
  if (from_config) return NamedBackend{flag + " backend", *from_config};
  return std::nullopt;
}

std::string attention_choice(const Options& options, const Environment& environment, std::vector<Adjustment>& notes, Problems& problems) {
  const auto named = attention_name(options, notes, problems);
  if (named && environment.attention_backend) notes.push_back({Severity::kInfo, "VLLM_ATTENTION_BACKEND", "is not read: " + named->spelling + " wins"});
  if (named) return backend_by_name(named->spelling, named->name, problems);
  return environment.attention_backend ? backend_by_name("VLLM_ATTENTION_BACKEND", *environment.attention_backend, problems) : "";
}

}  // namespace quire::config
