#include "api/choice.h"

#include <algorithm>
#include <utility>

namespace quire::api {
Choice::Choice(const ChoiceSpec& spec, const std::vector<TokenId>& prompt)
    : spec_(spec),
      detokenizer_(spec.tokenizer, prompt, spec.special_tokens),
      matcher_(spec.stops, spec.include_stop ? StopMatcher::Keep::kInclude : StopMatcher::Keep::kExclude) {}

Choice::After Choice::on_token(const engine::TokenEvent& event) {
  if (finished_ || spec_.discard_output) return After::kGoOn;
  if (end_token_ && push_text(*std::exchange(end_token_, std::nullopt))) return After::kFinish;
  ++num_tokens_;
  delta_.tokens.push_back(event.token);
  if (event.logprobs) delta_.logprobs.push_back(*event.logprobs);
  if (std::ranges::find(spec_.end_tokens, event.token) != spec_.end_tokens.end()) {
    end_token_ = event.token;
    return After::kGoOn;
  }
  return push_text(event.token) ? After::kFinish : After::kGoOn;
}

bool Choice::push_text(TokenId token) { return match(detokenizer_.push(token)); }

bool Choice::match(const std::string& piece) {
  StopMatcher::Step step = matcher_.push(piece, num_tokens_ > spec_.min_tokens ? StopMatcher::Armed::kYes : StopMatcher::Armed::kNo);
  delta_.text += step.text;
  if (step.stop < 0) return false;
  finished_ = true;
  finish_reason_ = "stop";
  stop_reason_ = matcher_.stop(step.stop);
  return true;
}

void Choice::on_finish(const engine::FinishEvent& event) {
  num_cached_tokens_ = event.num_cached_tokens;
  if (finished_) return;
  if (!spec_.discard_output) {
    const bool ended_by_token = end_token_ && event.reason == FinishReason::kStop;
    if (end_token_ && (!ended_by_token || spec_.include_stop) && push_text(*end_token_)) return;
    if (match(detokenizer_.finish())) return;
    delta_.text += matcher_.flush();
  }
  finished_ = true;
  error_ = event.error;
  if (event.reason == FinishReason::kError && !error_) error_ = Error{ErrorCode::kInternal, "the request failed", {}};
  finish_reason_ = spec_.discard_output && event.reason == FinishReason::kStop ? "length" : finish_reason_name(event.reason);
  if (event.stop_token && !spec_.discard_output) stop_reason_ = *event.stop_token;
}

}  // namespace quire::api
