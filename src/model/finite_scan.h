// Finds NaN and infinity in raw weights. Internal to model/.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/dtype.h"

namespace quire::model {

// Index of the first element of a float tensor (kF32, kF16 or kBF16, little-endian, any alignment) that is NaN or infinite.
[[nodiscard]] std::optional<std::uint64_t> first_non_finite(DType dtype, std::span<const std::byte> bytes);

}  // namespace quire::model
