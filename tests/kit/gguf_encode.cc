#include "kit/gguf_encode.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "base/dtype.h"
#include "kit/gguf_writer.h"

namespace quire::test {
namespace {

using Span = std::span<const float>;

std::string half(float x) { return raw_bytes(to_float16(x).bits); }
float as_half(float x) { return to_float(to_float16(x)); }

int code(float x, float step, int low, int high) { return step == 0.0f ? std::clamp(0, low, high) : static_cast<int>(std::clamp(std::nearbyint(x / step), static_cast<float>(low), static_cast<float>(high))); }

float largest(Span x) {
  float most = 0.0f;
  for (const float v : x) most = std::abs(v) > std::abs(most) ? v : most;
  return most;
}

// 32 codes: the low nibbles of byte j are elements j and j + 16.
std::string nibbles(const std::vector<int>& codes) {
  std::string out;
  for (std::size_t j = 0; j < 16; ++j) out += static_cast<char>((codes[j] & 15) | (codes[j + 16] & 15) << 4);
  return out;
}

std::string fifth_bits(const std::vector<int>& codes) {
  std::uint32_t bits = 0;
  for (std::size_t j = 0; j < 32; ++j) bits |= static_cast<std::uint32_t>(codes[j] >> 4 & 1) << j;
  return raw_bytes(bits);
}

std::string symmetric(Span x, int bits) {
  const int middle = 1 << (bits - 1);
  const float step = as_half(largest(x) / static_cast<float>(-middle));
  std::vector<int> codes;
  for (const float v : x) codes.push_back(code(v, step, -middle, middle - 1) + middle);
  return half(step) + (bits == 5 ? fifth_bits(codes) : std::string()) + nibbles(codes);
}

std::string affine(Span x, int bits) {
  const auto [low, high] = std::minmax_element(x.begin(), x.end());
  const int most = (1 << bits) - 1;
  const float least = as_half(*low), step = as_half((*high - *low) / static_cast<float>(most));
  std::vector<int> codes;
  for (const float v : x) codes.push_back(code(v - least, step, 0, most));
  return half(step) + half(least) + (bits == 5 ? fifth_bits(codes) : std::string()) + nibbles(codes);
}

std::string q8_0(Span x) {
  const float step = as_half(std::abs(largest(x)) / 127.0f);
  std::string out = half(step);
  for (const float v : x) out += static_cast<char>(code(v, step, -127, 127));
  return out;
}

// Q4_K and Q5_K: 8 groups of 32, each with a 6-bit scale and a 6-bit minimum.
std::string affine_k(Span x, int bits) {
  const int most = (1 << bits) - 1;
  std::array<float, 8> step{}, least{};
  for (std::size_t g = 0; g < 8; ++g) {
    const Span group = x.subspan(32 * g, 32);
    const float low = std::min(0.0f, *std::ranges::min_element(group)), high = std::max(0.0f, *std::ranges::max_element(group));
    step[g] = (high - low) / static_cast<float>(most);
    least[g] = -low;
  }
  const float d = as_half(*std::ranges::max_element(step) / 63.0f), d_least = as_half(*std::ranges::max_element(least) / 63.0f);
  std::string groups(12, '\0'), low(128, '\0'), high(32, '\0');
  const auto put = [&](std::size_t at, int value) { groups[at] = static_cast<char>(groups[at] | value); };
  for (std::size_t g = 0; g < 8; ++g) {
    const int scale = code(step[g], d, 0, 63), minimum = code(least[g], d_least, 0, 63);
    put(g < 4 ? g : g + 4, g < 4 ? scale : scale & 15);
    put(g < 4 ? g + 4 : g + 4, g < 4 ? minimum : (minimum & 15) << 4);
    if (g >= 4) put(g - 4, scale >> 4 << 6), put(g, minimum >> 4 << 6);
    for (std::size_t l = 0; l < 32; ++l) {
      const int c = code(x[32 * g + l] + d_least * static_cast<float>(minimum), d * static_cast<float>(scale), 0, most);
      low[32 * (g / 2) + l] = static_cast<char>(low[32 * (g / 2) + l] | (c & 15) << (4 * (g % 2)));
      high[l] = static_cast<char>(high[l] | (c >> 4) << g);
    }
  }
  return half(d) + half(d_least) + groups + (bits == 5 ? high : std::string()) + low;
}

// 16 groups of 16, each with a signed 8-bit scale.
std::string q6_k(Span x) {
  std::array<float, 16> step{};
  for (std::size_t g = 0; g < 16; ++g) step[g] = std::abs(largest(x.subspan(16 * g, 16))) / 31.0f;
  const float d = as_half(*std::ranges::max_element(step) / 127.0f);
  std::string low(128, '\0'), high(64, '\0'), scales;
  for (std::size_t g = 0; g < 16; ++g) scales += static_cast<char>(code(step[g], d, 0, 127));
  for (std::size_t i = 0; i < 256; ++i) {
    const std::size_t part = i / 128, quarter = i % 128 / 32, l = i % 32;
    const int c = code(x[i], d * static_cast<float>(scales[i / 16]), -32, 31) + 32;
    char& nibble = low[64 * part + 32 * (quarter % 2) + l];
    nibble = static_cast<char>(nibble | (c & 15) << (4 * (quarter / 2)));
    high[32 * part + l] = static_cast<char>(high[32 * part + l] | (c >> 4) << (2 * quarter));
  }
  return low + high + scales + half(d);
}

struct Encoder {
  std::string_view name;
  std::uint32_t id;
  std::size_t elements;
  std::string (*block)(Span);
};

constexpr std::array<Encoder, 11> kEncoders = {{{"F32", 0, 1, [](Span x) { return raw_bytes(x[0]); }},
                                                {"F16", 1, 1, [](Span x) { return half(x[0]); }},
                                                {"BF16", 30, 1, [](Span x) { return raw_bytes(to_bfloat16(x[0]).bits); }},
                                                {"Q4_0", 2, 32, [](Span x) { return symmetric(x, 4); }},
                                                {"Q4_1", 3, 32, [](Span x) { return affine(x, 4); }},
                                                {"Q5_0", 6, 32, [](Span x) { return symmetric(x, 5); }},
                                                {"Q5_1", 7, 32, [](Span x) { return affine(x, 5); }},
                                                {"Q8_0", 8, 32, q8_0},
                                                {"Q4_K", 12, 256, [](Span x) { return affine_k(x, 4); }},
                                                {"Q5_K", 13, 256, [](Span x) { return affine_k(x, 5); }},
                                                {"Q6_K", 14, 256, q6_k}}};

const Encoder& encoder(std::string_view type) {
  const auto* found = std::ranges::find(kEncoders, type, &Encoder::name);
  QUIRE_CHECK(found != kEncoders.end()) << type;
  return *found;
}

}  // namespace

std::uint32_t gguf_type_id(std::string_view type) { return encoder(type).id; }

std::string gguf_encode(std::string_view type, std::span<const float> values) {
  const Encoder& e = encoder(type);
  QUIRE_CHECK_EQ(values.size() % e.elements, 0u) << type;
  std::string out;
  for (std::size_t i = 0; i < values.size(); i += e.elements) out += e.block(values.subspan(i, e.elements));
  return out;
}

}  // namespace quire::test
