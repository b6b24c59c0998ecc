// The gated activations of feed-forward blocks (Shazeer 2020, arXiv:2002.05202): SwiGLU with beta = 1, and GEGLU with GELU's tanh form.
#pragma once
#include "reference/matrix.h"

namespace quire::reference {

// silu(g) = g / (1 + e^-g). Large negative g gives -0 (never NaN from an overflowing exponential); +inf gives +inf; -inf gives NaN,
// as -inf / inf does.
[[nodiscard]] double silu(double g);

// g / 2 * (1 + tanh(sqrt(2 / pi) * (g + 0.044715 g^3))) (Hendrycks and Gimpel 2016, arXiv:1606.08415). Large negative g gives -0; +inf gives
// +inf; -inf gives NaN.
[[nodiscard]] double gelu_tanh(double g);

// gate_up [M, 2 I], the gate in the first half of each row -> [M, I]: silu(gate) * up.
[[nodiscard]] Matrix silu_mul(const Matrix& gate_up);
[[nodiscard]] Matrix gelu_tanh_mul(const Matrix& gate_up);

}  // namespace quire::reference
