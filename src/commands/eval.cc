#include "commands/eval.h"

#include <boost/json/serialize.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <utility>

#include "attention/device_family.h"
#include "base/files.h"
#include "base/log.h"
#include "commands/banner.h"
#include "commands/console.h"
#include "commands/run_setup.h"
#include "commands/startup.h"
#include "kv/store/kv_format.h"

namespace quire::commands {
namespace {

constexpr char kCommand[] = "eval";
constexpr std::size_t kMostTextBytes = std::size_t{64} << 20;

// One line for each tenth of the work.
EvalProgress progress_line(const std::string& what) {
  return [what, told = std::int64_t{0}](std::int64_t done, std::int64_t total) mutable {
    if (done * 10 / total == told) return;
    told = done * 10 / total;
    QUIRE_LOG_INFO("{}: {} of {}", what, done, total);
  };
}

struct Work {
  const std::vector<TokenId>& tokens;
  PerplexityOptions perplexity;
  bool answers = false;
};

// Loads the model with the cache that `p` says and measures it.
Result<EvalSide> measure(const Prepared& p, const Work& work, selfcheck::KvGate* gate) {
  StartupTimeline timeline;
  engine::HealthMonitor health;
  auto loaded = LoadedModel::load(p, std::make_shared<engine::Metrics>(metrics_config(p.config)), health, timeline);
  if (!loaded.ok()) return loaded.error();
  EvalSide side{.kv_format = kv::kv_format_name(kv::kv_format_of(p.config.engine.kv_dtype).value()), .perplexity = {}, .answers = {}};
  engine::Engine& engine = *loaded.value()->engine();
  auto measured = perplexity(engine, work.tokens, work.perplexity, progress_line("perplexity, KV " + side.kv_format));
  if (!measured.ok()) return measured.error();
  side.perplexity = std::move(measured).value();
  if (work.answers) {
    const ContinuationOptions options{.max_tokens = std::max(1, std::min(256, p.config.engine.scheduler.max_model_len - 65))};
    auto answers = continuations(engine, work.tokens, options, progress_line("greedy answers, KV " + side.kv_format));
    if (!answers.ok()) return answers.error();
    side.answers = std::move(answers).value();
  }
  if (gate != nullptr) *gate = loaded.value()->kv_gate();
  engine.stop(std::chrono::milliseconds(0));
  return side;
}

// The same run with a cache of the model's own type, in as much memory.
Result<Prepared> with_16_bit_cache(const Prepared& p) {
  Prepared other = p;
  config::EngineSettings& e = other.config.engine;
  const auto factor = static_cast<std::int32_t>(dtype_bytes(e.dtype) / dtype_bytes(e.kv_dtype));
  e.kv_dtype = e.dtype;
  e.scheduler.num_blocks = std::max(e.scheduler.num_blocks / factor, (e.scheduler.max_model_len + e.scheduler.block_size - 1) / e.scheduler.block_size);
  auto setup = set_up_run(other.config, std::string(attention::kServedFamily), std::nullopt);
  if (!setup.ok()) return setup.error();
  other.setup = std::move(setup).value();
  return other;
}

Result<EvalResult> evaluate(const config::EvalCommand& command, const Prepared& prepared) {
  const auto started = std::chrono::steady_clock::now();
  EvalResult out{.model = prepared.config.engine.model_arg, .text = command.text};
  const auto text = read_file(command.text, kMostTextBytes);
  if (!text.ok()) return Error{text.error().code, "--text: " + text.error().message, "--text"};
  const auto tokens = prepared.tokenizer->encode(text.value(), text::AddSpecialTokens::kYes);
  if (!tokens.ok()) return Error{ErrorCode::kInvalidArgument, "--text " + command.text + ": " + tokens.error().message, "--text"};
  out.num_tokens = std::ssize(tokens.value());
  const std::int32_t window = std::min(512, prepared.config.engine.scheduler.max_model_len - 1);
  if (const Status enough = check_windows(out.num_tokens, window); !enough.ok()) return Error{enough.error().code, "--text " + command.text + ": " + enough.error().message, "--text"};
  Work work{tokens.value(), {.window = window, .bos = prepared.tokenizer->facts().bos, .max_windows = command.max_windows}};
  // Without a BOS in front of the text the model is not used to one.
  if (tokens->empty() || tokens->front() != work.perplexity.bos.value_or(-1)) work.perplexity.bos.reset();
  work.answers = is_fp8(prepared.config.engine.kv_dtype);
  auto asked = measure(prepared, work, &out.gate);
  if (!asked.ok()) return asked.error();
  out.asked = std::move(asked).value();
  if (work.answers) {
    const auto plain = with_16_bit_cache(prepared);
    if (!plain.ok()) return plain.error();
    auto other = measure(plain.value(), work, nullptr);
    if (!other.ok()) return other.error();
    out.with_16_bit = std::move(other).value();
  }
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  return out;
}

}  // namespace

int eval(const config::EvalCommand& command) {
  StartupTimeline timeline;
  auto prepared = prepare(command.options, timeline);
  if (!prepared.ok()) return report_error(kCommand, prepared.error());
  if (!command.plot.empty()) {  // before anything is measured
    if (!is_fp8(prepared->config.engine.kv_dtype))
      return report_error(kCommand, Error{ErrorCode::kInvalidArgument, std::string("--plot: a chart shows what an FP8 KV cache loses, and this one is ") + dtype_name(prepared->config.engine.kv_dtype) + "; --kv-cache-dtype fp8 makes it one", "--plot"});
    if (const Status writable = check_plot(command.plot); !writable.ok()) return report_error(kCommand, writable.error());
  }
  log_banner(prepared.value(), BannerInputs::Server::kNone);
  const bool relaxed = prepared->config.engine.relaxed_kv_scales;
  prepared->config.engine.relaxed_kv_scales = true;  // measured, whatever comes out; the exit status says it
  const auto result = evaluate(command, prepared.value());
  if (!result.ok()) return report_error(kCommand, result.error());
  if (!command.plot.empty()) {
    if (const Status written = write_plot(command.plot, svg_text(eval_chart(result.value()))); !written.ok()) return report_error(kCommand, written.error());
  }
  const std::string out = command.options.boolean("json") ? boost::json::serialize(eval_json(result.value())) + "\n" : eval_text(result.value());
  return print_answer(kCommand, out, result->gate.passed() || relaxed ? 0 : kFailureExitCode);
}

}  // namespace quire::commands
