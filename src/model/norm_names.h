// Names of a layer's norms in checkpoints, after "model.layers.N". Internal to model/.
#pragma once
#include <string_view>

#include "model/spec.h"

namespace quire::model {

inline constexpr std::string_view kInputNorm = ".input_layernorm", kQNorm = ".self_attn.q_norm", kKNorm = ".self_attn.k_norm";
// Of what the two blocks put out (ModelSpec::branch_norms).
inline constexpr std::string_view kAttendedNorm = ".post_attention_layernorm", kFedNorm = ".post_feedforward_layernorm";
// Before the feed-forward block. Without branch norms it has the name that attention's branch norm has with them.
[[nodiscard]] inline std::string_view feed_forward_norm_name(const ModelSpec& spec) { return spec.branch_norms ? ".pre_feedforward_layernorm" : ".post_attention_layernorm"; }

}  // namespace quire::model
