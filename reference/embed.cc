#include "reference/embed.h"

#include <algorithm>

namespace quire::reference {

Matrix embed(const Matrix& table, std::span<const TokenId> ids) {
  Matrix out(static_cast<std::int64_t>(ids.size()), table.cols);
  for (std::int64_t i = 0; i < out.rows; ++i) std::ranges::copy(table.row(ids[static_cast<std::size_t>(i)]), out.row(i).begin());
  return out;
}

}  // namespace quire::reference
