#include "base/check.h"

#include <cstdio>
#include <cstdlib>
#include <string>

namespace quire::internal {

CheckFailure::CheckFailure(const char* file, int line, const char* condition) {
  stream_ << "quire: internal check failed at " << file << ":" << line << ": " << condition << " ";
}

CheckFailure::~CheckFailure() {
  const std::string text = stream_.str() + "\n";
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
  std::abort();
}

}  // namespace quire::internal
