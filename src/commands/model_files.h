// The small files of a model and the environment, and what resolution makes of them on this machine: the first part of every command that
// serves or plans. Reads no weights and no vocabulary.
#pragma once
#include <cstdint>
#include <string>

#include "base/result.h"
#include "config/environment.h"
#include "config/machine.h"
#include "config/resolve.h"
#include "model/spec.h"

namespace quire::commands {

struct ModelFiles {
  config::Environment environment;
  config::ModelFolders folders;
  model::ModelSpec spec;
  model::GenerationDefaults generation;
};
// Environment, logging, folders, config.json, generation_config.json. An error lists what is wrong with any of them.
[[nodiscard]] Result<ModelFiles> read_model_files(const config::Options& options, const std::string& default_log_level = "info");

struct ResolvedRun {
  config::ResolvedConfig config;
  config::MachineFacts machine;
};
// `model_max_length`: the tokenizer's; 0: it states none.
[[nodiscard]] Result<ResolvedRun> resolve_run(const config::Options& options, const ModelFiles& files, std::int64_t model_max_length);

}  // namespace quire::commands
