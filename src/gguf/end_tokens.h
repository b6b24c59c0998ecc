// Tokens that end an answer in chat templates of the field. Many files of chat models name only the end of a text in their metadata, or give these
// tokens another type than control: the model would talk on after the end of its turn, and show the mark.
#pragma once
#include <algorithm>
#include <iterator>
#include <string_view>

namespace quire::gguf {

inline constexpr std::string_view kEndTokens[] = {"<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<end_of_turn>", "<|end|>", "<|endoftext|>", "<|end_of_text|>", "<end_of_utterance>"};

[[nodiscard]] constexpr bool is_end_token(std::string_view text) { return std::ranges::find(kEndTokens, text) != std::end(kEndTokens); }

}  // namespace quire::gguf
