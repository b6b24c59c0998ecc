// Result<T>: a value, or an Error that says what is wrong, which flag or field it concerns and what would be right.
// For mistakes of callers (users, files, clients). Our own bugs use QUIRE_CHECK (check.h) instead.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/check.h"

namespace quire {

enum class ErrorCode {
  kInvalidArgument,    // the caller's value is wrong            (HTTP 400)
  kNotFound,           // a named thing does not exist           (HTTP 404)
  kTooLarge,           // over a stated limit of size            (HTTP 413)
  kUnsupported,        // understood, but this build cannot      (HTTP 400 or a refusal at start)
  kResourceExhausted,  // queue full, pool too small             (HTTP 429 or a refusal at start)
  kUnavailable,        // not ready, draining                    (HTTP 503)
  kCorrupt,            // a file contradicts itself
  kIo,                 // the operating system refused
  kInternal,           // should not happen; reported, not hidden (HTTP 500)
};

[[nodiscard]] const char* error_code_name(ErrorCode code);

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
  std::string param;  // the flag or field, empty when there is none

  // The message, after the flag or field unless it is named there already.
  [[nodiscard]] std::string to_string() const;
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT(google-explicit-constructor)
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool ok() const { return state_.index() == 0; }
  [[nodiscard]] T& value() & { QUIRE_CHECK(ok()) << error().message; return std::get<0>(state_); }
  [[nodiscard]] const T& value() const& { QUIRE_CHECK(ok()) << error().message; return std::get<0>(state_); }
  [[nodiscard]] T&& value() && { QUIRE_CHECK(ok()) << error().message; return std::get<0>(std::move(state_)); }
  [[nodiscard]] const Error& error() const { return std::get<1>(state_); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::variant<T, Error> state_;
};

// Result without a value.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)
  [[nodiscard]] bool ok() const { return !error_.has_value(); }
  [[nodiscard]] const Error& error() const { return *error_; }

 private:
  std::optional<Error> error_;
};

inline Error invalid(std::string message, std::string param = {}) {
  return Error{ErrorCode::kInvalidArgument, std::move(message), std::move(param)};
}

}  // namespace quire

// Leaves the enclosing function with the error of a failed Status or Result expression.
#define QUIRE_RETURN_IF_ERROR(expr)                              \
  do {                                                           \
    if (auto quire_status_ = (expr); !quire_status_.ok()) return quire_status_.error(); \
  } while (false)
