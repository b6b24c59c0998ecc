// Names of answers.
#pragma once
#include <string>

namespace quire::api {

// 32 random hex digits.
[[nodiscard]] std::string random_hex();

}  // namespace quire::api
