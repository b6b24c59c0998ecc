// What each sampling parameter may be: the one declaration behind the fields of a request, the flags of `quire run`, generation_config.json
// and --override-generation-config. The ranges are vLLM's. Plain constants; must not know JSON or the command line.
#pragma once
#include <cstdint>
#include <limits>
#include <string_view>

namespace quire {

struct SamplingRange {
  enum class Number : std::uint8_t { kReal, kInteger };
  enum class LowEnd : std::uint8_t { kAllowed, kLeftOut };

  std::string_view name;  // of the field; a flag writes it with dashes
  std::string_view text;  // what is allowed, in words
  Number number = Number::kReal;
  double low = -std::numeric_limits<double>::infinity();
  LowEnd low_end = LowEnd::kAllowed;
  double high = std::numeric_limits<double>::max();  // finite numbers only

  [[nodiscard]] constexpr bool takes(double x) const { return x <= high && (x > low || (x == low && low_end == LowEnd::kAllowed)); }
};

namespace sampling_range {

inline constexpr double kInt32Max = std::numeric_limits<std::int32_t>::max();

inline constexpr SamplingRange kTemperature{.name = "temperature", .text = "a number of at least 0", .low = 0};
inline constexpr SamplingRange kTopP{.name = "top_p", .text = "a number above 0 and at most 1", .low = 0, .low_end = SamplingRange::LowEnd::kLeftOut, .high = 1};
inline constexpr SamplingRange kTopK{.name = "top_k", .text = "an integer: -1 or 0 for off, or 1 to 2147483647", .number = SamplingRange::Number::kInteger, .low = -1, .high = kInt32Max};
inline constexpr SamplingRange kMinP{.name = "min_p", .text = "a number from 0 to 1", .low = 0, .high = 1};
inline constexpr SamplingRange kPresencePenalty{.name = "presence_penalty", .text = "a number from -2 to 2", .low = -2, .high = 2};
inline constexpr SamplingRange kFrequencyPenalty{.name = "frequency_penalty", .text = "a number from -2 to 2", .low = -2, .high = 2};
inline constexpr SamplingRange kRepetitionPenalty{.name = "repetition_penalty", .text = "a number from 0.000001 to 1000000", .low = 1e-6, .high = 1e6};
inline constexpr SamplingRange kMaxTokensOrEcho{
    .name = "max_tokens", .text = "an integer from 1 to 2147483647 (0 only with echo)", .number = SamplingRange::Number::kInteger, .low = 0, .high = kInt32Max};
inline constexpr SamplingRange kMaxTokens{.name = "max_tokens", .text = "an integer from 1 to 2147483647", .number = SamplingRange::Number::kInteger, .low = 1, .high = kInt32Max};

}  // namespace sampling_range
}  // namespace quire
