#include "engine/request_ledger.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/check.h"
#include "base/log.h"

namespace quire::engine {
namespace {

double seconds(Clock::duration span) { return std::chrono::duration<double>(span).count(); }

Error timeout_error(const OpenRequest& request) {
  return Error{ErrorCode::kUnavailable, fmt::format("the request ran longer than the server's limit of {} s and was ended", request.timeout_seconds), "request_timeout_seconds"};
}

}  // namespace

void RequestLedger::open(RequestId id, OpenRequest request) {
  if (request.timeout_seconds > 0) {
    // A century bounds the conversion to clock ticks whatever number came in.
    const std::chrono::duration<double> limit(std::min(request.timeout_seconds, 3.2e9));
    request.deadline = request.arrival + std::chrono::duration_cast<Clock::duration>(limit);
    deadlines_.emplace(*request.deadline, id);
  }
  const bool is_new = open_.emplace(id, std::move(request)).second;
  QUIRE_CHECK(is_new) << "request " << id.value << " opened twice";
}

std::vector<RequestId> RequestLedger::ids() const {
  std::vector<RequestId> out;
  out.reserve(open_.size());
  for (const auto& [id, request] : open_) out.push_back(id);
  std::sort(out.begin(), out.end());
  return out;
}

void RequestLedger::mark_scheduled(RequestId id, Clock::time_point now) {
  const auto entry = open_.find(id);
  if (entry != open_.end() && !entry->second.scheduled) entry->second.scheduled = now;
}

bool RequestLedger::deliver(SequenceOutput output, Clock::time_point now) {
  const auto entry = open_.find(output.id);
  if (entry == open_.end()) return true;
  OpenRequest& request = entry->second;
  if (output.first_scheduled) request.num_cached_tokens = output.num_cached_tokens;
  std::move(output.prompt_logprobs.begin(), output.prompt_logprobs.end(), std::back_inserter(request.prompt_logprobs));
  if (output.token) {
    if (request.wants_prompt_logprobs && request.num_output_tokens == 0) {
      const std::size_t want = static_cast<std::size_t>(request.num_prompt_tokens) - 1, got = request.prompt_logprobs.size();
      if (got != want) {
        const std::string why = fmt::format("{} prompt log-probabilities arrived for a prompt that has {}", got, want);
        end(entry, FinishEvent{.reason = FinishReason::kError, .stop_token = {}, .error = Error{ErrorCode::kInternal, why, "prompt_logprobs"}}, now);
        return false;
      }
      emit(request, output.id, PromptLogprobsEvent{std::move(request.prompt_logprobs)});
      request.prompt_logprobs.clear();
    }
    emit_token(request, output.id, TokenEvent{*output.token, std::move(output.logprobs)}, now);
  }
  if (!output.finish) return true;
  end(entry, FinishEvent{.reason = output.finish->reason, .stop_token = output.finish->stop_token, .error = std::move(output.finish->error)}, now);
  return true;
}

void RequestLedger::finish(RequestId id, FinishReason reason, std::optional<Error> error, Clock::time_point now) {
  const auto entry = open_.find(id);
  if (entry == open_.end()) return settle(id, reason);
  end(entry, FinishEvent{.reason = reason, .stop_token = {}, .error = std::move(error)}, now);
}

void RequestLedger::settle(RequestId id, FinishReason reason) {
  const auto node = unsettled_.extract(id);
  if (node.empty()) return;
  const Unsettled& ended = node.mapped();
  FinishEvent finish = ended.finish;
  if (reason == FinishReason::kStop) finish.reason = reason;
  record_end(ended.request, finish, ended.end);
}

void RequestLedger::settle_all() {
  for (const auto& [id, ended] : unsettled_) record_end(ended.request, ended.finish, ended.end);
  unsettled_.clear();
}

std::vector<RequestId> RequestLedger::finish_expired(Clock::time_point now) {
  std::vector<RequestId> expired;
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const RequestId id = deadlines_.begin()->second;
    const auto entry = open_.find(id);
    QUIRE_CHECK(entry != open_.end()) << "deadline of an ended request " << id.value;
    expired.push_back(id);
    end(entry, FinishEvent{.reason = FinishReason::kAbort, .stop_token = {}, .error = timeout_error(entry->second)}, now);
  }
  return expired;
}

