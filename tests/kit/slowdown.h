// How much slower than a release build on a quiet machine a test may be: sanitizers cost 5 to 20 times. Every bound on wall time
// in a test is multiplied by this, and ctest's own bounds are (cmake/QuireRoom.cmake, where the number is).
#pragma once

namespace quire::test {

inline constexpr int kSlowdown = QUIRE_TEST_SLOWDOWN;

}  // namespace quire::test
