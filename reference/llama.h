// A whole model in float64, Llama or one of the families that differ from it by the values of ModelSpec: what the engine's log-probabilities are compared with. No cache, no batch, no device: every layer sees the
// whole token sequence at once.
#pragma once
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/ids.h"
#include "model/spec.h"
#include "reference/matrix.h"
#include "reference/rope.h"

namespace quire::reference {

struct LlamaOptions {
  std::int64_t max_model_len = 0;  // the served maximum length, for rope "dynamic"; 0: max_position_embeddings
  AnglePrecision angles = AnglePrecision::kExact;
  // Set: every operation's result (embedding, norms, projections, turned queries and keys, attention, gated product, residual sums,
  // logits) is rounded once to it. One sample of what an engine that keeps activations in 16 bit may lose: which roundings it makes is
  // its own affair, their size is not.
  std::optional<DType> activation_dtype = {};
  std::optional<DType> kv_dtype = {};  // set: keys (after rope) and values are rounded once to it, as a cache would store them
  DType weight_dtype = DType::kF32;    // that embedding_scale is rounded to
  std::int64_t int8_group = 0;         // inputs of every linear layer and of the output matrix are int8, so many columns to a scale; 0: they are not
  DType fp8 = DType::kFp8E4m3;         // what inputs of quantised linear layers (spec.quant) are stored as
};

class LlamaReference {
 public:
  // Gives the parameter of a Hugging Face name ("model.layers.0.self_attn.q_proj.weight"), already rounded to the served dtype; a quantised
  // weight as the numbers that it stands for. A vector (norm weight, bias) has one row; a static input scale (".input_scale", in the
  // encoding of LlamaOptions::fp8) is one number. Called once for each parameter that the spec demands; shapes are checked.
  using LoadWeight = std::function<Matrix(const std::string& name)>;

  LlamaReference(const model::ModelSpec& spec, const LoadWeight& load, const LlamaOptions& options = {});

  // Logits after each token: tokens [T] -> [T, vocab_size]. No tokens: no rows.
  [[nodiscard]] Matrix logits(std::span<const TokenId> tokens) const;

 private:
  struct Projection {
    Matrix weight;
    std::vector<double> bias;  // empty: none
    model::InputScaling input = model::InputScaling::kNone;
    double input_scale = 0.0;  // kStatic
  };
  struct Layer {
    std::vector<double> input_norm, feed_forward_norm;    // before the two blocks
    std::vector<double> attended_norm, fed_norm;          // of what they put out; empty: none
    std::vector<double> query_norm, key_norm;             // of each head; empty: none
    std::int64_t window = 0;                              // keys that a query sees, its own included; 0: all
    double score_cap = 0.0;
    Rotation rotation;
    Projection q, k, v, o, gate, up, down;
  };
  void load_norms(Layer& layer, std::int32_t index, const LoadWeight& load) const;
  [[nodiscard]] Matrix project(const Projection& p, const Matrix& x) const;
  // x as int8 inputs hold it, if they are.
  [[nodiscard]] Matrix held_in_int8(const Matrix& x) const;
  // [T, heads * head_dim], each head normed by itself; without a weight x as it is.
  [[nodiscard]] Matrix norm_heads(Matrix x, const std::vector<double>& weight) const;
  // What a block put out, as it is added to the residual.
  [[nodiscard]] Matrix branch(Matrix out, const std::vector<double>& weight) const;
  [[nodiscard]] Matrix attention_block(const Layer& layer, const Matrix& x) const;
  [[nodiscard]] Matrix feed_forward(const Layer& layer, const Matrix& x) const;

  model::ModelSpec spec_;
  std::optional<DType> activation_dtype_, kv_dtype_;
  DType fp8_;
  std::int64_t int8_group_ = 0;
  double embedding_scale_ = 1.0;
  Matrix embedding_;
  std::optional<Matrix> head_;  // empty: tied to the embedding
  std::vector<double> final_norm_;
  std::vector<Layer> layers_;
};

}  // namespace quire::reference
