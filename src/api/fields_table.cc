// The rows of fields.h and nothing else. Ranges are vLLM's.
#include <array>

#include "api/fields.h"

namespace quire::api {
namespace {

using enum FieldType;
using enum Fate;

constexpr unsigned kGenerate = kCompletions | kChat;
constexpr unsigned kAll = kCompletions | kChat | kTokenize | kDetokenize;
constexpr double kInt32Max = 2147483647.0;

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
    FieldRule{.name = "temperature", .endpoints = kGenerate, .type = kNumber, .text = "0 or more", .low = 0},
    FieldRule{.name = "top_p", .endpoints = kGenerate, .type = kNumber, .text = "above 0 and at most 1", .low = 0, .high = 1, .low_open = true},
    FieldRule{.name = "top_k", .endpoints = kGenerate, .type = kInteger, .text = "-1 or 0 (off), or 1 and more", .low = -1, .high = kInt32Max},
    FieldRule{.name = "min_p", .endpoints = kGenerate, .type = kNumber, .text = "from 0 to 1", .low = 0, .high = 1},
    FieldRule{.name = "presence_penalty", .endpoints = kGenerate, .type = kNumber, .text = "from -2 to 2", .low = -2, .high = 2},
    FieldRule{.name = "frequency_penalty", .endpoints = kGenerate, .type = kNumber, .text = "from -2 to 2", .low = -2, .high = 2},
    FieldRule{.name = "repetition_penalty", .endpoints = kGenerate, .type = kNumber, .text = "above 0", .low = 0, .low_open = true},
    FieldRule{.name = "seed", .endpoints = kGenerate, .type = kInteger, .text = "a 64-bit signed integer"},
    FieldRule{.name = "logit_bias", .endpoints = kGenerate, .type = kObject},
    FieldRule{.name = "allowed_token_ids", .endpoints = kGenerate, .type = kIntegers},
    FieldRule{.name = "bad_words", .endpoints = kGenerate, .type = kStrings},
    // When it ends.
    FieldRule{.name = "max_tokens", .endpoints = kGenerate, .type = kInteger, .text = "1 or more (0 only with echo)", .low = 0, .high = kInt32Max},
    FieldRule{.name = "max_completion_tokens", .endpoints = kChat, .type = kInteger, .text = "1 or more", .low = 0, .high = kInt32Max},
    FieldRule{.name = "min_tokens", .endpoints = kGenerate, .type = kInteger, .text = "0 or more", .low = 0, .high = kInt32Max},
    FieldRule{.name = "stop", .endpoints = kGenerate, .type = kStrings, .cap = Cap::kMaxStops},
    FieldRule{.name = "stop_token_ids", .endpoints = kGenerate, .type = kIntegers},
    FieldRule{.name = "ignore_eos", .endpoints = kGenerate, .type = kBool},
    FieldRule{.name = "include_stop_str_in_output", .endpoints = kGenerate, .type = kBool},
    // What is shown of it.
    FieldRule{.name = "logprobs", .endpoints = kCompletions, .type = kInteger, .text = "0 or more", .low = -1, .cap = Cap::kMaxLogprobs},
    FieldRule{.name = "logprobs", .endpoints = kChat, .type = kBool},
    FieldRule{.name = "top_logprobs", .endpoints = kChat, .type = kInteger, .text = "0 or more", .low = -1, .cap = Cap::kMaxLogprobs},
    FieldRule{.name = "prompt_logprobs", .endpoints = kGenerate, .type = kInteger, .text = "0 or more", .low = -1, .cap = Cap::kMaxLogprobs},
    FieldRule{.name = "skip_special_tokens", .endpoints = kGenerate, .type = kBool},
    FieldRule{.name = "return_tokens_as_token_ids", .endpoints = kGenerate, .type = kBool},
    FieldRule{.name = "return_token_ids", .endpoints = kGenerate, .type = kBool},
    FieldRule{.name = "return_token_strs", .endpoints = kTokenize, .type = kBool},
    // How text becomes tokens.
    FieldRule{.name = "add_special_tokens", .endpoints = kAll, .type = kBool},
    FieldRule{.name = "truncate_prompt_tokens", .endpoints = kGenerate, .type = kInteger, .text = "-1 (the context length) or 1 and more", .low = -1, .high = kInt32Max},
    FieldRule{.name = "add_generation_prompt", .endpoints = kChat | kTokenize, .type = kBool},
    FieldRule{.name = "continue_final_message", .endpoints = kChat | kTokenize, .type = kBool},
    FieldRule{.name = "chat_template_kwargs", .endpoints = kChat | kTokenize, .type = kObject},
    FieldRule{.name = "documents", .endpoints = kChat, .type = kArray},
    FieldRule{.name = "reasoning_effort", .endpoints = kChat, .type = kString},
    FieldRule{.name = "tools", .endpoints = kChat | kTokenize, .type = kArray},
    FieldRule{.name = "tool_choice", .endpoints = kChat, .type = kAny},
    FieldRule{.name = "response_format", .endpoints = kGenerate, .type = kObject},
    // How it is run.
    FieldRule{.name = "priority", .endpoints = kGenerate, .type = kInteger, .text = "a 32-bit integer", .low = -2147483648.0, .high = kInt32Max},
    FieldRule{.name = "cache_salt", .endpoints = kGenerate, .type = kString},
    FieldRule{.name = "request_id", .endpoints = kGenerate, .type = kString},

