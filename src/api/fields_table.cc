// The rows of fields.h and nothing else. Ranges are vLLM's.
#include <array>

#include "api/fields.h"
#include "base/sampling_ranges.h"

namespace quire::api {
namespace {

using enum FieldType;
using enum Fate;

constexpr unsigned kGenerate = kCompletions | kChat;
constexpr unsigned kAll = kCompletions | kChat | kTokenize | kDetokenize;
constexpr std::string_view kNoStructure = "structured output is not built yet";
using sampling_range::kInt32Max;

constexpr FieldRule sampling(const SamplingRange& range, unsigned endpoints = kGenerate, std::string_view name = {}) {
  return {.name = name.empty() ? range.name : name,
          .endpoints = endpoints,
          .type = range.number == SamplingRange::Number::kInteger ? kInteger : kNumber,
          .text = range.text,
          .low = range.low,
          .high = range.high,
          .low_open = range.low_end == SamplingRange::LowEnd::kLeftOut};
}

constexpr std::array kRules = {
    // What to answer.
    FieldRule{.name = "model", .endpoints = kAll, .type = kString},
    FieldRule{.name = "prompt", .endpoints = kCompletions | kTokenize, .type = kAny},
    FieldRule{.name = "messages", .endpoints = kChat | kTokenize, .type = kArray},
    FieldRule{.name = "tokens", .endpoints = kDetokenize, .type = kIntegers},
    FieldRule{.name = "stream", .endpoints = kGenerate, .type = kBool},
    FieldRule{.name = "stream_options", .endpoints = kGenerate, .type = kObject},
    FieldRule{.name = "n", .endpoints = kGenerate, .type = kInteger, .text = "at least 1", .low = 1, .cap = Cap::kMaxN},
    FieldRule{.name = "echo", .endpoints = kGenerate, .type = kBool},
    // How tokens are chosen.
    sampling(sampling_range::kTemperature),
    sampling(sampling_range::kTopP),
    sampling(sampling_range::kTopK),
    sampling(sampling_range::kMinP),
    sampling(sampling_range::kPresencePenalty),
    sampling(sampling_range::kFrequencyPenalty),
    sampling(sampling_range::kRepetitionPenalty),
    FieldRule{.name = "seed", .endpoints = kGenerate, .type = kInteger, .text = "-9223372036854775808 to 9223372036854775807"},
    FieldRule{.name = "logit_bias", .endpoints = kGenerate, .type = kObject},
    FieldRule{.name = "allowed_token_ids", .endpoints = kGenerate, .type = kIntegers},
    FieldRule{.name = "bad_words", .endpoints = kGenerate, .type = kStrings},
    // When it ends.
    sampling(sampling_range::kMaxTokensOrEcho, kCompletions),
    sampling(sampling_range::kMaxTokens, kChat),
    sampling(sampling_range::kMaxTokens, kChat, "max_completion_tokens"),
    FieldRule{.name = "min_tokens", .endpoints = kGenerate, .type = kInteger, .text = "0 to 2147483647", .low = 0, .high = kInt32Max},
    FieldRule{.name = "stop", .endpoints = kGenerate, .type = kStrings, .cap = Cap::kMaxStops},
    FieldRule{.name = "stop_token_ids", .endpoints = kGenerate, .type = kIntegers},
    FieldRule{.name = "ignore_eos", .endpoints = kGenerate, .type = kBool},
    FieldRule{.name = "include_stop_str_in_output", .endpoints = kGenerate, .type = kBool},
    // What is shown of it.
    FieldRule{.name = "logprobs", .endpoints = kCompletions, .type = kInteger, .text = "0 or more, or -1 (the whole vocabulary)", .low = -1, .cap = Cap::kMaxLogprobs},
    FieldRule{.name = "logprobs", .endpoints = kChat, .type = kBool},
    FieldRule{.name = "top_logprobs", .endpoints = kChat, .type = kInteger, .text = "0 or more, or -1 (the whole vocabulary)", .low = -1, .cap = Cap::kMaxLogprobs},
    FieldRule{.name = "prompt_logprobs", .endpoints = kGenerate, .type = kInteger, .text = "0 or more, or -1 (the whole vocabulary)", .low = -1, .cap = Cap::kMaxLogprobs},
    FieldRule{.name = "skip_special_tokens", .endpoints = kGenerate, .type = kBool},
    FieldRule{.name = "return_tokens_as_token_ids", .endpoints = kGenerate, .type = kBool},
    FieldRule{.name = "return_token_ids", .endpoints = kGenerate, .type = kBool},
    FieldRule{.name = "return_token_strs", .endpoints = kTokenize, .type = kBool},
    // How text becomes tokens.
    FieldRule{.name = "add_special_tokens", .endpoints = kAll, .type = kBool},
    FieldRule{.name = "truncate_prompt_tokens", .endpoints = kGenerate, .type = kInteger, .text = "-1 (the context length) or 1 to 2147483647", .low = -1, .high = kInt32Max},
    FieldRule{.name = "add_generation_prompt", .endpoints = kChat | kTokenize, .type = kBool},
    FieldRule{.name = "continue_final_message", .endpoints = kChat | kTokenize, .type = kBool},
    FieldRule{.name = "chat_template_kwargs", .endpoints = kChat | kTokenize, .type = kObject},
    FieldRule{.name = "documents", .endpoints = kChat | kTokenize, .type = kArray},
    FieldRule{.name = "reasoning_effort", .endpoints = kChat | kTokenize, .type = kString},
    FieldRule{.name = "tools", .endpoints = kChat | kTokenize, .type = kArray},
    FieldRule{.name = "tool_choice", .endpoints = kChat, .type = kAny},
    FieldRule{.name = "response_format", .endpoints = kGenerate, .type = kObject},
    // How it is run.
    FieldRule{.name = "priority", .endpoints = kGenerate, .type = kInteger, .text = "-2147483648 to 2147483647", .low = -2147483648.0, .high = kInt32Max},
    FieldRule{.name = "cache_salt", .endpoints = kGenerate, .type = kString},
    FieldRule{.name = "request_id", .endpoints = kGenerate, .type = kString},

    FieldRule{.name = "best_of", .endpoints = kGenerate, .type = kInteger, .text = "1 (samples are not ranked; use n)", .low = 1, .high = 1},
    FieldRule{.name = "user", .endpoints = kGenerate, .type = kAny, .fate = kNoEffect},
    FieldRule{.name = "store", .endpoints = kGenerate, .type = kAny, .fate = kNoEffect},
    FieldRule{.name = "metadata", .endpoints = kGenerate, .type = kAny, .fate = kNoEffect},
    FieldRule{.name = "service_tier", .endpoints = kGenerate, .type = kAny, .fate = kNoEffect},
    FieldRule{.name = "safety_identifier", .endpoints = kGenerate, .type = kAny, .fate = kNoEffect},
    FieldRule{.name = "prompt_cache_key", .endpoints = kGenerate, .type = kAny, .fate = kNoEffect},
    FieldRule{.name = "parallel_tool_calls", .endpoints = kChat, .type = kAny, .fate = kNoEffect},
    FieldRule{.name = "include_reasoning", .endpoints = kChat, .type = kBool, .fate = kNoEffect},
    FieldRule{.name = "length_penalty", .endpoints = kGenerate, .type = kNumber, .fate = kNoEffect},  // beam search alone reads it
    FieldRule{.name = "early_stopping", .endpoints = kGenerate, .type = kAny, .fate = kNoEffect},
    FieldRule{.name = "spaces_between_special_tokens", .endpoints = kGenerate, .type = kBool, .fate = kNoEffect},  // slow tokenizers alone read it
    FieldRule{.name = "stream_interval", .endpoints = kGenerate, .type = kInteger, .fate = kNoEffect, .text = "1 to 2147483647", .low = 1, .high = kInt32Max},
    FieldRule{.name = "session_id", .endpoints = kGenerate, .type = kAny, .fate = kNoEffect},

    FieldRule{.name = "suffix", .endpoints = kCompletions, .fate = kNotBuilt, .text = "text after the completion is not supported"},
    FieldRule{.name = "prompt_embeds", .endpoints = kCompletions, .fate = kNotBuilt, .text = "prompts are text or token ids"},
    FieldRule{.name = "use_beam_search", .endpoints = kGenerate, .fate = kNotBuilt, .text = "beam search is not built", .nothing = Nothing::kFalse},
    FieldRule{.name = "structured_outputs", .endpoints = kGenerate, .fate = kNotBuilt, .text = kNoStructure},
    FieldRule{.name = "guided_json", .endpoints = kGenerate, .fate = kNotBuilt, .text = kNoStructure},
    FieldRule{.name = "guided_regex", .endpoints = kGenerate, .fate = kNotBuilt, .text = kNoStructure},
    FieldRule{.name = "guided_choice", .endpoints = kGenerate, .fate = kNotBuilt, .text = kNoStructure},
    FieldRule{.name = "guided_grammar", .endpoints = kGenerate, .fate = kNotBuilt, .text = kNoStructure},
    FieldRule{.name = "guided_decoding_backend", .endpoints = kGenerate, .type = kString, .fate = kNoEffect},  // the other guided_* fields decide
    FieldRule{.name = "guided_whitespace_pattern", .endpoints = kGenerate, .type = kString, .fate = kNoEffect},
    FieldRule{.name = "structural_tag", .endpoints = kGenerate, .fate = kNotBuilt, .text = kNoStructure},
    FieldRule{.name = "logits_processors", .endpoints = kGenerate, .fate = kNotBuilt, .text = "code from a request is never run", .nothing = Nothing::kEmptyList},
    FieldRule{.name = "logprob_token_ids", .endpoints = kGenerate, .fate = kNotBuilt, .text = "log-probabilities of chosen ids are not built yet"},
    FieldRule{.name = "truncation_side", .endpoints = kGenerate, .fate = kUsed, .text = "\"left\""},
    FieldRule{.name = "kv_transfer_params", .endpoints = kGenerate, .fate = kNotBuilt, .text = "KV transfer between servers is not built", .nothing = Nothing::kEmptyObject},
    FieldRule{.name = "ec_transfer_params", .endpoints = kGenerate, .fate = kNotBuilt, .text = "transfer between servers is not built", .nothing = Nothing::kEmptyObject},
    FieldRule{.name = "vllm_xargs", .endpoints = kGenerate, .fate = kNotBuilt, .text = "there are no plug-ins that could read it", .nothing = Nothing::kEmptyObject},
    FieldRule{.name = "thinking_token_budget", .endpoints = kGenerate, .fate = kNotBuilt, .text = "thinking budgets are not built"},
    FieldRule{.name = "repetition_detection", .endpoints = kGenerate, .fate = kNotBuilt, .text = "ends at repetitions are not built"},
    FieldRule{.name = "max_repetition_pattern_size", .endpoints = kGenerate, .fate = kNotBuilt, .text = "ends at repetitions are not built", .nothing = Nothing::kZero},
    FieldRule{.name = "min_repetition_pattern_size", .endpoints = kGenerate, .fate = kNotBuilt, .text = "ends at repetitions are not built", .nothing = Nothing::kZero},
    FieldRule{.name = "repetition_min_count", .endpoints = kGenerate, .fate = kNotBuilt, .text = "ends at repetitions are not built", .nothing = Nothing::kZero},
    FieldRule{.name = "watermarking", .endpoints = kGenerate, .fate = kNotBuilt, .text = "watermarks are not built", .nothing = Nothing::kFalse},
    FieldRule{.name = "return_prompt_text", .endpoints = kChat, .fate = kNotBuilt, .text = "the rendered prompt is not part of an answer; /tokenize gives its tokens", .nothing = Nothing::kFalse},
    FieldRule{.name = "return_token_offsets", .endpoints = kGenerate, .type = kBool, .fate = kNoEffect},  // vLLM's render routes alone read it, and the next
    FieldRule{.name = "return_mm_kwargs", .endpoints = kGenerate, .type = kBool, .fate = kNoEffect},
    FieldRule{.name = "routed_experts_prompt_start", .endpoints = kGenerate, .type = kInteger, .fate = kNoEffect, .text = "0 to 2147483647", .low = 0, .high = kInt32Max},
    FieldRule{.name = "chat_template", .endpoints = kChat | kTokenize, .fate = kNotBuilt, .text = "templates come from the server's disk only (--chat-template)"},
    FieldRule{.name = "mm_processor_kwargs", .endpoints = kGenerate | kTokenize, .fate = kNotBuilt, .text = "this model reads text alone", .nothing = Nothing::kEmptyObject},
    FieldRule{.name = "media_io_kwargs", .endpoints = kChat | kTokenize, .fate = kNotBuilt, .text = "this model reads text alone", .nothing = Nothing::kEmptyObject},
    FieldRule{.name = "audio", .endpoints = kChat, .fate = kNotBuilt, .text = "this model writes text alone"},
    FieldRule{.name = "modalities", .endpoints = kChat, .type = kStrings},
    FieldRule{.name = "web_search_options", .endpoints = kChat, .fate = kNotBuilt, .text = "there is no web search"},
    FieldRule{.name = "prediction", .endpoints = kChat, .fate = kNoEffect},  // a hint for speed
    FieldRule{.name = "verbosity", .endpoints = kChat, .fate = kNotBuilt, .text = "this model has no such control"},
    FieldRule{.name = "functions", .endpoints = kChat, .fate = kNotBuilt, .text = "calling of functions is not built yet", .nothing = Nothing::kEmptyList},
    FieldRule{.name = "function_call", .endpoints = kChat, .fate = kNotBuilt, .text = "calling of functions is not built yet", .nothing = Nothing::kNoneWord},
};

}  // namespace

std::span<const FieldRule> field_rules() { return kRules; }

}  // namespace quire::api
