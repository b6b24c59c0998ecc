// The program: parses the command line and hands over to one subcommand.
#include <string>
#include <variant>

#include "commands/bench_attention.h"
#include "commands/bench_engine.h"
#include "commands/bench_serve.h"
#include "commands/chat.h"
#include "commands/console.h"
#include "commands/doctor.h"
#include "commands/eval.h"
#include "commands/explain.h"
#include "commands/export_tokenizer.h"
#include "commands/plan.h"
#include "commands/quantize.h"
#include "commands/run.h"
#include "commands/serve.h"
#include "commands/version.h"
#include "config/command_line.h"
#include "config/help.h"

namespace {

struct Dispatch {
  int operator()(const quire::config::ServeCommand& c) const { return quire::commands::serve(c); }
  int operator()(const quire::config::RunCommand& c) const { return quire::commands::run(c); }
  int operator()(const quire::config::ChatCommand& c) const { return quire::commands::chat(c); }
  int operator()(const quire::config::ExplainCommand& c) const { return quire::commands::explain(c); }
  int operator()(const quire::config::PlanCommand& c) const { return quire::commands::plan(c); }
  int operator()(const quire::config::DoctorCommand& c) const { return quire::commands::doctor(c); }
  int operator()(const quire::config::EvalCommand& c) const { return quire::commands::eval(c); }
  int operator()(const quire::config::QuantizeCommand& c) const { return quire::commands::quantize(c); }
  int operator()(const quire::config::ExportTokenizerCommand& c) const { return quire::commands::export_tokenizer(c); }
  int operator()(const quire::config::BenchAttentionCommand& c) const { return quire::commands::bench_attention(c); }
  int operator()(const quire::config::BenchLatencyCommand& c) const { return quire::commands::bench_latency(c); }
  int operator()(const quire::config::BenchThroughputCommand& c) const { return quire::commands::bench_throughput(c); }
  int operator()(const quire::config::BenchServeCommand& c) const { return quire::commands::bench_serve(c); }
  int operator()(const quire::config::VersionCommand& c) const {
    const std::string version = quire::commands::kVersion;
    return quire::commands::print_answer("", c.json ? "{\"name\":\"quire\",\"version\":\"" + version + "\"}\n" : "quire " + version + "\n");
  }
  int operator()(const quire::config::HelpCommand& c) const { return quire::commands::print_answer("", c.text); }
  int operator()(const quire::config::FlagsDocCommand& c) const {
    const quire::Status written = quire::config::write_docs(c.folder);
    return written.ok() ? 0 : quire::commands::report_error("", written.error());
  }
};

}  // namespace

int main(int argc, char** argv) {
  quire::commands::prepare_standard_streams();
  const auto command = quire::config::parse_command_line(argc, argv);
  if (!command.ok()) {
    (void)quire::commands::report_error("", command.error());
    return quire::config::kUsageExitCode;  // also for what is not built
  }
  return std::visit(Dispatch{}, command.value());
}
