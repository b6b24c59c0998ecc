// The fields of a checked request that say how one sequence is generated, mapped to the engine's SamplingParams. Pure.
#pragma once
#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/fields.h"
#include "api/logprobs.h"
#include "api/model.h"
#include "base/result.h"
#include "config/resolved.h"
#include "scheduler/sampling_params.h"

namespace quire::api {

// max_tokens is settled by fit_max_tokens, for one prompt's length; bad words come with finish_sampling.
struct SamplingRequest {
  SamplingParams params;
  bool seed_given = false;
  std::int32_t n = 1;
  std::optional<std::int64_t> max_tokens;    // as asked; nullopt: the rest of the context
  std::string_view max_tokens_field = "max_tokens";  // the request's name for it
  std::vector<std::string> stops;
  bool include_stop = false;
  text::SpecialTokens special_tokens = text::SpecialTokens::kSkip;
  TokenSpelling spelling = TokenSpelling::kText;  // of tokens in log-probabilities
  bool return_token_ids = false;
  bool show_prompt_logprobs = false;         // the request's own prompt_logprobs
  std::int32_t priority = 0;
};

// `request` has passed check_fields. Everything that needs no text.
[[nodiscard]] Result<SamplingRequest> read_sampling(const boost::json::object& request, Endpoint endpoint, const Model& model,
                                                    const config::ApiSettings& settings);

// The rest: bad words become tokens (slow where there are some), and what all lists come to together is checked: their size, and that
// they leave a token to choose as far as can be told before the first one.
[[nodiscard]] Status finish_sampling(const boost::json::object& request, const Model& model, SamplingRequest& out);

// max_tokens for a prompt of `num_prompt_tokens`: what was asked, else the rest of the context, bounded by generation_config's
// max_new_tokens. Errors when prompt and output do not fit; param: "input_tokens" where a shorter input would, else the length's field.
[[nodiscard]] Result<std::int32_t> fit_max_tokens(const SamplingRequest& sampling, std::int64_t num_prompt_tokens, const Model& model,
                                                  const config::ApiSettings& settings);

// The token sequences that the request's bad words stand for: as written, and with a space before it where that gives another
// first token and as many tokens (vLLM's rule).
[[nodiscard]] Result<std::vector<std::vector<TokenId>>> map_bad_words(const boost::json::object& request, const Model& model);

}  // namespace quire::api
