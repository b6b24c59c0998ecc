// The program: parses the command line and hands over to one subcommand.
#include <cstdio>
#include <variant>

#include "commands/doctor.h"
#include "commands/explain.h"
#include "commands/plan.h"
#include "commands/run.h"
#include "commands/serve.h"
#include "commands/version.h"
#include "config/command_line.h"
#include "config/help.h"

namespace {

struct Dispatch {
  int operator()(const quire::config::ServeCommand& c) const { return quire::commands::serve(c); }
  int operator()(const quire::config::RunCommand& c) const { return quire::commands::run(c); }
  int operator()(const quire::config::ExplainCommand& c) const { return quire::commands::explain(c); }
  int operator()(const quire::config::PlanCommand& c) const { return quire::commands::plan(c); }
  int operator()(const quire::config::DoctorCommand& c) const { return quire::commands::doctor(c); }
  int operator()(const quire::config::VersionCommand& c) const {
    std::printf(c.json ? "{\"name\":\"quire\",\"version\":\"%s\"}\n" : "quire %s\n", quire::commands::kVersion);
    return 0;
  }
  int operator()(const quire::config::HelpCommand& c) const {
    std::fwrite(c.text.data(), 1, c.text.size(), stdout);
    return 0;
  }
  int operator()(const quire::config::FlagsDocCommand& c) const {
    const quire::Status written = quire::config::write_docs(c.folder);
    if (written.ok()) return 0;
    std::fprintf(stderr, "quire: error: %s\n", written.error().to_string().c_str());
    return 1;
  }
};

}  // namespace

int main(int argc, char** argv) {
  const auto command = quire::config::parse_command_line(argc, argv);
  if (!command.ok()) {
    std::fprintf(stderr, "quire: error: %s\n", command.error().to_string().c_str());
    return quire::config::kUsageExitCode;
  }
  return std::visit(Dispatch{}, command.value());
}
