// One choice of an answer: the engine's events of one sequence become text, log-probabilities and a finish, in pieces. Streamed
// and whole answers both come from take(), so that joined pieces equal the whole. Owned by one Generation; single-threaded.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "api/stop_matcher.h"
#include "engine/request.h"
#include "text/tokenizer.h"

namespace quire::api {

struct ChoiceSpec {
  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::vector<std::string> stops;
  bool include_stop = false;          // stop strings and end tokens stay in the text
  text::SpecialTokens special_tokens = text::SpecialTokens::kSkip;  // in the text
  std::int32_t min_tokens = 0;        // stop strings count from the token after these
  std::vector<TokenId> end_tokens;    // the engine ends at these
  bool discard_output = false;        // echo with max_tokens 0: the one token made is dropped
};

// What is new since the last take(). Text and tokens of one delta need not cover each other: text may be held back.
struct Delta {
  std::string text;
  std::vector<TokenId> tokens;
  std::vector<TokenLogprobs> logprobs;  // parallel to tokens when asked for
  [[nodiscard]] bool empty() const { return text.empty() && tokens.empty(); }
};

class Choice {
 public:
  Choice(const ChoiceSpec& spec, const std::vector<TokenId>& prompt);

  enum class After : unsigned char { kGoOn, kFinish };  // kFinish: a stop string ended it; the engine need not go on
  [[nodiscard]] After on_token(const engine::TokenEvent& event);
  void on_prompt_logprobs(engine::PromptLogprobsEvent event) { prompt_logprobs_ = std::move(event.entries); }
  void on_finish(const engine::FinishEvent& event);

  [[nodiscard]] bool finished() const { return finished_; }
  [[nodiscard]] const std::string& finish_reason() const { return finish_reason_; }  // "stop", "length", "abort"
  // monostate: an end token of the model, a length or an abort.
  [[nodiscard]] const std::variant<std::monostate, std::string, TokenId>& stop_reason() const { return stop_reason_; }
  [[nodiscard]] const std::optional<Error>& error() const { return error_; }
  [[nodiscard]] std::int32_t num_tokens() const { return num_tokens_; }
  [[nodiscard]] std::int32_t num_cached_tokens() const { return num_cached_tokens_; }
  [[nodiscard]] const std::vector<TokenLogprobs>& prompt_logprobs() const { return prompt_logprobs_; }
  [[nodiscard]] Delta take() { return std::exchange(delta_, {}); }
  [[nodiscard]] const Delta& pending() const { return delta_; }

 private:
  [[nodiscard]] bool push_text(TokenId token);
  [[nodiscard]] bool match(const std::string& piece);

  ChoiceSpec spec_;
  text::IncrementalDetokenizer detokenizer_;
  StopMatcher matcher_;
  std::optional<TokenId> end_token_;  // arrived, its text waits for the engine's verdict
  Delta delta_;
  std::vector<TokenLogprobs> prompt_logprobs_;
  std::int32_t num_tokens_ = 0, num_cached_tokens_ = 0;
  bool finished_ = false;
  std::string finish_reason_;
  std::variant<std::monostate, std::string, TokenId> stop_reason_;
  std::optional<Error> error_;
};

}  // namespace quire::api
