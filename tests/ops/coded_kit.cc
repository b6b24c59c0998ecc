#include "ops/coded_kit.h"

#include <cmath>
#include <cstring>

#include "base/check.h"
#include "ops/pack.h"
#include "reference/gguf_blocks.h"

namespace quire::test {
namespace {

// Where a block has float16 numbers.
std::vector<std::size_t> half_places(gguf::TensorType type) {
  switch (type) {
    case gguf::TensorType::kQ6K: return {208};
    case gguf::TensorType::kQ4_1: case gguf::TensorType::kQ5_1: case gguf::TensorType::kQ4K: case gguf::TensorType::kQ5K: return {0, 2};
    default: return {0};
  }
}

Float16 random_half(std::mt19937_64& rng) {
  if (rng() % 16 == 0) return Float16{0};
  const double size = std::exp2(static_cast<double>(rng() % 1200) / 100.0 - 10.0);
  return to_float16(static_cast<float>(rng() % 2 == 0 ? size : -size));
}

}  // namespace

std::string random_blocks(gguf::TensorType type, std::int64_t rows, std::int64_t columns, std::mt19937_64& rng, int fill) {
  const gguf::TypeFacts& facts = gguf::facts_of(type);
  QUIRE_CHECK_EQ(columns % facts.block_elements, 0);
  std::string bytes(static_cast<std::size_t>(rows * columns / facts.block_elements * facts.block_bytes), '\0');
  for (char& c : bytes) c = static_cast<char>(fill < 0 ? static_cast<int>(rng() & 0xffu) : fill);
  for (std::size_t block = 0; block < bytes.size(); block += static_cast<std::size_t>(facts.block_bytes))
    for (const std::size_t at : half_places(type)) {
      const Float16 half = random_half(rng);
      std::memcpy(bytes.data() + block + at, &half.bits, sizeof half.bits);
    }
  return bytes;
}

// Bytes are poisoned as e4m3, which has a NaN of one byte.
Int8Acts::Int8Acts(std::int64_t r, std::int64_t c, std::size_t misalign)
    : rows(r), columns(c), buffer(DType::kFp8E4m3, static_cast<std::size_t>(r * c), misalign), floats(DType::kF32, static_cast<std::size_t>(r * ops::kInt8Input.row_floats(c))) {}

ops::ActTensor Int8Acts::tensor() { return ops::ActTensor{TensorView::dense(buffer.bytes().data(), DType::kU8, {rows, columns}), ops::kInt8Input, floats.as<float>().data(), 0}; }

reference::Quantised Int8Acts::numbers() {
  const std::int64_t groups = columns / 32, width = columns / 32 + columns / 16;
  reference::Quantised out{reference::Matrix(rows, columns), reference::Matrix(rows, groups)};
  const auto stored = buffer.as<std::int8_t>();
  for (std::size_t i = 0; i < stored.size(); ++i) out.stored.values[i] = stored[i];
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t g = 0; g < groups; ++g) out.scales.at(r, g) = static_cast<double>(floats.as<float>()[static_cast<std::size_t>(r * width + g)]);
  return out;
}

reference::Matrix Int8Acts::sums() {
  const std::int64_t width = columns / 32 + columns / 16;
  reference::Matrix out(rows, columns / 16);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t g = 0; g < out.cols; ++g) out.at(r, g) = static_cast<double>(floats.as<float>()[static_cast<std::size_t>(r * width + columns / 32 + g)]);
  return out;
}

CodedWeight::CodedWeight(const std::vector<Part>& parts, std::int64_t k, bool with_bias, std::mt19937_64& rng, int fill) {
  weight.k = k;
  weight.input = ops::kInt8Input;
  weight.num_parts = static_cast<int>(parts.size());
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const std::string bytes = random_blocks(parts[p].type, parts[p].rows, k, rng, fill);
    const ops::WeightFormat format = ops::coded_format(parts[p].type);
    GuardedBuffer& place = memory.emplace_back(DType::kFp8E4m3, ops::coded_bytes(format, parts[p].rows, k));
    const Status packed = ops::pack_gguf_rows({"w", parts[p].type, std::as_bytes(std::span(bytes)), parts[p].rows, k}, place.bytes().data());
    QUIRE_CHECK(packed.ok() && place.damage().empty()) << place.damage();
    weight.first_rows[p] = weight.n;
    weight.coded[p] = {format, place.bytes().data()};
    weight.n += parts[p].rows;
    const std::vector<double> numbers = reference::gguf_dequantise(gguf::facts_of(parts[p].type).name, std::as_bytes(std::span(bytes)));
    values.values.insert(values.values.end(), numbers.begin(), numbers.end());
  }
  weight.format = weight.coded[0].format;
  values = reference::Matrix(weight.n, k, std::move(values.values));
  if (with_bias)
    for (std::int64_t n = 0; n < weight.n; ++n) bias.push_back(static_cast<float>(static_cast<double>(rng() % 2000) / 500.0 - 2.0));
  weight.bias = bias.empty() ? nullptr : bias.data();
}

reference::Coded CodedWeight::numbers(std::int64_t output) const {
  int part = 0;
  while (output >= weight.end_row(part)) ++part;
  const auto p = static_cast<std::size_t>(part);
  const ops::CodedLayout& layout = ops::coded_layout(weight.coded[p].format);
  const std::int64_t groups = weight.k / layout.group;
  reference::Coded out{reference::Matrix(1, weight.k), reference::Matrix(1, groups), reference::Matrix(1, groups), layout.group};
  for (std::int64_t g = 0; g < groups; ++g) {
    const ops::CodedGroup group = ops::coded_group(layout, weight.k, weight.coded[p].packed, output - weight.first_rows[p], g);
    out.scales.at(0, g) = static_cast<double>(group.scale);
    out.offsets.at(0, g) = static_cast<double>(group.offset);
    for (std::int64_t i = 0; i < layout.group; ++i) out.codes.at(0, g * layout.group + i) = group.codes[static_cast<std::size_t>(i)];
  }
  return out;
}

}  // namespace quire::test
