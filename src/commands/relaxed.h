// What a loaded model is refused for, what `--relaxed` lets through instead, and the places where that is said: log, /v1/models, metrics.
#pragma once
#include <string>
#include <vector>

#include "base/result.h"
#include "commands/startup.h"
#include "config/resolved.h"
#include "engine/metrics.h"

namespace quire::commands {

// The warnings that /v1/models repeats, one for everything that a --relaxed item let through, and for FP8 KV without scales, which needs
// no such item. Sets quire:relaxed_checks of each item (1: it let something through) and, over an FP8 cache, quire:kv_scales_default.
// An error is the refusal, with its remedy.
[[nodiscard]] Result<std::vector<std::string>> judge(const CheckedModel& model, const config::EngineSettings& engine, engine::Metrics& metrics);

}  // namespace quire::commands
