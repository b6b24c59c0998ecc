#include "gguf/metadata.h"

#include <array>
#include <limits>
#include <type_traits>

#include "base/json.h"

namespace quire::gguf {
namespace {

constexpr std::uint64_t kMaxKeyBytes = 65535, kMaxStringBytes = std::uint64_t{16} << 20, kMaxArray = std::uint64_t{1} << 24;

// Ids of value types in the file.
enum Type : std::uint32_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64, kNumTypes };
constexpr std::array<std::uint64_t, kNumTypes> kLeastBytes = {1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};

template <class T>
Result<Value> read_integer(Cursor& cursor, const std::string& what) {
  const auto n = cursor.number<T>(what);
  if (!n.ok()) return n.error();
  if constexpr (std::is_same_v<T, std::uint64_t>) {
    if (n.value() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return cursor.corrupt(what + " = " + std::to_string(n.value()) + " is above 2^63 - 1");
  }
  return Value(static_cast<std::int64_t>(n.value()));
}

template <class T>
Result<Value> read_real(Cursor& cursor, const std::string& what) {
  const auto x = cursor.number<T>(what);
  if (!x.ok()) return x.error();
  return Value(static_cast<double>(x.value()));
}

Result<Value> read_scalar(Cursor& cursor, std::uint32_t type, const std::string& what) {
  switch (type) {
    case kU8: return read_integer<std::uint8_t>(cursor, what);
    case kI8: return read_integer<std::int8_t>(cursor, what);
    case kU16: return read_integer<std::uint16_t>(cursor, what);
    case kI16: return read_integer<std::int16_t>(cursor, what);
    case kU32: return read_integer<std::uint32_t>(cursor, what);
    case kI32: return read_integer<std::int32_t>(cursor, what);
    case kU64: return read_integer<std::uint64_t>(cursor, what);
    case kI64: return read_integer<std::int64_t>(cursor, what);
    case kF32: return read_real<float>(cursor, what);
    case kF64: return read_real<double>(cursor, what);
    case kBool: {
      const auto b = cursor.number<std::uint8_t>(what);
      if (!b.ok()) return b.error();
      if (b.value() > 1) return cursor.corrupt(what + " is a boolean of value " + std::to_string(b.value()) + "; only 0 and 1 are allowed");
      return Value(b.value() == 1);
    }
    case kString: {
      const auto s = cursor.string(what, kMaxStringBytes);
      if (!s.ok()) return s.error();
      return Value(s.value());
    }
    default: return cursor.corrupt(what + " has value type " + std::to_string(type) + ", which the format does not define");
  }
}

// The elements of an array: T is what a scalar of the type reads as.
template <class T, class List>
Result<Value> read_elements(Cursor& cursor, std::uint32_t type, std::uint64_t count, const std::string& what) {
  List list;
  list.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    auto element = read_scalar(cursor, type, what);
    if (!element.ok()) return element.error();
    list.push_back(static_cast<typename List::value_type>(std::get<T>(element.value())));
  }
  return Value(std::move(list));
}

Result<Value> read_array(Cursor& cursor, const std::string& what) {
  const auto type = cursor.number<std::uint32_t>("the element type of " + what);
  if (!type.ok()) return type.error();
  const auto count = cursor.number<std::uint64_t>("the length of " + what);
  if (!count.ok()) return count.error();
  if (type.value() == kArray) return cursor.corrupt(what + " is an array of arrays, which is not read");
  if (type.value() >= kNumTypes) return cursor.corrupt(what + " has element type " + std::to_string(type.value()) + ", which the format does not define");
  if (count.value() > kMaxArray) return cursor.corrupt(what + " has " + std::to_string(count.value()) + " elements, at most " + std::to_string(kMaxArray) + " are allowed");
  // Before anything is reserved: the elements must be there.
  if (count.value() * kLeastBytes[type.value()] > cursor.left())
    return cursor.corrupt("truncated: " + what + " has " + std::to_string(count.value()) + " elements, the file has " + std::to_string(cursor.left()) + " bytes left");
  switch (type.value()) {
    case kString: return read_elements<std::string_view, Strings>(cursor, type.value(), count.value(), what);
    case kF32:
    case kF64: return read_elements<double, Reals>(cursor, type.value(), count.value(), what);
    case kBool: return read_elements<bool, Integers>(cursor, type.value(), count.value(), what);
    default: return read_elements<std::int64_t, Integers>(cursor, type.value(), count.value(), what);
  }
}

}  // namespace

std::string value_text(const Value& value) {
  struct Text {
    std::string operator()(bool b) const { return b ? "true" : "false"; }
    std::string operator()(std::int64_t n) const { return std::to_string(n); }
    std::string operator()(double x) const { return std::to_string(x); }
    std::string operator()(std::string_view s) const { return shown_text(s); }
    std::string operator()(const Integers& list) const { return "an array of " + std::to_string(list.size()) + " integers"; }
    std::string operator()(const Reals& list) const { return "an array of " + std::to_string(list.size()) + " floats"; }
    std::string operator()(const Strings& list) const { return "an array of " + std::to_string(list.size()) + " strings"; }
  };
  return std::visit(Text(), value);
}

std::string Metadata::kind_name(const Value& value) {
  constexpr std::array<const char*, std::variant_size_v<Value>> kNames = {"a boolean", "an integer", "a float", "a string", "an array of integers", "an array of floats", "an array of strings"};
  return kNames[value.index()];
}

Error Metadata::wrong_kind(std::string_view key, const Value& value, const std::string& wanted) {
  return Error{ErrorCode::kCorrupt, "metadata key " + shown_text(key) + " = " + value_text(value) + " must be " + wanted, {}};
}

const Value* Metadata::find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

Result<Metadata> Metadata::read(Cursor& cursor, std::uint64_t count) {
  Metadata out;
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto key = cursor.string("metadata key " + std::to_string(i), kMaxKeyBytes);
    if (!key.ok()) return key.error();
    if (key->empty()) return cursor.corrupt("metadata key " + std::to_string(i) + " is empty");
    const std::string what = "metadata key " + shown_text(key.value());
    const auto type = cursor.number<std::uint32_t>("the value type of " + what);
    if (!type.ok()) return type.error();
    auto value = type.value() == kArray ? read_array(cursor, what) : read_scalar(cursor, type.value(), what);
    if (!value.ok()) return value.error();
    if (!out.values_.emplace(std::string(key.value()), std::move(value).value()).second) return cursor.corrupt(what + " stands twice");
  }
  return out;
}

}  // namespace quire::gguf
