// How a checkpoint's matrices are quantised, after every way of writing it down has been read: one scheme for each linear layer. Plain
// data: knows no file, no tensor and no kernel.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quire::model {

// An FP8 e4m3 cache with static, symmetric scales: the only kind there is. No scheme (nullopt wherever one may stand): nothing about the
// cache is declared.
struct KvScheme {
  enum class Granularity : std::uint8_t { kTensor, kHead };
  Granularity granularity = Granularity::kTensor;  // one scale for a layer's keys (values), or one for each KV head
  std::string declared_by;                         // the field and what it says, for messages: kv_cache_scheme = "static"
  friend bool operator==(const KvScheme&, const KvScheme&) = default;
};

// What a weight [n, k] of FP8 e4m3 is multiplied by. kNone: not quantised.
enum class WeightScaling : std::uint8_t {
  kNone,
  kTensor,   // one number
  kChannel,  // one for each of the n outputs
  kBlock,    // one for each block of 128 x 128, the last ones cut off: [ceil(n / 128), ceil(k / 128)]
};
inline constexpr std::int64_t kScaleBlock = 128;

// How the inputs of a quantised linear layer become FP8 e4m3.
enum class InputScaling : std::uint8_t {
  kNone,      // not at all: only the weight is quantised
  kStatic,    // by one number of the checkpoint
  kPerToken,  // by max|x| of each row, when it is known
  kPerGroup,  // the same for every 128 columns of a row
};

struct LinearScheme {
  WeightScaling weight = WeightScaling::kNone;
  InputScaling input = InputScaling::kNone;
  friend bool operator==(const LinearScheme&, const LinearScheme&) = default;
};
// "channel weights, inputs per token"; "not quantised".
[[nodiscard]] std::string scheme_text(const LinearScheme& scheme);

// The linear layers of a decoder layer, in the order of the parameter walk.
enum class LinearKind : std::uint8_t { kQ, kK, kV, kO, kGate, kUp, kDown };
inline constexpr std::size_t kNumLinears = 7;
inline constexpr std::array<std::string_view, kNumLinears> kLinearNames = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
                                                                         "mlp.gate_proj",    "mlp.up_proj",      "mlp.down_proj"};
using LayerSchemes = std::array<LinearScheme, kNumLinears>;  // by LinearKind

enum class QuantMethod : std::uint8_t { kNone, kFp8, kCompressedTensors, kQuark, kModelOpt, kFbgemmFp8, kPtpcFp8 };
// A row for each method but kNone: the one table behind messages, --quantization and docs/QUANTIZATION.md.
struct QuantMethodRow {
  QuantMethod method = QuantMethod::kNone;
  std::string_view name;     // quant_method's word
  std::string_view config;   // the fields that say how
  std::string_view weights;  // what it may ask for
  std::string_view inputs;
  std::string_view tensors;  // of a linear layer, besides .weight
  LinearScheme on_load = {}; // what --quantization makes of 16- and 32-bit matrices while they are read; not quantised: nothing, which is refused
};
[[nodiscard]] std::span<const QuantMethodRow> quant_methods();
[[nodiscard]] std::string_view quant_method_name(QuantMethod method);  // kNone: "none"
[[nodiscard]] std::optional<QuantMethod> quant_method_named(std::string_view name);
// docs/QUANTIZATION.md.
[[nodiscard]] std::string quantization_markdown();

struct QuantSpec {
  QuantMethod method = QuantMethod::kNone;
  std::string declared_by;           // the field that names the method, for messages; "": none does
  bool on_load = false;              // the checkpoint holds 16-bit matrices, and they are quantised while they are read
  std::vector<LayerSchemes> layers;  // [num_layers]; empty: no matrix is quantised. The output matrix and embeddings never are
  std::optional<KvScheme> kv;        // what the checkpoint declares about its KV cache
  std::vector<std::string> notes;    // what is computed in another way than the file's words say, and why

  [[nodiscard]] LinearScheme scheme_of(std::int32_t layer, LinearKind kind) const {
    return layers.empty() ? LinearScheme{} : layers.at(static_cast<std::size_t>(layer)).at(static_cast<std::size_t>(kind));
  }
  [[nodiscard]] bool any_fp8_weight() const;
  // "fp8: 42 of 42 linear layers, tensor weights, static inputs"; a kind of scheme after another where they differ; "none".
  [[nodiscard]] std::string summary() const;
};

// Names of a quantised linear layer's scales, behind its own name and a dot.
[[nodiscard]] std::string_view weight_scale_name(QuantMethod method, WeightScaling scaling);  // "weight_scale", "weight_scale_inv"
inline constexpr std::string_view kInputScaleName = "input_scale";

}  // namespace quire::model
