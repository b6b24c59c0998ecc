#include "selfcheck/tally.h"

#include <cmath>
#include <cstdio>
#include <limits>

namespace quire::selfcheck {
namespace {

double error_of(double got, double want) {
  if (std::isnan(got) && std::isnan(want)) return 0.0;
  if (got == want) return 0.0;  // infinities of one sign too
  const double error = std::fabs(got - want);
  return std::isfinite(error) ? error : std::numeric_limits<double>::infinity();
}

// How much of the bound an error uses: above 1 is too much.
double used_of(double error, double bound) { return error == 0.0 ? 0.0 : bound > 0.0 ? error / bound : std::numeric_limits<double>::infinity(); }

}  // namespace

bool Tally::Line::take(double got, double want, double bound) {
  const double error = error_of(got, want);
  const bool worse = verdict_.where.empty() || used_of(error, bound) > used_of(verdict_.worst_error, verdict_.bound);
  if (error != 0.0 && !(error <= bound)) verdict_.passed = false;  // NaN on both sides has no bound
  if (!worse) return false;
  verdict_.worst_error = error;
  verdict_.bound = bound;
  verdict_.layer = layer_;
  return true;
}

std::string Tally::Line::values_text(double got, double want) {
  char text[80];
  std::snprintf(text, sizeof text, ": %.9g instead of %.9g", got, want);
  return text;
}

Verdict& Tally::verdict(std::string_view check, std::string_view row_class) {
  for (Verdict& v : verdicts_)
    if (v.check == check && v.row_class == row_class) return v;
  return verdicts_.emplace_back(Verdict{.check = std::string(check), .batch = {}, .row_class = std::string(row_class)});
}

Tally::Line Tally::line(std::string_view check, std::string_view row_class, std::int32_t layer) { return Line(verdict(check, row_class), layer); }

void Tally::merge(const Tally& other) {
  for (const Verdict& v : other.verdicts_) {
    Verdict& mine = verdict(v.check, v.row_class);
    const bool passed = mine.passed && v.passed;
    if (mine.where.empty() || used_of(v.worst_error, v.bound) > used_of(mine.worst_error, mine.bound)) mine = v;
    mine.passed = passed;
  }
}

}  // namespace quire::selfcheck
