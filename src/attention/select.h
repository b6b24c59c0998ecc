// Which backends serve a problem: a pure function of the table's rows. Refusals are data, with every reason; so are fallbacks.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "attention/capability.h"
#include "base/result.h"

namespace quire::attention {

// Why a row cannot serve, for every class of rows or for some.
struct Reason {
  bool in[3] = {true, true, true};  // by RowClass
  std::string text;
  [[nodiscard]] bool touches(RowClass p) const { return in[static_cast<int>(p)]; }
  [[nodiscard]] std::string to_string() const;  // "prefill: ..." when not for every class
};

// Every reason why `row` cannot serve `problem` on `family`; empty: it can. Looks at the table only, not at who asked.
[[nodiscard]] std::vector<Reason> reasons_against(const BackendCaps& row, const AttnProblem& problem, std::string_view family);

enum class FastPath : std::uint8_t { kNotSaid, kOn, kOff };       // what the VLLM_ROCM_USE_AITER family asks for
enum class Unbuilt : std::uint8_t { kRefused, kTakesPart };        // serve refuses rows that are not built; explain marks them

struct SelectRequest {
  std::optional<std::string> backend = {};       // a name, any case; "auto" is none. An explicit choice wins or is refused, never replaced
  std::string backend_source = "--attention-backend";
  FastPath fast_path = FastPath::kNotSaid;       // an explicit choice of ROCM_FAST on Instinct; elsewhere announced and without effect
  std::string fast_path_source = "VLLM_ROCM_USE_AITER";
  Unbuilt unbuilt = Unbuilt::kRefused;
};

struct Candidate {
  const BackendCaps* row = nullptr;
  std::vector<Reason> reasons;  // all of them
  std::string passed_over;      // it was not taken for another cause: opt-in, not asked for, another comes first; "" otherwise
};

struct Fallback {
  std::string from, to, why;
};

// Rows of the table by the class of a step's rows that they serve. All non-null or all null; one layout. The writer belongs to the decode row: both know the cells' inner order.
struct ClassSet {
  const BackendCaps *writer = nullptr, *decode = nullptr, *extend = nullptr, *prefill = nullptr;
  [[nodiscard]] const BackendCaps* of(RowClass p) const { return p == RowClass::kDecode ? decode : p == RowClass::kExtend ? extend : prefill; }
  [[nodiscard]] bool empty() const { return decode == nullptr; }
  [[nodiscard]] bool one_row() const { return writer == decode && decode == extend && extend == prefill; }
  [[nodiscard]] GraphSupport graph_support() const;  // the least of its rows
};

// The closest question that has an answer.
struct Nearest {
  const BackendCaps* row = nullptr;
  AttnProblem problem;
  std::vector<std::string> changes;  // "block size 16 instead of 24"
};

struct Selection {
  const BackendCaps* backend = nullptr;  // the decode row; nullptr: nothing serves
  ClassSet set;
  std::string chosen_by;                 // "--attention-backend", "VLLM_ROCM_USE_AITER"; "": the table's order
  const BackendCaps* asked = nullptr;    // the row of an explicit choice
  std::vector<Candidate> candidates;     // every row of the table, in its order
  std::vector<Fallback> fallbacks;       // to be announced
  std::optional<Nearest> nearest;        // when nothing serves
};

// Always an answer, also "nothing serves"; the only error is a name that no row has.
[[nodiscard]] Result<Selection> negotiate(const AttnProblem& problem, std::string_view family, const SelectRequest& request);

// For those who need a backend: as negotiate(), but an error with every reason when nothing serves.
[[nodiscard]] Result<Selection> select_backend(const AttnProblem& problem, std::string_view family, const SelectRequest& request);
[[nodiscard]] Result<Selection> select_backend(const AttnProblem& problem, std::string_view family, const std::optional<std::string>& requested);

// The row and problem with the fewest changes that `family` serves (explicit choice: that row's, when it is on this device).
[[nodiscard]] std::optional<Nearest> nearest_supported(const AttnProblem& problem, std::string_view family, const BackendCaps* asked, Unbuilt unbuilt);

}  // namespace quire::attention
