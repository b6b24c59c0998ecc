// QUIRE_CHECK: our own invariants. Active in every build: a broken invariant in a server must stop it with evidence
// rather than let it answer with wrong text. Never used for input from outside (that is Result, result.h).
#pragma once
#include <sstream>
#include <utility>

namespace quire::internal {

// Collects the message; its destructor writes it to standard error and ends the process.
class CheckFailure {
 public:
  CheckFailure(const char* file, int line, const char* condition);
  CheckFailure(const CheckFailure&) = delete;
  CheckFailure& operator=(const CheckFailure&) = delete;
  [[noreturn]] ~CheckFailure();
  std::ostream& stream() { return stream_; }

 private:
  std::ostringstream stream_;
};

}  // namespace quire::internal

#define QUIRE_CHECK(condition)                                   \
  if (static_cast<bool>(condition)) [[likely]] {                 \
  } else /* NOLINT */                                            \
    ::quire::internal::CheckFailure(__FILE__, __LINE__, #condition).stream()

#define QUIRE_CHECK_OP_(a, op, b)                                \
  if (auto quire_operands_ = std::pair((a), (b)); quire_operands_.first op quire_operands_.second) [[likely]] { \
  } else /* NOLINT */                                            \
    ::quire::internal::CheckFailure(__FILE__, __LINE__, #a " " #op " " #b).stream() \
        << "(" << quire_operands_.first << " vs " << quire_operands_.second << ") "

#define QUIRE_CHECK_EQ(a, b) QUIRE_CHECK_OP_(a, ==, b)
#define QUIRE_CHECK_NE(a, b) QUIRE_CHECK_OP_(a, !=, b)
#define QUIRE_CHECK_LE(a, b) QUIRE_CHECK_OP_(a, <=, b)
#define QUIRE_CHECK_LT(a, b) QUIRE_CHECK_OP_(a, <, b)
#define QUIRE_CHECK_GE(a, b) QUIRE_CHECK_OP_(a, >=, b)
#define QUIRE_CHECK_GT(a, b) QUIRE_CHECK_OP_(a, >, b)
