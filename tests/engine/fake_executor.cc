#include "fake_executor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/check.h"
#include "kit/slowdown.h"

namespace quire::engine::test {

TokenId next_token(const std::vector<TokenId>& history) {
  std::uint64_t h = 1469598103934665603u;
  for (const TokenId t : history) h = (h ^ static_cast<std::uint64_t>(t)) * 1099511628211u;
  return static_cast<TokenId>((h >> 20) % static_cast<std::uint64_t>(kVocab));
}

Expected expected_output(const GenerateRequest& request, std::int32_t max_model_len) {
  Expected out;
  std::vector<TokenId> history = request.prompt;
  const SamplingParams& p = request.sampling;
  while (true) {
    const TokenId token = next_token(history);
    history.push_back(token);
    out.tokens.push_back(token);
    const auto num = static_cast<std::int32_t>(out.tokens.size());
    const bool ends = std::ranges::count(p.eos_token_ids, token) + std::ranges::count(p.stop_token_ids, token) > 0;
    if (ends) {
      out.reason = FinishReason::kStop;
      return out;
    }
    if (num >= p.max_tokens || static_cast<std::int32_t>(history.size()) >= max_model_len) return out;
  }
}

void ExecutorControl::allow(std::int64_t num_steps) {
  const std::scoped_lock lock(mutex_);
  permits_ = std::max<std::int64_t>(permits_, 0) + num_steps;
  cv_.notify_all();
}
void ExecutorControl::allow_all() {
  const std::scoped_lock lock(mutex_);
  permits_ = -1;
  cv_.notify_all();
}
void ExecutorControl::hold() {
  const std::scoped_lock lock(mutex_);
  permits_ = 0;
}
void ExecutorControl::fail_steps(int num) {
  const std::scoped_lock lock(mutex_);
  failures_ = num;
}
void ExecutorControl::break_rows(std::function<bool(RequestId)> broken) {
  const std::scoped_lock lock(mutex_);
  broken_ = std::move(broken);
}
void ExecutorControl::wait_submitted(std::uint64_t num_steps) {
  std::unique_lock lock(mutex_);
  EXPECT_TRUE(cv_.wait_for(lock, std::chrono::seconds(20 * quire::test::kSlowdown), [&] { return submitted_ >= num_steps; }));
}
std::uint64_t ExecutorControl::num_submitted() const {
  const std::scoped_lock lock(mutex_);
  return submitted_;
}
std::vector<std::uint64_t> ExecutorControl::seeds() const {
  const std::scoped_lock lock(mutex_);
  return seeds_;
}
std::int32_t ExecutorControl::most_in_flight() const {
  const std::scoped_lock lock(mutex_);
  return most_in_flight_;
}

void FakeExecutor::submit(const StepPlan& plan) {
  plans_.push_back(plan);
  const std::scoped_lock lock(control_->mutex_);
  ++control_->submitted_;
  control_->most_in_flight_ = std::max(control_->most_in_flight_, ++control_->in_flight_);
  for (const StateUpload& upload : plan.uploads) {
    if (static_cast<std::int32_t>(upload.tokens.size()) == upload.num_prompt_tokens) control_->seeds_.push_back(upload.sampling->seed);
  }
  control_->cv_.notify_all();
}

Result<StepResult> FakeExecutor::collect() {
  QUIRE_CHECK(!plans_.empty()) << "collect() without a step in flight";
  const StepPlan plan = std::move(plans_.front());
  plans_.pop_front();
  bool fails = false;
  std::function<bool(RequestId)> broken;
  {
    std::unique_lock lock(control_->mutex_);
    control_->cv_.wait(lock, [this] { return control_->permits_ != 0; });
    if (control_->permits_ > 0) --control_->permits_;
    --control_->in_flight_;
    fails = control_->failures_ > 0;
    if (fails) --control_->failures_;
    broken = control_->broken_;
  }
  for (const StateUpload& upload : plan.uploads) {
    rows_[upload.row] =
        Row{.request = upload.request, .tokens = upload.tokens, .num_prompt = upload.num_prompt_tokens, .num_written = 0, .num_blocks = 0};
  }
  for (const BlockAppend& append : plan.block_appends) rows_.at(append.row).num_blocks += append.blocks.size();
  StepResult result{.step_id = plan.step_id, .rows = {}};
  for (const RowPlan& row : plan.rows) result.rows.push_back(run_row(row, broken));
  if (fails) return Error{ErrorCode::kInternal, "the device fell over", {}};
  return result;
}

RowResult FakeExecutor::run_row(const RowPlan& plan, const std::function<bool(RequestId)>& broken) {
  Row& row = rows_.at(plan.row);
  QUIRE_CHECK_EQ(row.request.value, plan.request.value);
  const std::int32_t end = plan.num_computed + plan.num_new;
  QUIRE_CHECK_LE(end, static_cast<std::int32_t>(row.tokens.size()));
  RowResult out;
  out.request = plan.request;
  if (plan.scores_prompt) {
    for (std::int32_t p = plan.num_computed + 1; p <= std::min(end, row.num_prompt - 1); ++p) {
      out.prompt_logprobs.push_back(
          TokenLogprobs{.token = row.tokens[static_cast<std::size_t>(p)], .logprob = -static_cast<float>(p), .rank = 1, .top = {}});
    }
  }
  if (plan.samples) {
    QUIRE_CHECK_EQ(end, static_cast<std::int32_t>(row.tokens.size()));
    out.token = next_token(row.tokens);
    row.tokens.push_back(*out.token);
  }
  if (broken && broken(plan.request)) {
    out.token.reset();
    out.prompt_logprobs.clear();
    out.failure = Error{ErrorCode::kInternal, "the logits are not numbers", {}};
  }
  return out;
}

void Consumer::read() {
  for (AddressedEvent& addressed : queue_->drain()) {
    Seen& seen = seen_[addressed.id];
    if (!seen.finishes.empty()) seen.out_of_order = true;
    if (auto* prompt = std::get_if<PromptLogprobsEvent>(&addressed.event)) {
      seen.prompt_logprobs = std::move(prompt->entries);
      ++seen.num_prompt_events;
      if (!seen.tokens.empty()) seen.out_of_order = true;
    } else if (auto* token = std::get_if<TokenEvent>(&addressed.event)) {
      seen.tokens.push_back(token->token);
      ++num_tokens_;
    } else {
      seen.finishes.push_back(std::get<FinishEvent>(addressed.event));
      ++num_finishes_;
    }
  }
}

bool Consumer::wait_for(const std::size_t& count, std::size_t num) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20 * quire::test::kSlowdown);
  for (read(); count < num; read()) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (left.count() <= 0 || !queue_->wait(static_cast<int>(left.count()))) return false;
  }
  return true;
}
bool Consumer::wait_finishes(std::size_t num) { return wait_for(num_finishes_, num); }
bool Consumer::wait_tokens(std::size_t num) { return wait_for(num_tokens_, num); }

