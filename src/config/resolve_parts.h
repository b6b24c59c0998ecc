// The steps of resolve(), one file each; for resolve.cc alone.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "config/problems.h"
#include "config/resolve.h"

namespace quire::config {

struct Resolution {
  const ResolveInputs& in;
  ResolvedConfig out;
  Problems problems;

  void note(Adjustment::Severity severity, std::string flag, std::string text) {
    out.adjustments.push_back({severity, std::move(flag), std::move(text)});
  }
};

// The value of a flag that always has a number: where it was not given, the default of its row, which nothing else states.
[[nodiscard]] inline std::int64_t number_of(const Options& options, std::string_view name) {
  const auto value = options.integer(name);
  QUIRE_CHECK(value.has_value()) << "--" << std::string(name) << " has a default in words";
  return *value;
}
// The same in 32 bits; the row's range keeps it there.
[[nodiscard]] inline std::int32_t count_of(const Options& options, std::string_view name) { return static_cast<std::int32_t>(number_of(options, name)); }

// Block size, model length, KV pool and step budget, in vLLM's order of rules. Needs engine.kv_dtype.
void resolve_capacity(Resolution& r);
// ApiSettings and HttpSettings.
void resolve_service(Resolution& r);

}  // namespace quire::config
