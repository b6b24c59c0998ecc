#include "api/response_id.h"

#include <cstdint>
#include <random>
#include <string_view>

namespace quire::api {

std::string random_hex() {
  static constexpr std::string_view kHex = "0123456789abcdef";
  std::random_device device;
  std::string out;
  while (out.size() < 32)
    for (std::uint32_t word = device(), digit = 0; digit < 8; ++digit, word >>= 4) out += kHex[word & 15];
  return out;
}

}  // namespace quire::api