Bench::Bench(EngineConfig settings, bool start)
    : config(settings),
      metrics(std::make_shared<Metrics>(MetricsConfig{.model_name = "tiny", .engine = "0", .max_model_len = settings.scheduler.max_model_len})),
      engine(std::make_shared<Engine>(settings, std::make_unique<FakeExecutor>(control), metrics)) {
  if (start) engine->start();
}

RequestId Bench::submit(GenerateRequest request) {
  auto id = engine->submit(std::move(request), SeedSource::kRequest, consumer.queue());
  EXPECT_TRUE(id.ok()) << id.error().message;
  return id.ok() ? id.value() : RequestId::none();
}

EngineConfig small_config(std::int32_t depth) {
  EngineConfig config;
  config.scheduler.max_num_batched_tokens = 64;
  config.scheduler.max_num_seqs = 8;
  config.scheduler.max_model_len = 256;
  config.scheduler.block_size = 16;
  config.scheduler.num_blocks = 256;
  config.scheduler.depth = depth;
  config.stats_log_seconds = 0;
  return config;
}

GenerateRequest make_request(std::vector<TokenId> prompt, std::int32_t max_tokens) {
  GenerateRequest request;
  request.prompt = std::move(prompt);
  request.sampling.max_tokens = max_tokens;
  request.client_id = "test";
  return request;
}

std::vector<TokenId> make_prompt(std::int32_t num_tokens, std::uint64_t salt) {
  std::vector<TokenId> prompt{static_cast<TokenId>(salt % static_cast<std::uint64_t>(kVocab))};
  while (static_cast<std::int32_t>(prompt.size()) < num_tokens) prompt.push_back(next_token(prompt));
  return prompt;
}

double sample(const std::string& exposition, const std::string& name_and_labels) {
  const std::size_t at = exposition.find("\n" + name_and_labels + " ");
  if (at == std::string::npos) return -1;
  return std::stod(exposition.substr(at + 1 + name_and_labels.size()));
}

}  // namespace quire::engine::test
