// Architectures of GGUF files: what their metadata keys mean in the words of a Hugging Face config.json, and what their tensors are called
// there. Tables alone; gguf_config.cc and gguf_weights.cc read them, docs/GGUF.md shows them.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace quire::model {

enum class GgufKeyFate : std::uint8_t {
  kField,     // a number of config.json, under `field`
  kRequired,  // the same, and a file without it is refused
  kWindow,    // the same; 0 says that there is none
  kLayerWindows,  // `field`, one number; or an array with a flag for each layer, which makes layer_types
  kHeadDim,   // must be the size of a head
  kRope,      // how rotary frequencies are scaled: several keys together make rope_scaling
  kNeutral,   // would change numerics: only the values of `neutral`, under which it does nothing, are accepted
  kIgnorable, // changes nothing in a forward pass
};

struct GgufKey {
  std::string_view key;  // behind "<architecture>."
  GgufKeyFate fate = GgufKeyFate::kIgnorable;
  std::string_view field = {};    // of config.json
  std::string_view neutral = {};  // a JSON list of values
};

// A tensor's name without ".weight" or ".bias".
struct GgufTensorName {
  std::string_view ours;  // behind "model.layers.<n>.", or the whole stem
  std::string_view gguf;  // behind "blk.<n>.", or the whole stem
};

// A tensor whose presence says what a config.json says by a field that is true.
struct GgufFlagTensor {
  std::string_view tensor, field;
};

// How the rows of q and k lie in the file: as the model was trained, or each head's two halves alternating (row 2i is ours i, row 2i + 1 is
// ours i + head_dim / 2), for rotary embedding that turns neighbours.
enum class GgufQkRows : std::uint8_t { kPlain, kAlternating };

struct GgufArchitecture {
  std::string_view name;          // value of general.architecture
  std::string_view architecture;  // config.json's, "LlamaForCausalLM"
  std::string_view model_type;
  GgufQkRows qk_rows = GgufQkRows::kPlain;
  std::span<const GgufKey> keys;             // beside gguf_shared_keys()
  std::span<const GgufTensorName> tensors;   // beside gguf_shared_tensors()
  std::span<const GgufFlagTensor> flags = {};
  // config.json's names instead of the two above where attention.sliding_window is above 0; "": they stay.
  std::string_view windowed_architecture = {}, windowed_model_type = {};
  bool absent_window_is_none = false;     // without the key there is no window, whatever a config.json without the field means
  // Scores are scaled by the head's size (query_pre_attn_scalar), which the files leave out; by hidden_size / heads in a model of so many layers. 0: not stated.
  std::int64_t wide_scalar_layers = 0;
};

[[nodiscard]] std::span<const GgufArchitecture> gguf_architectures();
[[nodiscard]] const GgufArchitecture* gguf_architecture(std::string_view name);           // nullptr: not known
[[nodiscard]] const GgufArchitecture* gguf_architecture_of(std::string_view architecture);  // by config.json's name
[[nodiscard]] std::span<const GgufKey> gguf_shared_keys();
[[nodiscard]] std::span<const GgufTensorName> gguf_shared_tensors();

// The name in the file of a parameter ("model.layers.0.self_attn.q_proj.weight" -> "blk.0.attn_q.weight"); "": it has none there.
[[nodiscard]] std::string gguf_tensor_name(const GgufArchitecture& architecture, std::string_view parameter);

// Divisors of the rotary frequencies, [head_dim / 2]; Llama 3.1's scaling comes this way.
inline constexpr std::string_view kGgufRopeFactors = "rope_freqs.weight";

// docs/GGUF.md.
[[nodiscard]] std::string gguf_markdown();

}  // namespace quire::model
