// Collects comparisons into verdicts: one line for each (check, row class) of a batch, holding its worst element.
#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "selfcheck/selfcheck.h"

namespace quire::selfcheck {

class Tally {
 public:
  // Stays valid as long as the tally.
  class Line {
   public:
    // Passes when |got - want| <= bound, or both are NaN, or both the same infinity. `where()` names the element; called for the worst one.
    template <class Where>
    void add(double got, double want, double bound, Where where) {
      if (take(got, want, bound)) verdict_.where = where() + values_text(got, want);
    }
    // Elements that are known to be equal, in words.
    void add_equal(std::string_view what) {
      if (verdict_.where.empty()) verdict_.where = what;
    }

   private:
    friend class Tally;
    Line(Verdict& verdict, std::int32_t layer) : verdict_(verdict), layer_(layer) {}
    [[nodiscard]] bool take(double got, double want, double bound);  // true: it is now the worst
    [[nodiscard]] static std::string values_text(double got, double want);
    Verdict& verdict_;
    std::int32_t layer_;
  };
  // What is added to the line belongs to `layer`; kNoLayer: to none.
  [[nodiscard]] Line line(std::string_view check, std::string_view row_class, std::int32_t layer = kNoLayer);
  // As if everything that `other` was given had been added here too.
  void merge(const Tally& other);
  [[nodiscard]] const std::deque<Verdict>& verdicts() const { return verdicts_; }

 private:
  [[nodiscard]] Verdict& verdict(std::string_view check, std::string_view row_class);
  std::deque<Verdict> verdicts_;
};

}  // namespace quire::selfcheck