    FieldRule{.name = "best_of", .endpoints = kCompletions, .type = kInteger, .text = "1 (samples are not ranked; use n)", .low = 1, .high = 1},
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
    FieldRule{.name = "stream_interval", .endpoints = kGenerate, .type = kInteger, .fate = kNoEffect},
    FieldRule{.name = "session_id", .endpoints = kGenerate, .type = kAny, .fate = kNoEffect},

    FieldRule{.name = "suffix", .endpoints = kCompletions, .fate = kNotBuilt, .text = "text after the completion is not supported"},
    FieldRule{.name = "prompt_embeds", .endpoints = kCompletions, .fate = kNotBuilt, .text = "prompts are text or token ids"},
    FieldRule{.name = "use_beam_search", .endpoints = kGenerate, .fate = kNotBuilt, .text = "beam search is not built"},
    FieldRule{.name = "structured_outputs", .endpoints = kGenerate, .fate = kNotBuilt, .text = "structured output is not built yet"},
    FieldRule{.name = "guided_json", .endpoints = kGenerate, .fate = kNotBuilt, .text = "structured output is not built yet"},
    FieldRule{.name = "guided_regex", .endpoints = kGenerate, .fate = kNotBuilt, .text = "structured output is not built yet"},
    FieldRule{.name = "guided_choice", .endpoints = kGenerate, .fate = kNotBuilt, .text = "structured output is not built yet"},
    FieldRule{.name = "guided_grammar", .endpoints = kGenerate, .fate = kNotBuilt, .text = "structured output is not built yet"},
    FieldRule{.name = "guided_decoding_backend", .endpoints = kGenerate, .fate = kNoEffect},  // the other guided_* fields decide
    FieldRule{.name = "guided_whitespace_pattern", .endpoints = kGenerate, .fate = kNoEffect},
    FieldRule{.name = "structural_tag", .endpoints = kGenerate, .fate = kNotBuilt, .text = "structured output is not built yet"},
    FieldRule{.name = "logits_processors", .endpoints = kGenerate, .fate = kNotBuilt, .text = "code from a request is never run"},
    FieldRule{.name = "logprob_token_ids", .endpoints = kGenerate, .fate = kNotBuilt, .text = "log-probabilities of chosen ids are not built yet"},
    FieldRule{.name = "truncation_side", .endpoints = kGenerate, .fate = kUsed, .text = "\"left\""},
    FieldRule{.name = "kv_transfer_params", .endpoints = kGenerate, .fate = kNotBuilt, .text = "KV transfer between servers is not built"},
    FieldRule{.name = "vllm_xargs", .endpoints = kGenerate, .fate = kNotBuilt, .text = "there are no plug-ins that could read it"},
    FieldRule{.name = "thinking_token_budget", .endpoints = kGenerate, .fate = kNotBuilt, .text = "thinking budgets are not built"},
    FieldRule{.name = "chat_template", .endpoints = kChat | kTokenize, .fate = kNotBuilt, .text = "templates come from the server's disk only (--chat-template)"},
    FieldRule{.name = "mm_processor_kwargs", .endpoints = kGenerate, .fate = kNotBuilt, .text = "this model reads text alone"},
    FieldRule{.name = "audio", .endpoints = kChat, .fate = kNotBuilt, .text = "this model writes text alone"},
    FieldRule{.name = "modalities", .endpoints = kChat, .type = kStrings},
    FieldRule{.name = "web_search_options", .endpoints = kChat, .fate = kNotBuilt, .text = "there is no web search"},
    FieldRule{.name = "prediction", .endpoints = kChat, .fate = kNoEffect},  // a hint for speed
    FieldRule{.name = "verbosity", .endpoints = kChat, .fate = kNotBuilt, .text = "this model has no such control"},
    FieldRule{.name = "functions", .endpoints = kChat, .fate = kNotBuilt, .text = "calling of functions is not built yet"},
    FieldRule{.name = "function_call", .endpoints = kChat, .fate = kNotBuilt, .text = "calling of functions is not built yet"},
};

}  // namespace

std::span<const FieldRule> field_rules() { return kRules; }

}  // namespace quire::api
