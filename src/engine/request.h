// The engine's native request and the events that come back. Token ids only: text lives in api/.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "scheduler/sampling_params.h"
#include "scheduler/scheduler.h"

namespace quire::engine {

// The n samples of one prompt, for the metrics that count prompts (params_n, longest sample). Shared by their requests; only
// the engine touches it after submission. A sample that submit() refuses leaves the group incomplete, and uncounted.
struct SampleGroup {
  explicit SampleGroup(std::int32_t num_samples) : n(num_samples) {}
  const std::int32_t n;
  std::int32_t num_ended = 0, max_output_tokens = 0;
};

// One sequence to generate. `n` samples or several prompts are several requests; api joins them.
struct GenerateRequest {
  std::vector<TokenId> prompt;
  SamplingParams sampling;
  std::int32_t priority = 0;
  std::string cache_namespace;           // from the credential and cache_salt; prefix blocks never cross namespaces
  std::string client_id;                 // for logs: the response id the client sees, e.g. "cmpl-...-0"
  std::shared_ptr<SampleGroup> samples;  // null: the only sample of its prompt
  // Who knows how the answer ended. kCaller: the caller looks for stop strings, so an end by length stays uncounted until it says,
  // by Engine::finish() or Engine::settle(), whether the last tokens' text held one.
  enum class EndKnownBy : unsigned char { kEngine, kCaller } end_known_by = EndKnownBy::kEngine;
};

struct TokenEvent {
  TokenId token = 0;
  std::optional<TokenLogprobs> logprobs;
};
// Complete, in order, before the first TokenEvent. Entry i describes prompt token i + 1.
struct PromptLogprobsEvent {
  std::vector<TokenLogprobs> entries;
};
// The terminal event; exactly one per submitted request, whatever happens.
struct FinishEvent {
  FinishReason reason = FinishReason::kStop;
  std::optional<TokenId> stop_token;
  std::optional<Error> error;  // kError, or kAbort by timeout or shutdown
  std::int32_t num_prompt_tokens = 0;
  std::int32_t num_cached_tokens = 0;
  std::int32_t num_output_tokens = 0;
};
using RequestEvent = std::variant<PromptLogprobsEvent, TokenEvent, FinishEvent>;

// kNo: an end by length of a request whose end the caller knows; counted when the caller has said how it ended.
enum class Settled : unsigned char { kNo, kYes };
struct EndedRequest {
  RequestId id;
  Settled settled = Settled::kYes;
};

struct AddressedEvent {
  RequestId id;
  RequestEvent event;
};

}  // namespace quire::engine
