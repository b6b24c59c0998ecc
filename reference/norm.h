// RMS normalisation (Zhang and Sennrich 2019, arXiv:1910.07467, equation 4), with the epsilon inside the root as Llama has it.
#pragma once
#include <span>

#include "reference/matrix.h"

namespace quire::reference {

// y[r, i] = x[r, i] / sqrt(mean_j x[r, j]^2 + eps) * weight[i]. x [M, H], weight [H], eps >= 0.
// A zero row gives a zero row when eps > 0 and NaN when eps is 0. A NaN anywhere in a row makes that whole row NaN and no other; so
// does an infinity at its own place (inf / inf), while the row's finite elements become 0.
[[nodiscard]] Matrix rms_norm(const Matrix& x, std::span<const double> weight, double eps);

struct NormedResidual {
  Matrix normed;    // rms_norm(residual after the addition)
  Matrix residual;  // x + residual before
};
// The residual is added first; the sum is both normalised and returned. Shapes equal.
[[nodiscard]] NormedResidual add_rms_norm(const Matrix& x, const Matrix& residual, std::span<const double> weight, double eps);

}  // namespace quire::reference