void RequestLedger::push_events() {
  for (auto& [queue, batch] : batches_) batch.queue->push(std::move(batch.events));
  batches_.clear();
}

void RequestLedger::emit(const OpenRequest& request, RequestId id, RequestEvent event) {
  Batch& batch = batches_[request.events.get()];
  if (!batch.queue) batch.queue = request.events;
  batch.events.push_back(AddressedEvent{id, std::move(event)});
}

void RequestLedger::emit_token(OpenRequest& request, RequestId id, TokenEvent token, Clock::time_point now) {
  emit(request, id, std::move(token));
  ++request.num_output_tokens;
  if (!request.first_token) {
    request.first_token = now;
    metrics_->observe_first_token(seconds(now - request.arrival), request.num_prompt_tokens);
  } else {
    metrics_->observe_next_token(seconds(now - *request.last_token));
  }
  request.last_token = now;
}

void RequestLedger::end(Entry entry, FinishEvent finish, Clock::time_point now) {
  const RequestId id = entry->first;
  const OpenRequest& request = entry->second;
  finish.num_prompt_tokens = request.num_prompt_tokens;
  finish.num_cached_tokens = request.num_cached_tokens;
  finish.num_output_tokens = request.num_output_tokens;
  if (request.deadline) deadlines_.erase({*request.deadline, id});
  const bool waits = finish.reason == FinishReason::kLength && request.end_known_by == GenerateRequest::EndKnownBy::kCaller;
  ended_.push_back({id, waits ? Settled::kNo : Settled::kYes});
  emit(request, id, finish);
  if (waits) unsettled_.emplace(id, Unsettled{std::move(entry->second), std::move(finish), now});
  else record_end(request, finish, now);
  open_.erase(entry);
}

void RequestLedger::record_end(const OpenRequest& request, const FinishEvent& finish, Clock::time_point now) {
  FinishedRequest record{.reason = finish.reason,
                         .num_prompt_tokens = request.num_prompt_tokens,
                         .num_output_tokens = request.num_output_tokens,
                         .max_tokens = request.max_tokens,
                         .e2e_seconds = seconds(now - request.arrival),
                         .queue_seconds = seconds(request.scheduled.value_or(now) - request.arrival),
                         .inference_seconds = {},
                         .prefill_seconds = {},
                         .decode_seconds = {}};
  if (request.scheduled) record.inference_seconds = seconds(request.last_token.value_or(now) - *request.scheduled);
  if (request.scheduled && request.first_token) record.prefill_seconds = seconds(*request.first_token - *request.scheduled);
  if (request.first_token) record.decode_seconds = seconds(*request.last_token - *request.first_token);
  metrics_->observe_finish(record);

  if (!request.samples) {
    metrics_->observe_samples(1, request.num_output_tokens);
  } else {
    SampleGroup& group = *request.samples;
    group.max_output_tokens = std::max(group.max_output_tokens, request.num_output_tokens);
    if (++group.num_ended == group.n) metrics_->observe_samples(group.n, group.max_output_tokens);
  }

  const auto level = finish.reason == FinishReason::kError ? spdlog::level::warn : log_ == RequestLog::kInfo ? spdlog::level::info : spdlog::level::debug;
  if (!spdlog::should_log(level)) return;
  spdlog::log(
      level,
      "request {} ended: {}{}{}, {} prompt tokens ({} cached), {} output tokens, queued {:.3f} s, prefill {:.3f} s, decode {:.3f} s, total {:.3f} s",
      request.client_id.empty() ? "-" : loggable(request.client_id), finish_reason_name(finish.reason), finish.error ? ": " : "", finish.error ? finish.error->message : "",
      request.num_prompt_tokens, request.num_cached_tokens, request.num_output_tokens, record.queue_seconds, record.prefill_seconds.value_or(0),
      record.decode_seconds.value_or(0), record.e2e_seconds);
}

}  // namespace quire::engine
