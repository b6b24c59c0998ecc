#include "commands/plan.h"

#include <boost/json/serialize.hpp>
#include <string>

#include "commands/console.h"
#include "commands/memory_plan.h"
#include "commands/model_files.h"
#include "model/checkpoint.h"
#include "text/tokenizer.h"

namespace quire::commands {
namespace {

constexpr std::string_view kCommand = "plan";

// The headers must hold what the plan is made for.
Status check_headers(const config::ResolvedConfig& c) {
  if (c.engine.load_format == config::LoadFormat::kDummy) return {};
  return model::check_checkpoint(c.engine.model_dir, c.model);
}

Result<MemoryPlan> make_plan(const config::Options& options) {
  const auto files = read_model_files(options);
  if (!files.ok()) return files.error();
  const auto max_length = text::read_model_max_length(files->folders.tokenizer_dir);
  if (!max_length.ok()) return max_length.error();
  const auto run = resolve_run(options, files.value(), max_length.value());
  if (!run.ok()) return run.error();
  QUIRE_RETURN_IF_ERROR(check_headers(run->config));
  return plan_memory({run->config, run->machine});
}

}  // namespace

int plan(const config::PlanCommand& command) {
  const auto made = make_plan(command.options);
  if (!made.ok()) return report_error(kCommand, made.error());
  return print_answer(kCommand, command.options.boolean("json") ? boost::json::serialize(plan_json(made.value())) + "\n" : plan_text(made.value()),
                      made->fits() ? 0 : kFailureExitCode);
}

}  // namespace quire::commands
