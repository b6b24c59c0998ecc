// The gated activation of Llama's feed-forward block (SwiGLU, Shazeer 2020, arXiv:2002.05202, with beta = 1).
#pragma once
#include "reference/matrix.h"

namespace quire::reference {

// silu(g) = g / (1 + e^-g). Large negative g gives -0 (never NaN from an overflowing exponential); +inf gives +inf; -inf gives NaN,
// as -inf / inf does.
[[nodiscard]] double silu(double g);

// gate_up [M, 2 I], the gate in the first half of each row -> [M, I]: silu(gate) * up.
[[nodiscard]] Matrix silu_mul(const Matrix& gate_up);

}  // namespace quire::reference
