// The 8-bit float encodings as tables of all 256 values, written from their definitions ("OCP 8-bit Floating Point Specification",
// revision 1.0, section 5; Noune et al. 2022, arXiv:2206.02915, for FNUZ) in double arithmetic. Shares nothing with base/fp8.h.
#pragma once
#include <array>
#include <cstdint>

#include "base/dtype.h"

namespace quire::reference {

// The value of every bit pattern of kFp8E4m3, kFp8E4m3Fnuz or kFp8E5m2; anything else ends the process.
[[nodiscard]] const std::array<double, 256>& fp8_values(DType dtype);

// The nearest value's pattern, found by looking at all of them; of two equally near the even pattern. Saturating: magnitudes past the
// largest finite value, infinity too, give that value. NaN gives a NaN. A negative number that rounds to zero gives -0 where it exists.
[[nodiscard]] std::uint8_t fp8_encode(DType dtype, double x);

}  // namespace quire::reference
