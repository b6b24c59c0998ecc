// Rounding of a float64 to a storage format, from the definition in IEEE 754-2019 (clauses 3.4 and 4.3.1): the representable
// neighbour that is nearest, ties to the one with an even significand; a magnitude that would round past the largest finite value
// becomes infinity. Written with double arithmetic on significands, so that it shares nothing with base/dtype.h's bit manipulation.
#pragma once
#include <cstdint>

#include "base/dtype.h"

namespace quire::reference {

// `x` rounded once to `dtype` (kF32, kF16, kBF16 or an FP8; anything else ends the process). Signed zeros and infinities keep their sign;
// NaN stays NaN. Subnormals of the target exist (no flush to zero). FP8 saturates: fp8.h defines it.
[[nodiscard]] double round_to(DType dtype, double x);

// The bit pattern of round_to(dtype, x), in the low bits. NaN gives the quiet NaN with a clear sign and an otherwise empty payload.
[[nodiscard]] std::uint32_t encode(DType dtype, double x);

// The exact value of a bit pattern.
[[nodiscard]] double decode(DType dtype, std::uint32_t bits);

}  // namespace quire::reference
