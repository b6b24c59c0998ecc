// What the suites of the forward pass share: the steps that they run, and the comparisons with the float64 model and between recorded and eager.
#pragma once
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

#include "model_layers/layers_rig.h"

namespace quire::test {

[[nodiscard]] std::vector<std::vector<TokenId>> random_sequences(const model::ModelSpec& spec, std::initializer_list<std::size_t> lengths, std::mt19937_64& rng);

// Eager steps over prompts whole, in chunks and decoding, mixed: every token's logits against the float64 model.
void check_forward(const LayersCase& c, const std::string& what);

// Recorded once for the largest step; replayed with other lengths, tables and token counts, padding everywhere else: the bits of eager steps,
// in the logits and in the cache.
void check_replays(LayersCase c, const std::string& what);

}  // namespace quire::test
