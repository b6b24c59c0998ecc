// Comparing results with a reference: tolerances that are derived, masks that must match, and a report of the worst element.
// Knows numbers only; where a bound comes from is bounds.h.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace quire::test {

// The verdict of one comparison, for EXPECT_TRUE(c.equal) << c.report.
struct Comparison {
  bool equal = false;
  std::size_t num_wrong = 0;
  std::size_t worst = 0;  // index of the element that is furthest outside (or, when equal, closest to) its bound; 0 when empty
  double used = 0.0;      // largest |got - want| / bound over the finite elements; 0 / 0 counts as 0
  std::string report;     // one line: count, index, both values, difference, bound
};

// Every element must satisfy |got - want| <= bound, in exactly this form: absolute on both sides, whatever the signs. NaN must meet
// NaN and an infinity the same infinity; any other mixture is wrong. Lengths must be equal; two empty spans are equal. A bound that is
// negative or NaN is an error of the test and counts as wrong; an infinite bound is refused the same way, because it checks nothing.
[[nodiscard]] Comparison compare(std::span<const double> got, std::span<const double> want, std::span<const double> bounds);
// One bound for all.
[[nodiscard]] Comparison compare(std::span<const double> got, std::span<const double> want, double bound);

// Bit for bit: signed zeros differ, NaN payloads count. `worst` is the first differing byte; the report names the element when
// `element_bytes` says how large one is.
[[nodiscard]] Comparison compare_bits(std::span<const std::byte> got, std::span<const std::byte> want, std::size_t element_bytes = 1);
[[nodiscard]] Comparison compare_bits(std::span<const float> got, std::span<const float> want);

// Values of a device result as float64, exactly.
[[nodiscard]] std::vector<double> widen(std::span<const float> values);
[[nodiscard]] std::vector<double> widen(std::span<const BFloat16> values);
[[nodiscard]] std::vector<double> widen(std::span<const Float16> values);
// The way back for inputs: each value must be exactly a float32 (the test rounds its inputs first), else the process ends.
[[nodiscard]] std::vector<float> narrow_exactly(std::span<const double> values);

}  // namespace quire::test
