#include "kit/guarded_buffer.h"

#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "reference/rounding.h"

namespace quire::test {
namespace {

constexpr std::size_t kGuardBytes = 256, kAlignment = 64;

std::byte sentinel(std::size_t position) { return static_cast<std::byte>((position * 37 + 11) & 0xff); }

std::uint32_t element_bits(std::span<const std::byte> bytes, std::size_t first, std::size_t width) {
  std::uint32_t bits = 0;
  for (std::size_t i = width; i-- > 0;) bits = bits << 8 | std::to_integer<std::uint32_t>(bytes[first + i]);
  return bits;
}

}  // namespace

void poison(std::span<std::byte> bytes, DType dtype) {
  std::memset(bytes.data(), dtype == DType::kFp8E4m3Fnuz ? 0x80 : 0xff, bytes.size());
  const std::size_t width = dtype_bytes(dtype);
  for (std::size_t i = 0; i + width <= bytes.size(); i += width) QUIRE_CHECK(std::isnan(reference::decode(dtype, element_bits(bytes, i, width))));
}

GuardedBuffer::GuardedBuffer(DType dtype, std::size_t num_elements, std::size_t misalign_bytes)
    : dtype_(dtype), num_bytes_(num_elements * dtype_bytes(dtype)), storage_(num_bytes_ + 2 * kGuardBytes + kAlignment + misalign_bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(storage_.data()) + kGuardBytes;
  start_ = kGuardBytes + (kAlignment - address % kAlignment) % kAlignment + misalign_bytes;
  for (std::size_t i = 0; i < storage_.size(); ++i) storage_[i] = sentinel(i);
  poison(bytes(), dtype);
}

std::span<std::byte> GuardedBuffer::bytes() { return std::span(storage_).subspan(start_, num_bytes_); }
std::span<const std::byte> GuardedBuffer::bytes() const { return std::span(storage_).subspan(start_, num_bytes_); }

TensorView GuardedBuffer::view(std::initializer_list<std::int64_t> shape) {
  TensorView v = TensorView::dense(bytes().data(), dtype_, shape);
  QUIRE_CHECK_EQ(v.num_bytes(), num_bytes_);
  return v;
}

std::string GuardedBuffer::damage() const {
  for (std::size_t i = 0; i < storage_.size(); ++i) {
    const bool inside = i >= start_ && i < start_ + num_bytes_;
    if (inside || storage_[i] == sentinel(i)) continue;
    return "sentinel byte " + std::to_string(static_cast<std::ptrdiff_t>(i) - static_cast<std::ptrdiff_t>(start_)) + " of a payload of " +
           std::to_string(num_bytes_) + " bytes was overwritten";
  }
  return {};
}

std::vector<double> GuardedBuffer::values() const {
  std::vector<double> out;
  const std::size_t width = dtype_bytes(dtype_);
  for (std::size_t i = 0; i < num_bytes_; i += width) out.push_back(reference::decode(dtype_, element_bits(bytes(), i, width)));
  return out;
}

}  // namespace quire::test
