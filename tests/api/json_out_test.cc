#include "api/json_out.h"

#include <gtest/gtest.h>

#include <bit>
#include <boost/json/value.hpp>
#include <cmath>
#include <cstdlib>

#include "api/logprobs.h"
#include "base/json.h"
#include "kit/seed.h"

namespace quire::api {
namespace {

TEST(JsonOut, PutsCommasAndEscapesInTheRightPlaces) {
  JsonOut out;
  out.begin_object();
  out.field("a", 1);
  out.key("b");
  out.begin_array();
  out.value("x\"\\\n\t\x01 é");
  out.null();
  out.value(true);
  out.begin_object();
  out.end_object();
  out.end_array();
  out.key("c");
  out.raw("[1,2]");
  out.end_object();
  EXPECT_EQ(out.text(), "{\"a\":1,\"b\":[\"x\\\"\\\\\\n\\t\\u0001 é\",null,true,{}],\"c\":[1,2]}");
}

TEST(JsonOut, AFloatReadsBackAsItself) {
  auto rng = test::seeded_rng();
  for (int i = 0; i < 20000; ++i) {
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(rng()));
    if (!std::isfinite(x)) continue;
    JsonOut out;
    out.value(x);
    ASSERT_EQ(std::strtof(out.text().c_str(), nullptr), x) << out.text();
    ASSERT_NE(out.text().find_first_of(".e"), std::string::npos) << out.text();
    ASSERT_TRUE(parse_json(out.text()).ok()) << out.text();
  }
}

TEST(Logprobs, ThereIsAFloorAndNoNaN) {
  EXPECT_EQ(printed_logprob(-INFINITY), -9999.0f);
  EXPECT_EQ(printed_logprob(-20000.0f), -9999.0f);
  EXPECT_EQ(printed_logprob(NAN), -9999.0f);
  EXPECT_EQ(printed_logprob(-0.25f), -0.25f);
  EXPECT_EQ(num_characters("aé€😀"), 4);
}

}  // namespace
}  // namespace quire::api
