#include "commands/model_files.h"

#include <utility>

#include "base/log.h"

namespace quire::commands {

Result<ModelFiles> read_model_files(const config::Options& options) {
  ModelFiles files;
  auto environment = config::read_environment(config::process_variables());
  if (!environment.ok()) return environment.error();
  files.environment = std::move(environment).value();
  QUIRE_RETURN_IF_ERROR(init_logging(files.environment.log_level.value_or("info")));
  auto folders = config::locate_model(options);
  if (!folders.ok()) return folders.error();
  files.folders = std::move(folders).value();
  auto spec = model::read_model_spec(files.folders.model_dir);
  if (!spec.ok()) return spec.error();
  files.spec = std::move(spec).value();
  if (files.folders.generation_config_dir.has_value()) {
    auto read = model::read_generation_defaults(*files.folders.generation_config_dir);
    if (!read.ok()) return read.error();
    files.generation = std::move(read).value();
  }
  return files;
}

Result<ResolvedRun> resolve_run(const config::Options& options, const ModelFiles& files, std::int64_t model_max_length) {
  const config::MachineFacts machine = config::this_machine();
  auto resolved = config::resolve({options, files.environment, files.folders, files.spec, files.generation, config::TokenizerFacts{model_max_length}, machine});
  if (!resolved.ok()) return resolved.error();
  return ResolvedRun{std::move(resolved).value(), machine, model::derived_max_model_len(files.spec, model_max_length)};
}

}  // namespace quire::commands
