// Collects comparisons into verdicts: one line for each (check, row class) of a batch, holding its worst element.
#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>

#include "selfcheck/selfcheck.h"

namespace quire::selfcheck {

class Tally {
 public:
  // Stays valid as long as the tally.
  class Line {
   public:
    // Passes when |got - want| <= bound, or both are NaN, or both the same infinity. `where()` names the element; called for the worst one.
    // True: it is now the worst, and too much.
    template <class Where>
    bool add(double got, double want, double bound, Where where) {
      if (!take(got, want, bound)) return false;
      verdict_.where = where() + values_text(got, want);
      verdict_.cause.clear();
      return !verdict_.passed;
    }
    // What the worst element looks like; empty: nothing known.
    void blame(std::string cause) { verdict_.cause = std::move(cause); }
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
