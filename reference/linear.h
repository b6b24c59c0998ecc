// A linear layer in the checkpoint's orientation: weights stored [outputs, inputs].
#pragma once
#include <span>

#include "reference/matrix.h"

namespace quire::reference {

// y[m, n] = sum_k x[m, k] * w[n, k] + bias[n]. x [M, K], w [N, K], bias [N] or empty (none). The sum runs over k in rising order and
// the bias is added last. M = 0 gives no rows; K = 0 gives the bias (or zero). NaN and infinity follow IEEE arithmetic: 0 * inf is NaN.
[[nodiscard]] Matrix linear(const Matrix& x, const Matrix& w, std::span<const double> bias = {});

}  // namespace quire::reference
