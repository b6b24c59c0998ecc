#include "commands/doctor.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <vector>

#include "base/log.h"
#include "base/text.h"
#include "commands/console.h"
#include "commands/json_number.h"
#include "commands/kv_gate_report.h"
#include "commands/startup.h"

namespace quire::commands {
namespace {

constexpr std::string_view kCommand = "doctor";

// One line for each kind of check and row class: how many there were and how near the nearest came to its bound.
struct Group {
  std::string check, rows;
  std::size_t count = 0, failed = 0;
  double most_used = 0.0;  // of a bound, over those that passed; bounds of 0 ask for the same bits
};

std::vector<Group> groups_of(const selfcheck::Report& report) {
  std::vector<Group> groups;
  for (const selfcheck::Verdict& v : report.verdicts) {
    auto at = std::find_if(groups.begin(), groups.end(), [&](const Group& g) { return g.check == v.check && g.rows == v.row_class; });
    if (at == groups.end()) at = groups.insert(at, Group{.check = v.check, .rows = v.row_class});
    ++at->count;
    at->failed += v.passed ? 0 : 1;
    if (v.passed && v.bound > 0.0) at->most_used = std::max(at->most_used, v.worst_error / v.bound);
  }
  return groups;
}

std::string summary_lines(const selfcheck::Report& report) {
  const std::vector<Group> groups = groups_of(report);
  std::size_t check = 5, rows = 4, count = 6;
  for (const Group& g : groups) {
    check = std::max(check, g.check.size());
    rows = std::max(rows, g.rows.size());
    count = std::max(count, std::to_string(g.count).size());
  }
  const auto line = [&](const char* verdict, const Group& g, const std::string& number_of, const std::string& use) {
    return left_aligned(verdict, 5) + left_aligned(g.check, check + 2) + left_aligned(g.rows, rows + 2) + left_aligned(number_of, count + 2) + use + "\n";
  };
  std::string out = line("", {.check = "check", .rows = "rows"}, "checks", "nearest to its bound");
  for (const Group& g : groups) {
    out += line(g.failed == 0 ? "ok" : "", g, std::to_string(g.count), g.failed == 0 ? formatted("%.0f %%", 100.0 * g.most_used) : std::to_string(g.failed) + " FAILED");
  }
  return out;
}

std::string verdict_lines(const selfcheck::Report& report, Detail detail) {
  std::size_t check = 5, batch = 5, rows = 4;
  for (const selfcheck::Verdict& v : report.verdicts) {
    check = std::max(check, v.check.size());
    batch = std::max(batch, v.batch.size());
    rows = std::max(rows, v.row_class.size());
  }
  const auto line = [&](const std::string& verdict, const selfcheck::Verdict& v, const std::string& error, const std::string& bound) {
    return left_aligned(verdict, 5) + left_aligned(v.check, check + 2) + left_aligned(v.row_class, rows + 2) + left_aligned(v.batch, batch + 2) + left_aligned(error, 10) + left_aligned(bound, 10) + v.where + (v.cause.empty() ? "" : ", " + v.cause) + "\n";
  };
  std::string out = line("", {.check = "check", .batch = "batch", .row_class = "rows", .where = "worst element"}, "error", "bound");
  for (const selfcheck::Verdict& v : report.verdicts)
    if (!v.passed || detail == Detail::kEveryCheck) out += line(v.passed ? "ok" : "FAIL", v, formatted("%.2e", v.worst_error), formatted("%.2e", v.bound));
  return out;
}

}  // namespace

std::string report_text(const selfcheck::Report& report, Detail detail) {
  const auto failed = std::count_if(report.verdicts.begin(), report.verdicts.end(), [](const selfcheck::Verdict& v) { return !v.passed; });
  std::string out = detail == Detail::kSummary ? summary_lines(report) : "";
  if (detail == Detail::kEveryCheck || failed > 0) out += verdict_lines(report, detail);
  return out + std::to_string(report.verdicts.size()) + " checks over " + std::to_string(report.num_steps) + " steps in " + formatted("%.2f s", report.seconds) + ": " + (failed == 0 ? "all passed" : std::to_string(failed) + " FAILED") + "\n";
}

boost::json::object report_json(const selfcheck::Report& report) {
  boost::json::array verdicts;
  for (const selfcheck::Verdict& v : report.verdicts)
    verdicts.push_back(boost::json::object{{"check", v.check},
                                           {"batch", v.batch},
                                           {"row_class", v.row_class},
                                           {"passed", v.passed},
                                           {"worst_error", json_number(v.worst_error)},
                                           {"bound", json_number(v.bound)},
                                           {"layer", v.layer == selfcheck::kNoLayer ? boost::json::value(nullptr) : boost::json::value(v.layer)},
                                           {"where", v.where},
                                           {"cause", v.cause.empty() ? boost::json::value(nullptr) : boost::json::value(v.cause)}});
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
  std::string out = report_text(report, command.options.boolean("verbose") ? Detail::kEveryCheck : Detail::kSummary) + kv_gate_text(model->kv_gate);
  if (command.options.boolean("json")) {
    boost::json::object document{{"model", prepared->config.engine.model_arg}};
    for (auto& [key, value] : report_json(report)) document[key] = value;
    if (!model->kv_gate.layers.empty()) document["kv_gate"] = kv_gate_json(model->kv_gate);
    out = boost::json::serialize(document) + "\n";
  }
  return print_answer(kCommand, out, report.passed() && model->kv_gate.passed() ? 0 : kFailureExitCode);
}

}  // namespace quire::commands
