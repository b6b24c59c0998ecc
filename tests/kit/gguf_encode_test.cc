// The encoder of test files: what the twin reads back is as near as the type allows.
#include "kit/gguf_encode.h"

#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "kit/seed.h"
#include "reference/gguf_blocks.h"

namespace quire::test {
namespace {

// Half a step of the codes, in units of the block's largest magnitude, and what rounding scales to a float16 or to 6 bits adds.
TEST(GgufEncode, ComesAsNearAsTheTypeAllows) {
  auto rng = seeded_rng();
  std::vector<float> values(256 * 20);
  for (float& v : values) v = (static_cast<float>(rng() % 2001) - 1000.0f) / 7000.0f;
  for (const auto& [type, bound] : {std::tuple("Q8_0", 0.5 / 127 + 0.001), std::tuple("Q4_0", 1.0 / 8 + 0.001), std::tuple("Q4_1", 1.0 / 15 + 0.002), std::tuple("Q5_0", 1.0 / 16 + 0.001), std::tuple("Q5_1", 1.0 / 31 + 0.002),
                                    std::tuple("Q4_K", 1.0 / 15 + 2.0 / 63), std::tuple("Q5_K", 1.0 / 31 + 2.0 / 63), std::tuple("Q6_K", 1.0 / 31 + 0.001)}) {
    const std::string bytes = gguf_encode(type, values);
    const std::vector<double> back = reference::gguf_dequantise(type, std::as_bytes(std::span(bytes)));
    ASSERT_EQ(back.size(), values.size()) << type;
    for (std::size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(back[i], values[i], bound * (1.0 / 7)) << type << " element " << i;
  }
}

}  // namespace
}  // namespace quire::test
