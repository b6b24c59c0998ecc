// Rotary position embedding (Su et al. 2021, arXiv:2104.09864) in Hugging Face's pairing: dimension i of a head turns together with
// dimension i + head_dim / 2. Computes its own frequencies from the RopeSpec; must not call model::rope_table, which it checks.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "model/spec.h"
#include "reference/matrix.h"

namespace quire::reference {

// How position * frequency is computed. Hugging Face and vLLM multiply in float32: at position 500 the first pair's angle is off by up
// to 3e-5 there, which on gsm-tiny moves a log-probability by 1.2e-4. kFloat32 does the same (frequency and product each rounded once).
enum class AnglePrecision : std::uint8_t { kExact, kFloat32 };

struct Rotation {
  std::vector<double> frequencies;  // [head_dim / 2], radians per position
  double attention_scale = 1.0;     // multiplies cos and sin
  AnglePrecision angles = AnglePrecision::kExact;
};

struct RotationQuestion {
  model::RopeSpec rope;
  std::int32_t head_dim = 0;                 // even, at least 2
  std::int64_t max_position_embeddings = 0;  // the config's
  std::int64_t max_model_len = 0;            // the served maximum length; "dynamic" alone depends on it
};

// With f_i = theta^(-2i / head_dim):
//   default   f_i; f_i / divisors[i] where there are divisors.
//   linear    f_i / factor (Chen et al. 2023, arXiv:2306.15595).
//   dynamic   theta replaced by theta * (factor * L / P - (factor - 1))^(d / (d - 2)), P the trained length (max_position_embeddings,
//             as in Hugging Face and vLLM) and L = max(max_model_len, P); so nothing changes up to the trained length.
//   llama3    wavelength w = 2 pi / f_i against the trained length N: w < N / high_freq_factor keeps f_i; w > N / low_freq_factor gives
//             f_i / factor; between, both blended by s = (N / w - low) / (high - low): (1 - s) f_i / factor + s f_i.
//   yarn      (Peng et al. 2023, arXiv:2309.00071, sections 3.2 to 3.4) c(b) = d ln(N / (2 pi b)) / (2 ln theta) is the dimension that
//             turns b times over the trained length; between c(beta_fast) and c(beta_slow) (rounded outwards when `truncate`, limited to
//             [0, d - 1], kept 0.001 apart) the frequency goes linearly from f_i to f_i / factor. attention_scale: the stated
//             attention_factor; else m(factor, mscale) / m(factor, mscale_all_dim) when both are given; else m(factor, 1); with
//             m(s, k) = 0.1 k ln s + 1 for s > 1, else 1.
// N is original_max_position_embeddings, or max_position_embeddings where that is absent.
[[nodiscard]] Rotation rotation_of(const RotationQuestion& question);

// x [T, heads * head_dim], positions [T] -> turned copy. Each pair (a, b) at position p becomes
// (a cos - b sin, b cos + a sin) * attention_scale with the angle p * f_i. Position 0 leaves x scaled only.
[[nodiscard]] Matrix rope(const Matrix& x, std::span<const std::int64_t> positions, const Rotation& rotation);

}  // namespace quire::reference
