// The steps of resolve(), one file each; for resolve.cc alone.
#pragma once
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

// Block size, model length, KV pool and step budget, in vLLM's order of rules. Needs engine.kv_dtype.
void resolve_capacity(Resolution& r);
// ApiSettings and HttpSettings.
void resolve_service(Resolution& r);

}  // namespace quire::config
