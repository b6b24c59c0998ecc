#include "commands/quantize.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "base/files.h"
#include "base/log.h"
#include "calibration/observe.h"
#include "commands/builtin_text.h"
#include "commands/console.h"
#include "commands/memory_plan.h"
#include "commands/model_files.h"
#include "commands/progress.h"
#include "commands/startup.h"
#include "quantize/calibrated.h"

namespace quire::commands {
namespace {

constexpr char kCommand[] = "quantize";
// Beside the text: what changes the numbers that calibration finds.
constexpr const char* kCalibrationFlags[] = {"tokenizer", "tokenizer-revision", "dtype"};
constexpr std::size_t kMostTextBytes = std::size_t{64} << 20;

// The 16-bit model as `quire serve` would run it, with room for one window of the text.
Result<Prepared> prepare_calibration(const config::QuantizeCommand& command, const model::ModelSpec& spec) {
  const std::int64_t length = std::min(calibration::kWindowTokens + 1, spec.max_position_embeddings);
  std::vector<std::string> line{"serve", command.options.model(), "--enforce-eager", "--max-model-len", std::to_string(length), "--max-num-batched-tokens", std::to_string(calibration::kWindowTokens)};
  for (const char* name : {"revision", "tokenizer", "tokenizer-revision", "dtype", "num-threads"})
    if (const auto value = command.options.given_text(name)) line.insert(line.end(), {"--" + std::string(name), *value});
  const auto serve = config::parse_command_line(line);
  if (!serve.ok()) return serve.error();
  StartupTimeline timeline;
  return prepare(std::get<config::ServeCommand>(serve.value()).options, timeline);
}

Result<std::vector<TokenId>> tokens_of(const Prepared& prepared, const std::string& text, const std::string& name) {
  auto tokens = prepared.tokenizer->encode(text, text::AddSpecialTokens::kYes);
  if (!tokens.ok()) return Error{ErrorCode::kInvalidArgument, "--calibration " + name + ": " + tokens.error().message, "--calibration"};
  if (tokens->empty()) return invalid("--calibration " + name + ": has no tokens; any text will do, however short", "--calibration");
  const auto alien = std::ranges::find_if(tokens.value(), [&](TokenId id) { return id < 0 || id >= prepared.config.model.vocab_size; });
  if (alien != tokens->end())
    return Error{ErrorCode::kCorrupt, "--tokenizer: it makes token id " + std::to_string(*alien) + " of the calibration text; the model has " + std::to_string(prepared.config.model.vocab_size) + " tokens", "--tokenizer"};
  return tokens;
}

struct CalibrationInput {
  Prepared prepared;
  std::vector<TokenId> tokens;
};
Result<CalibrationInput> calibration_input(const config::QuantizeCommand& command, const model::ModelSpec& spec, const std::string& text, const std::string& name) {
  auto prepared = prepare_calibration(command, spec);
  if (!prepared.ok()) return prepared.error();
  auto tokens = tokens_of(prepared.value(), text, name);
  if (!tokens.ok()) return tokens.error();
  return CalibrationInput{std::move(prepared).value(), std::move(tokens).value()};
}

// Loads the model, checks its kernels and runs it over the text.
Result<calibration::Ranges> calibrate(const CalibrationInput& input, const std::string& name) {
  const Prepared* prepared = &input.prepared;
  StartupTimeline timeline;
  engine::HealthMonitor health;
  engine::Metrics metrics(metrics_config(prepared->config));
  const auto model = load_checked(*prepared, metrics, health, timeline);
  if (!model.ok()) return model.error();
  if (!model->report.passed()) return Error{ErrorCode::kUnsupported, "the self-check failed, so calibration would measure wrong numbers: " + model->report.failure(), {}};
  Progress progress(health, "calibrating");
  auto ranges = calibration::observe({prepared->setup.runner, *model->memory->weights, *model->memory->kv, *model->runner}, input.tokens,
                                     {.progress = [&](std::int64_t done, std::int64_t total) { progress.tell(done, total); }});
  if (ranges.ok()) QUIRE_LOG_INFO("calibrated over {} tokens of {} in {} windows", ranges->num_tokens, name, ranges->num_windows);
  return ranges;
}

Result<std::string> calibration_text(const config::QuantizeCommand& command) {
  if (command.calibration.empty()) return std::string(builtin_text());
  auto text = read_file(command.calibration, kMostTextBytes);
  if (!text.ok()) return Error{ErrorCode::kInvalidArgument, "--calibration: " + text.error().message, "--calibration"};
  return text;
}

Result<QuantizeResult> work(const config::QuantizeCommand& command) {
  const auto started = std::chrono::steady_clock::now();
  const auto files = read_model_files(command.options);
  if (!files.ok()) return files.error();
  if (files->spec.gguf) return Error{ErrorCode::kUnsupported, command.options.model() + ": is a GGUF file; quire quantize reads folders of safetensors (--quantization fp8 makes FP8 matrices of a GGUF file while serving it)", "MODEL"};
  quantize::JobSettings settings{.source_dir = files->folders.model_dir, .output_dir = command.output, .form = *quantize::form_named(command.format), .kv = *quantize::kv_scales_named(command.kv)};
  settings.max_shard_bytes = command.max_shard_bytes;
  settings.overwrite = command.overwrite;
  for (const char* flag : kCalibrationFlags) settings.calibration_flags.emplace_back("--" + std::string(flag), command.options.given_text(flag).value_or(""));
  auto text = calibration_text(command);
  if (!text.ok()) return text.error();
  settings.text = std::move(text).value();
  const std::string name = command.calibration.empty() ? "the built-in text" : command.calibration;
  const bool calibrated = quantize::needs_calibration(settings.form, settings.kv);
  if (!calibrated && !command.calibration.empty()) QUIRE_LOG_WARN("--calibration {}: not read; --format {} with --kv {} needs no calibration", name, command.format, command.kv);
  std::optional<CalibrationInput> input;
  if (calibrated) {
    // Before the folder and its journal are there: a run with a text that cannot be used must not stand in the way of the next.
    auto read = calibration_input(command, files->spec, settings.text, name);
    if (!read.ok()) return read.error();
    input = std::move(read).value();
  }
  const auto job = quantize::Job::open(settings, files->spec);
  if (!job.ok()) return job.error();
  if (job.value()->wants_calibration()) {
    const auto ranges = calibrate(*input, name);
    if (!ranges.ok()) return ranges.error();
    QUIRE_RETURN_IF_ERROR(job.value()->calibrate(ranges.value()));
  }
  engine::HealthMonitor health;
  Progress progress(health, "writing " + command.format);
  auto report = job.value()->run([&](std::uint64_t done, std::uint64_t total) { progress.tell(static_cast<std::int64_t>(done), static_cast<std::int64_t>(total)); });
  if (!report.ok()) return Error{report.error().code, report.error().message + "; what is written stays, and the same command " + (command.overwrite ? "without --overwrite " : "") + "goes on with it", report.error().param};
  QuantizeResult out{.model = command.options.model(), .format = command.format, .kv = command.kv, .output = command.output, .text = quantize::needs_calibration(settings.form, settings.kv) ? name : ""};
  out.report = std::move(report).value();
  for (const std::string& note : out.report.notes) QUIRE_LOG_WARN("{}", note);
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  return out;
}

}  // namespace

std::string quantize_text(const QuantizeResult& r) {
  const quantize::JobReport& report = r.report;
  std::string out = r.output + ": " + r.format + ", " + std::to_string(report.num_quantised) + " matrices in FP8, KV scales " + (r.kv == "none" ? "none" : "per " + r.kv) + ", " + std::to_string(report.num_tensors) + " tensors in " +
                    std::to_string(report.num_files) + (report.num_files == 1 ? " file" : " files") + ", " + mebibytes(report.output_bytes) + " of " + mebibytes(report.source_bytes) + "\n";
  if (report.ranges) out += "calibrated over " + std::to_string(report.ranges->num_tokens) + " tokens of " + r.text + "\n";
  if (report.resumed) out += "went on with an unfinished run: " + std::to_string(report.files_kept) + " files were there\n";
  for (const std::string& note : report.notes) out += "note: " + note + "\n";
  return out;
}

boost::json::object quantize_json(const QuantizeResult& r) {
  const quantize::JobReport& report = r.report;
  boost::json::object calibration;
  if (report.ranges) calibration = {{"text", r.text}, {"tokens", report.ranges->num_tokens}, {"windows", report.ranges->num_windows}};
  boost::json::array notes;
  for (const std::string& note : report.notes) notes.emplace_back(note);
  return {{"model", r.model},
          {"format", r.format},
          {"kv", r.kv},
          {"output", r.output},
          {"calibration", report.ranges ? boost::json::value(std::move(calibration)) : boost::json::value(nullptr)},
          {"files", report.num_files},
          {"tensors", report.num_tensors},
          {"quantised", report.num_quantised},
          {"source_bytes", report.source_bytes},
          {"output_bytes", report.output_bytes},
          {"resumed", report.resumed},
          {"files_kept", report.files_kept},
          {"notes", std::move(notes)},
          {"seconds", r.seconds}};
}

int quantize(const config::QuantizeCommand& command) {
  const auto result = work(command);
  if (!result.ok()) return report_error(kCommand, result.error());
  return print_answer(kCommand, command.options.boolean("json") ? boost::json::serialize(quantize_json(result.value())) + "\n" : quantize_text(result.value()));
}

}  // namespace quire::commands
