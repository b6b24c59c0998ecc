#include "api/script_executor.h"

#include <cmath>
#include <utility>

namespace quire::api::test {

void Script::play(std::vector<TokenId> tokens) {
  const std::scoped_lock lock(mutex_);
  tokens_ = std::move(tokens);
  repeat_ = false;
}

void Script::repeat(std::vector<TokenId> tokens) {
  const std::scoped_lock lock(mutex_);
  tokens_ = std::move(tokens);
  repeat_ = true;
}

void Script::rotate_by_seed() {
  const std::scoped_lock lock(mutex_);
  rotate_ = true;
}

void Script::hold() {
  const std::scoped_lock lock(mutex_);
  permits_ = 0;
}

void Script::allow(int num_steps) {
  const std::scoped_lock lock(mutex_);
  permits_ = std::max<std::int64_t>(permits_, 0) + num_steps;
  changed_.notify_all();
}

void Script::allow_all() {
  const std::scoped_lock lock(mutex_);
  permits_ = -1;
  changed_.notify_all();
}

void Script::fail_next_step() {
  const std::scoped_lock lock(mutex_);
  fail_ = true;
}

void Script::leave_no_token_after(std::int32_t num_tokens, std::uint64_t seed) {
  const std::scoped_lock lock(mutex_);
  dead_end_ = num_tokens;
  dead_end_seed_ = seed;
}

TokenLogprobs Script::scores(std::int32_t place, TokenId token, std::int32_t top_k) {
  TokenLogprobs out;
  out.token = token;
  const float best = -0.01f - 0.001f * static_cast<float>(place % 7) - 1e-7f * static_cast<float>(token);
  const bool argmax = is_argmax(place, token);
  out.rank = argmax ? 1 : 2;
  out.logprob = argmax ? best : best - 0.5f;
  // Others around the token, most likely first.
  const TokenId other = 3 + (token + 11) % 500;
  if (top_k > 0) out.top.emplace_back(argmax ? token : other, best);
  if (top_k > 1) out.top.emplace_back(argmax ? other : token, best - 0.5f);
  for (std::int32_t i = 2; i < top_k; ++i) out.top.emplace_back(3 + (token + 17 * i) % 500, i == 3 ? -INFINITY : best - static_cast<float>(i));
  return out;
}

Result<StepResult> ScriptExecutor::collect() {
  const StepPlan plan = std::move(plans_.front());
  plans_.pop_front();
  std::unique_lock lock(script_->mutex_);
  script_->changed_.wait(lock, [this] { return script_->permits_ != 0; });
  if (script_->permits_ > 0) --script_->permits_;
  for (const StateUpload& upload : plan.uploads) rows_[upload.row] = upload;
  if (std::exchange(script_->fail_, false)) return Error{ErrorCode::kInternal, "the device is on fire", {}};
  StepResult result;
  result.step_id = plan.step_id;
  for (const RowPlan& row : plan.rows) result.rows.push_back(run_row(row));
  return result;
}

RowResult ScriptExecutor::run_row(const RowPlan& plan) {
  const StateUpload& state = rows_.at(plan.row);
  const SamplingParams& sampling = *state.sampling;
  RowResult out;
  out.request = plan.request;
  if (plan.scores_prompt)
    for (std::int32_t p = plan.num_computed + 1; p <= plan.num_computed + plan.num_new && p < state.num_prompt_tokens; ++p)
      out.prompt_logprobs.push_back(Script::scores(p, state.tokens[static_cast<std::size_t>(p)], sampling.prompt_logprobs.value_or(0)));
  if (!plan.samples) return out;
  if (plan.output_index == script_->dead_end_ && sampling.seed == script_->dead_end_seed_) {
    out.failure = invalid("output token " + std::to_string(plan.output_index) + ": the parameters leave no token to choose");
    return out;
  }
  const std::size_t length = script_->tokens_.size();
  std::size_t place = static_cast<std::size_t>(plan.output_index);
  if (script_->rotate_ && !sampling.greedy()) place += sampling.seed % std::max<std::size_t>(length, 1);
  const bool over = length == 0 || (!script_->repeat_ && static_cast<std::size_t>(plan.output_index) >= length);
  out.token = over ? end_ : script_->tokens_[place % length];
  if (sampling.logprobs) out.logprobs = Script::scores(state.num_prompt_tokens + plan.output_index, *out.token, *sampling.logprobs);
  return out;
}

}  // namespace quire::api::test
