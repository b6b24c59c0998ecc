// Which backend serves a problem: a pure function of the table's rows. Refusals are data, with every reason.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "attention/capability.h"
#include "base/result.h"

namespace quire::attention {

struct Rejection {
  std::string_view backend;
  std::vector<std::string> reasons;  // all of them
};

struct Selection {
  const BackendCaps* backend = nullptr;  // nullptr: nothing serves
  std::vector<Rejection> rejections;     // candidates before and beside the winner that were refused
};

// Every reason why `row` cannot serve `problem` on `device_family`; empty: it can.
[[nodiscard]] std::vector<std::string> reasons_against(const BackendCaps& row, const AttnProblem& problem, std::string_view device_family);

// The first row in table order that serves; with `requested`, that row or an error (an explicit choice wins or is refused, never replaced).
[[nodiscard]] Result<Selection> select_backend(const AttnProblem& problem, std::string_view device_family, const std::optional<std::string>& requested);

}  // namespace quire::attention
