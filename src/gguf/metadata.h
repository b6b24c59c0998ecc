// The key-value part of a GGUF file as typed values. What keys mean is for model/ and text/ to say.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "gguf/cursor.h"

namespace quire::gguf {

using Integers = std::vector<std::int64_t>;  // of any integer type, or booleans as 0 and 1
using Reals = std::vector<double>;           // of 32- or 64-bit floats, each exactly
using Strings = std::vector<std::string_view>;
// Views are into the file. Integers of 2^63 and above do not exist here: they are refused while reading.
using Value = std::variant<bool, std::int64_t, double, std::string_view, Integers, Reals, Strings>;

// The value in words, cut short: `"llama"`, `32`, `an array of 49152 strings`.
[[nodiscard]] std::string value_text(const Value& value);

class Metadata {
 public:
  // Reads `count` pairs. Refuses (kCorrupt): empty and repeated keys, unknown value types, arrays of arrays, arrays longer than 2^24,
  // keys over 65,535 bytes, strings over 16 MiB, booleans that are neither 0 nor 1, integers that need 64 unsigned bits.
  [[nodiscard]] static Result<Metadata> read(Cursor& cursor, std::uint64_t count);

  [[nodiscard]] const std::map<std::string, Value, std::less<>>& values() const { return values_; }
  // nullptr when absent.
  [[nodiscard]] const Value* find(std::string_view key) const;

  // A value of one kind: nullopt when absent; kCorrupt, naming key and value, when it is of another kind.
  template <class T>
  [[nodiscard]] Result<std::optional<T>> get(std::string_view key) const {
    const Value* value = find(key);
    if (value == nullptr) return std::optional<T>();
    if (const T* held = std::get_if<T>(value)) return std::optional<T>(*held);
    return wrong_kind(key, *value, kind_name(T()));
  }

 private:
  [[nodiscard]] static std::string kind_name(const Value& value);
  [[nodiscard]] static Error wrong_kind(std::string_view key, const Value& value, const std::string& wanted);
  std::map<std::string, Value, std::less<>> values_;
};

}  // namespace quire::gguf
