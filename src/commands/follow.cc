#include "commands/follow.h"

#include <algorithm>
#include <chrono>

namespace quire::commands {
namespace {

constexpr std::chrono::milliseconds kPoll(50), kWait(1000);

}  // namespace

std::vector<TokenId> end_tokens(const SamplingParams& sampling) {
  std::vector<TokenId> ends = sampling.eos_token_ids;
  ends.insert(ends.end(), sampling.stop_token_ids.begin(), sampling.stop_token_ids.end());
  return ends;
}

Result<Followed> follow(EventWait events, text::IncrementalDetokenizer& detokenizer, const std::vector<TokenId>& ends, const Following& how) {
  Followed out;
  const auto show = [&](const std::string& piece) {
    out.text += piece;
    return piece.empty() ? Result<Reader>(Reader::kThere) : how.show(piece);
  };
  for (;;) {
    if (how.stopped && how.stopped()) return out;
    const auto came = events.next(how.stopped ? kPoll : kWait);
    if (!came.ok()) return came.error();
    for (const engine::AddressedEvent& e : came.value()) {
      Result<Reader> reader = Reader::kThere;
      if (const auto* token = std::get_if<engine::TokenEvent>(&e.event)) {
        if (std::find(ends.begin(), ends.end(), token->token) == ends.end()) reader = show(detokenizer.push(token->token));
      } else if (const auto* finish = std::get_if<engine::FinishEvent>(&e.event)) {
        reader = show(detokenizer.finish());
        out.finish = *finish;
      }
      if (!reader.ok()) return reader.error();
      if (out.finish.has_value() && out.finish->error.has_value()) return *out.finish->error;
      if (out.finish.has_value() || reader.value() == Reader::kGone) return out;
    }
  }
}

}  // namespace quire::commands
