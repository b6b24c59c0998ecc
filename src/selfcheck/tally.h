// Collects comparisons into verdicts: one line for each (check, row class) of a batch, holding its worst element.
#pragma once
#include <deque>
#include <string>
#include <string_view>

#include "selfcheck/selfcheck.h"

namespace quire::selfcheck {

class Tally {
 public:
  explicit Tally(std::string batch) : batch_(std::move(batch)) {}

  // Stays valid as long as the tally.
  class Line {
   public:
    // Passes when |got - want| <= bound, or both are NaN, or both the same infinity. `where()` names the element; called for the worst one.
    template <class Where>
    void add(double got, double want, double bound, Where where) {
      if (take(got, want, bound)) verdict_.where = where() + values_text(got, want);
    }

   private:
    friend class Tally;
    explicit Line(Verdict& verdict) : verdict_(verdict) {}
    [[nodiscard]] bool take(double got, double want, double bound);  // true: it is now the worst
    [[nodiscard]] static std::string values_text(double got, double want);
    Verdict& verdict_;
  };
  [[nodiscard]] Line line(std::string_view check, std::string_view row_class);
  [[nodiscard]] const std::deque<Verdict>& verdicts() const { return verdicts_; }

 private:
  std::string batch_;
  std::deque<Verdict> verdicts_;
};

}  // namespace quire::selfcheck
