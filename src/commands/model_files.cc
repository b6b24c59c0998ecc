#include "commands/model_files.h"

#include <utility>

#include "base/log.h"
#include "config/problems.h"

namespace quire::commands {
namespace {

void read_json_files(ModelFiles& files, config::Problems& problems) {
  auto spec = model::read_model_spec(files.folders.model_dir);
  std::int64_t vocab_size = INT32_MAX;  // without config.json every id passes; the file is refused anyway
  if (spec.ok()) {
    files.spec = std::move(spec).value();
    vocab_size = files.spec.vocab_size;
  } else {
    problems.add(spec.error());
  }
  if (!files.folders.generation_config_dir.has_value()) return;
  auto generation = model::read_generation_defaults(*files.folders.generation_config_dir, vocab_size);
  if (generation.ok())
    files.generation = std::move(generation).value();
  else
    problems.add(generation.error());
}

}  // namespace

Result<ModelFiles> read_model_files(const config::Options& options, const std::string& default_log_level) {
  ModelFiles files;
  config::Problems problems;
  auto environment = config::read_environment(config::process_variables());
  if (environment.ok()) {
    files.environment = std::move(environment).value();
    QUIRE_RETURN_IF_ERROR(init_logging(files.environment.log_level.value_or(default_log_level)));
  } else {
    problems.add(environment.error());
  }
  if (auto folders = config::locate_model(options); folders.ok()) {
    files.folders = std::move(folders).value();
    read_json_files(files, problems);
  } else {
    problems.add(folders.error());
  }
  if (!problems.empty()) return problems.to_error();
  return files;
}

Result<ResolvedRun> resolve_run(const config::Options& options, const ModelFiles& files, std::int64_t model_max_length) {
  const config::MachineFacts machine = config::this_machine();
  auto resolved = config::resolve({options, files.environment, files.folders, files.spec, files.generation, config::TokenizerFacts{model_max_length}, machine});
  if (!resolved.ok()) return resolved.error();
  return ResolvedRun{std::move(resolved).value(), machine};
}

}  // namespace quire::commands
