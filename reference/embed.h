// Token embedding: row lookup.
#pragma once
#include <span>

#include "base/ids.h"
#include "reference/matrix.h"

namespace quire::reference {

// table [vocab, hidden], ids in [0, vocab) -> [num ids, hidden], row i = table[ids[i]]. No ids: no rows. An id outside the table ends
// the process: ids are checked when a request is admitted, so one here is a bug.
[[nodiscard]] Matrix embed(const Matrix& table, std::span<const TokenId> ids);

}  // namespace quire::reference
