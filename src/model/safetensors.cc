#include "model/safetensors.h"

#include <algorithm>
#include <array>
#include <boost/json/value.hpp>
#include <tuple>
#include <utility>

#include "base/checked.h"
#include "model/json_fields.h"

namespace quire::model {
namespace {

namespace json = boost::json;

constexpr std::size_t kLengthBytes = 8;
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
constexpr std::size_t kMaxDepth = 8;  // the format needs 3
constexpr std::size_t kMaxRank = 8;

constexpr std::array<std::pair<std::string_view, std::size_t>, 15> kDtypes = {{{"F64", 8},
                                                                               {"F32", 4},
                                                                               {"F16", 2},
                                                                               {"BF16", 2},
                                                                               {"F8_E4M3", 1},
                                                                               {"F8_E5M2", 1},
                                                                               {"I64", 8},
                                                                               {"I32", 4},
                                                                               {"I16", 2},
                                                                               {"I8", 1},
                                                                               {"U64", 8},
                                                                               {"U32", 4},
                                                                               {"U16", 2},
                                                                               {"U8", 1},
                                                                               {"BOOL", 1}}};

Error corrupt(const std::string& file, const std::string& text) { return Error{ErrorCode::kCorrupt, file + ": " + text, {}}; }

std::uint64_t little_endian_u64(std::span<const std::byte> bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) value |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  return value;
}

Result<std::uint64_t> header_length(std::span<const std::byte> bytes, const std::string& file) {
  if (bytes.size() < kLengthBytes)
    return corrupt(file, "truncated: " + std::to_string(bytes.size()) + " bytes, a safetensors file starts with an 8-byte header length");
  const std::uint64_t length = little_endian_u64(bytes);
  if (length > kMaxHeaderBytes)
    return corrupt(
        file, "header length " + std::to_string(length) + " is over the limit of " + std::to_string(kMaxHeaderBytes) + " (not a safetensors file?)");
  if (length > bytes.size() - kLengthBytes)
    return corrupt(file, "truncated: the header takes " + std::to_string(length) + " bytes, the file has " +
                             std::to_string(bytes.size() - kLengthBytes) + " after the length");
  return length;
}

// Non-negative integers only: a fraction or an exponent is not how the format writes counts.
Result<std::vector<std::int64_t>> counts(const json::value* value, const std::string& file, const std::string& field) {
  const json::array* list = value == nullptr ? nullptr : value->if_array();
  if (list == nullptr) return corrupt(file, field + " must be a list of non-negative integers");
  std::vector<std::int64_t> out;
  for (const json::value& element : *list) {
    const std::int64_t* n = element.if_int64();
    if (n == nullptr || *n < 0) return corrupt(file, field + " holds " + shown(element) + ", which is not a non-negative integer below 2^63");
    out.push_back(*n);
  }
  return out;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

// Shape x element size must be the length of the range.
Status check_size(const SafetensorsEntry& entry, const std::string& file, const std::string& tensor) {
  std::int64_t expected = static_cast<std::int64_t>(safetensors_dtype_bytes(entry.dtype));
  for (const std::int64_t length : entry.shape) {
    const auto product = checked_mul(expected, length);
    if (!product) return corrupt(file, tensor + ": shape " + shape_text(entry.shape) + " overflows");
    expected = *product;
  }
  const std::uint64_t actual = entry.end - entry.begin;
  if (static_cast<std::uint64_t>(expected) != actual)
    return corrupt(file, tensor + ": shape " + shape_text(entry.shape) + " of " + entry.dtype + " takes " + std::to_string(expected) +
                             " bytes, data_offsets span " + std::to_string(actual));
  return {};
}

Result<SafetensorsEntry> parse_entry(std::string_view name, const json::value& value, std::uint64_t data_bytes, const std::string& file) {
  const std::string tensor = "tensor " + shown_text(name);
  const json::object* fields = value.if_object();
  if (name.empty()) return corrupt(file, "a tensor has an empty name");
  if (fields == nullptr) return corrupt(file, tensor + ": must be an object with dtype, shape and data_offsets");
  for (const auto& field : *fields)
    if (field.key() != "dtype" && field.key() != "shape" && field.key() != "data_offsets")
      return corrupt(file, tensor + ": unknown field " + shown_text({field.key().data(), field.key().size()}));
  SafetensorsEntry entry;
  entry.name = name;
  const json::value* dtype = fields->if_contains("dtype");
  if (dtype == nullptr || !dtype->is_string()) return corrupt(file, tensor + ": dtype must be a string");
  entry.dtype.assign(dtype->get_string().data(), dtype->get_string().size());
  if (safetensors_dtype_bytes(entry.dtype) == 0)
    return Error{ErrorCode::kUnsupported, file + ": " + tensor + ": dtype " + shown_text(entry.dtype) + " is not known to this build", {}};
  auto shape = counts(fields->if_contains("shape"), file, tensor + ": shape");
  if (!shape.ok()) return shape.error();
  if (shape->size() > kMaxRank)
    return corrupt(file, tensor + ": " + std::to_string(shape->size()) + " dimensions, at most " + std::to_string(kMaxRank) + " are allowed");
  entry.shape = std::move(shape).value();
  auto offsets = counts(fields->if_contains("data_offsets"), file, tensor + ": data_offsets");
  if (!offsets.ok()) return offsets.error();
  if (offsets->size() != 2) return corrupt(file, tensor + ": data_offsets must be [begin, end]");
  entry.begin = static_cast<std::uint64_t>(offsets.value()[0]);
  entry.end = static_cast<std::uint64_t>(offsets.value()[1]);
  if (entry.begin > entry.end || entry.end > data_bytes)
    return corrupt(file, tensor + ": data_offsets [" + std::to_string(entry.begin) + ", " + std::to_string(entry.end) +
                             ") leave the data section of " + std::to_string(data_bytes) + " bytes (truncated file?)");
  QUIRE_RETURN_IF_ERROR(check_size(entry, file, tensor));
  return entry;
}

Status check_metadata(const json::value& value, const std::string& file) {
  const json::object* fields = value.if_object();
  if (fields == nullptr) return corrupt(file, "__metadata__ must be an object of strings");
  for (const auto& field : *fields)
    if (!field.value().is_string())
      return corrupt(file, "__metadata__ entry " + shown_text({field.key().data(), field.key().size()}) + " must be a string");
  return {};
}

// Entries sorted by position must follow each other from 0 to the end of the data section.
Status check_coverage(const std::vector<SafetensorsEntry>& entries, std::uint64_t data_bytes, const std::string& file) {
  std::uint64_t covered = 0;  // [0, covered) belongs to entries seen so far
  for (const SafetensorsEntry& entry : entries) {
    if (entry.begin != covered)
      return corrupt(file, "tensor " + shown_text(entry.name) + " starts at byte " + std::to_string(entry.begin) + " of the data section, " +
                               (entry.begin < covered ? "overlapping the tensor before it, which ends at " : "leaving a gap after byte ") +
                               std::to_string(covered));
    covered = entry.end;
  }
  if (covered != data_bytes)
    return corrupt(file, std::to_string(data_bytes - covered) + " bytes at the end of the data section belong to no tensor (" +
                             std::to_string(covered) + " of " + std::to_string(data_bytes) + " covered)");
  return {};
}

}  // namespace

std::size_t safetensors_dtype_bytes(std::string_view dtype) {
  for (const auto& [name, bytes] : kDtypes)
    if (name == dtype) return bytes;
  return 0;
}

Result<SafetensorsHeader> parse_safetensors(std::span<const std::byte> file_bytes, const std::string& file) {
  auto length = header_length(file_bytes, file);
  if (!length.ok()) return length.error();
  const std::string_view text(reinterpret_cast<const char*>(file_bytes.data()) + kLengthBytes, length.value());
  if (text.empty() || text.front() != '{') return corrupt(file, "the header must start with '{'");
  auto parsed = parse_object(text, file + ": header", {.max_bytes = kMaxHeaderBytes, .max_depth = kMaxDepth});
  if (!parsed.ok()) return parsed.error();
  SafetensorsHeader header;
  header.data_offset = kLengthBytes + length.value();
  const std::uint64_t data_bytes = file_bytes.size() - header.data_offset;
  const json::object& object = parsed.value().get_object();
  header.entries.reserve(object.size());
  for (const auto& field : object) {
    const std::string_view name(field.key().data(), field.key().size());
    if (name == "__metadata__") {
      QUIRE_RETURN_IF_ERROR(check_metadata(field.value(), file));
      continue;
    }
    auto entry = parse_entry(name, field.value(), data_bytes, file);
    if (!entry.ok()) return entry.error();
    header.entries.push_back(std::move(entry).value());
  }
  std::sort(header.entries.begin(), header.entries.end(),
            [](const SafetensorsEntry& a, const SafetensorsEntry& b) { return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name); });
  QUIRE_RETURN_IF_ERROR(check_coverage(header.entries, data_bytes, file));
  return header;
}

}  // namespace quire::model
