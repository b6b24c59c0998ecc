// One request's events from the engine as text, while it runs. Shared by the commands that answer in this process.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "commands/console.h"
#include "commands/event_wait.h"
#include "scheduler/sampling_params.h"
#include "text/tokenizer.h"

namespace quire::commands {

using ShowPiece = std::function<Result<Reader>(const std::string& piece)>;

struct Following {
  ShowPiece show;                         // each piece of text; kGone ends the following
  std::function<bool()> stopped = {};     // asked some times a second; true ends the following. Unset: never
};

struct Followed {
  std::string text;
  std::optional<engine::FinishEvent> finish;  // nullopt: nobody reads any more, or it was stopped; the request still runs
};

// The tokens that end an answer and are no part of its text.
[[nodiscard]] std::vector<TokenId> end_tokens(const SamplingParams& sampling);

// Errors: the request failed, a piece could not be shown, or the engine is stuck (event_wait.h).
[[nodiscard]] Result<Followed> follow(EventWait events, text::IncrementalDetokenizer& detokenizer, const std::vector<TokenId>& ends, const Following& how);

}  // namespace quire::commands
