#include "commands/doctor.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <cstdio>

#include "base/log.h"
#include "commands/console.h"
#include "commands/kv_gate_report.h"
#include "commands/startup.h"

namespace quire::commands {
namespace {

constexpr std::string_view kCommand = "doctor";

std::string number(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2e", x);
  return text;
}

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(text.size(), width), ' ');
  return text;
}

boost::json::value finite(double x) {
  if (!std::isfinite(x)) return nullptr;
  return x;
}

}  // namespace

std::string report_text(const selfcheck::Report& report) {
  std::size_t check = 5, batch = 5, rows = 4;
  for (const selfcheck::Verdict& v : report.verdicts) {
    check = std::max(check, v.check.size());
    batch = std::max(batch, v.batch.size());
    rows = std::max(rows, v.row_class.size());
  }
  const auto line = [&](const std::string& verdict, const selfcheck::Verdict& v, const std::string& error, const std::string& bound) {
    return padded(verdict, 5) + padded(v.check, check + 2) + padded(v.row_class, rows + 2) + padded(v.batch, batch + 2) + padded(error, 10) + padded(bound, 10) + v.where + "\n";
  };
  std::string out = line("", {.check = "check", .batch = "batch", .row_class = "rows", .where = "worst element"}, "error", "bound");
  std::size_t failed = 0;
  for (const selfcheck::Verdict& v : report.verdicts) {
    failed += v.passed ? 0 : 1;
    out += line(v.passed ? "ok" : "FAIL", v, number(v.worst_error), number(v.bound));
  }
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.2f s", report.seconds);
  return out + std::to_string(report.verdicts.size()) + " checks over " + std::to_string(report.num_steps) + " steps in " + seconds + ": " + (failed == 0 ? "all passed" : std::to_string(failed) + " FAILED") + "\n";
}

boost::json::object report_json(const selfcheck::Report& report) {
  boost::json::array verdicts;
  for (const selfcheck::Verdict& v : report.verdicts)
    verdicts.push_back(boost::json::object{{"check", v.check},
                                           {"batch", v.batch},
                                           {"row_class", v.row_class},
                                           {"passed", v.passed},
                                           {"worst_error", finite(v.worst_error)},
                                           {"bound", finite(v.bound)},
                                           {"layer", v.layer == selfcheck::kNoLayer ? boost::json::value(nullptr) : boost::json::value(v.layer)},
                                           {"where", v.where}});
  return {{"passed", report.passed()}, {"failure", report.failure()}, {"seconds", report.seconds}, {"steps", report.num_steps}, {"verdicts", std::move(verdicts)}};
}

int doctor(const config::DoctorCommand& command, const StartupSwitches& switches) {
  StartupTimeline timeline;
  const auto prepared = prepare(command.options, timeline);
  if (!prepared.ok()) return report_error(kCommand, prepared.error());
  log_banner(prepared.value(), BannerInputs::Server::kNone);
  engine::HealthMonitor health;
  engine::Metrics metrics(metrics_config(prepared->config));
  const auto model = load_checked(prepared.value(), metrics, health, timeline, switches);
  if (!model.ok()) return report_error(kCommand, model.error());
  const selfcheck::Report& report = model->report;
  QUIRE_LOG_INFO("start-up: {}", timeline.text());
  std::string out = report_text(report) + kv_gate_text(model->kv_gate);
  if (command.options.boolean("json")) {
    boost::json::object document{{"model", prepared->config.engine.model_arg}};
    for (auto& [key, value] : report_json(report)) document[key] = value;
    if (!model->kv_gate.layers.empty()) document["kv_gate"] = kv_gate_json(model->kv_gate);
    out = boost::json::serialize(document) + "\n";
  }
  return print_answer(kCommand, out, report.passed() && model->kv_gate.passed() ? 0 : kFailureExitCode);
}

}  // namespace quire::commands
