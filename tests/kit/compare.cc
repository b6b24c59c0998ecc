#include "kit/compare.h"

#include <bit>
#include <cmath>
#include <limits>
#include <sstream>

#include "base/check.h"

namespace quire::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Comparison different_lengths(std::size_t got, std::size_t want, const char* what) {
  Comparison c;
  c.num_wrong = 1;
  c.used = kInfinity;
  std::ostringstream text;
  text << what << ": " << got << " compared with " << want;
  c.report = text.str();
  return c;
}

// |got - want| in units of the bound: at most 1 is right, infinity is wrong without measure.
double usage(double got, double want, double bound) {
  if (!(bound >= 0.0) || std::isinf(bound)) return kInfinity;
  if (std::isnan(got) || std::isnan(want)) return std::isnan(got) && std::isnan(want) ? 0.0 : kInfinity;
  if (std::isinf(got) || std::isinf(want)) return got == want ? 0.0 : kInfinity;
  const double difference = std::fabs(got - want);
  if (difference <= bound) return bound == 0.0 ? 0.0 : difference / bound;
  return bound == 0.0 ? kInfinity : difference / bound;
}

std::string describe(const Comparison& c, std::size_t size, double got, double want, double bound) {
  std::ostringstream text;
  text.precision(17);
  text << c.num_wrong << " of " << size << " elements outside their bound; worst at " << c.worst << ": got " << got << ", want " << want
       << ", difference " << std::fabs(got - want) << ", bound " << bound;
  return text.str();
}

template <class BoundAt>
Comparison compare_each(std::span<const double> got, std::span<const double> want, const BoundAt& bound_at) {
  if (got.size() != want.size()) return different_lengths(got.size(), want.size(), "lengths differ");
  Comparison c;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double used = usage(got[i], want[i], bound_at(i));
    // The comparison itself decides; `used` is only the measure, whose division may round to 1 just above the bound.
    const bool right = used == 0.0 || std::fabs(got[i] - want[i]) <= bound_at(i);
    if (!right || used == kInfinity) ++c.num_wrong;
    if (used > c.used) c.used = used, c.worst = i;
  }
  c.equal = c.num_wrong == 0;
  if (!got.empty()) c.report = describe(c, got.size(), got[c.worst], want[c.worst], bound_at(c.worst));
  return c;
}

}  // namespace

Comparison compare(std::span<const double> got, std::span<const double> want, std::span<const double> bounds) {
  if (bounds.size() != want.size()) return different_lengths(bounds.size(), want.size(), "bounds for another number of elements");
  return compare_each(got, want, [&](std::size_t i) { return bounds[i]; });
}

Comparison compare(std::span<const double> got, std::span<const double> want, double bound) {
  return compare_each(got, want, [&](std::size_t) { return bound; });
}

Comparison compare_bits(std::span<const std::byte> got, std::span<const std::byte> want, std::size_t element_bytes) {
  QUIRE_CHECK_GT(element_bytes, 0u);
  if (got.size() != want.size()) return different_lengths(got.size(), want.size(), "sizes in bytes differ");
  Comparison c;
  for (std::size_t i = got.size(); i-- > 0;)
    if (got[i] != want[i]) ++c.num_wrong, c.worst = i;
  c.equal = c.num_wrong == 0;
  if (c.equal) return c;
  c.used = kInfinity;
  std::ostringstream text;
  text << c.num_wrong << " of " << got.size() << " bytes differ; first in element " << c.worst / element_bytes << " (byte " << c.worst << "): got 0x"
       << std::hex << std::to_integer<int>(got[c.worst]) << ", want 0x" << std::to_integer<int>(want[c.worst]);
  c.report = text.str();
  return c;
}

Comparison compare_bits(std::span<const float> got, std::span<const float> want) {
  return compare_bits(std::as_bytes(got), std::as_bytes(want), sizeof(float));
}

std::vector<double> widen(std::span<const float> values) { return {values.begin(), values.end()}; }

std::vector<double> widen(std::span<const BFloat16> values) {
  std::vector<double> out;
  for (const BFloat16 v : values) out.push_back(to_float(v));
  return out;
}

std::vector<double> widen(std::span<const Float16> values) {
  std::vector<double> out;
  for (const Float16 v : values) out.push_back(to_float(v));
  return out;
}

std::vector<float> narrow_exactly(std::span<const double> values) {
  std::vector<float> out;
  for (const double v : values) {
    const auto narrowed = static_cast<float>(v);
    QUIRE_CHECK(std::isnan(v) || static_cast<double>(narrowed) == v) << v << " is not a float32";
    out.push_back(narrowed);
  }
  return out;
}

}  // namespace quire::test
