#include "gguf/file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <set>
#include <tuple>
#include <utility>

#include "base/checked.h"
#include "base/json.h"
#include "gguf/cursor.h"

namespace quire::gguf {
namespace {

constexpr char kMagic[4] = {'G', 'G', 'U', 'F'};
constexpr std::uint64_t kMaxPairs = 1 << 16, kMaxTensors = 1 << 20, kMaxNameBytes = 256;
constexpr std::uint32_t kMaxRank = 4;
constexpr std::int64_t kLeastAlignment = 8, kMostAlignment = 64 << 10;

struct Counts {
  std::uint64_t tensors = 0, pairs = 0;
};

struct Entry {
  Tensor tensor;
  std::uint64_t begin = 0, bytes = 0;  // in the data section
};

Result<Counts> read_header(Cursor& cursor) {
  const auto magic = cursor.number<std::array<char, 4>>("the magic");
  if (!magic.ok()) return magic.error();
  if (std::memcmp(magic->data(), kMagic, sizeof kMagic) != 0) return cursor.corrupt("starts with " + shown_text({magic->data(), magic->size()}) + ", not with \"GGUF\"");
  const auto version = cursor.number<std::uint32_t>("the version");
  if (!version.ok()) return version.error();
  if (version.value() == 1) return cursor.unsupported("is GGUF version 1; versions 2 and 3 are read (convert the model again with a current tool)");
  if ((version.value() & 0xffffu) == 0 && version.value() != 0) return cursor.unsupported("is a big-endian GGUF file; little-endian ones are read");
  if (version.value() != 2 && version.value() != 3) return cursor.unsupported("is GGUF version " + std::to_string(version.value()) + "; versions 2 and 3 are read");
  Counts counts;
  for (const auto& [count, what, most] : {std::tuple(&counts.tensors, "tensors", kMaxTensors), std::tuple(&counts.pairs, "metadata pairs", kMaxPairs)}) {
    const auto n = cursor.number<std::uint64_t>("the number of " + std::string(what));
    if (!n.ok()) return n.error();
    if (n.value() > most) return cursor.corrupt("says that it holds " + std::to_string(n.value()) + " " + what + ", at most " + std::to_string(most) + " are allowed");
    *count = n.value();
  }
  return counts;
}

Status read_shape(Cursor& cursor, Entry& entry, const std::string& what) {
  const auto rank = cursor.number<std::uint32_t>("the rank of " + what);
  if (!rank.ok()) return rank.error();
  if (rank.value() < 1 || rank.value() > kMaxRank) return cursor.corrupt(what + " has " + std::to_string(rank.value()) + " dimensions; 1 to " + std::to_string(kMaxRank) + " are allowed");
  for (std::uint32_t i = 0; i < rank.value(); ++i) {
    const auto length = cursor.number<std::uint64_t>("a dimension of " + what);
    if (!length.ok()) return length.error();
    if (length.value() < 1 || length.value() > static_cast<std::uint64_t>(INT64_MAX)) return cursor.corrupt(what + " has a dimension of " + std::to_string(length.value()));
    entry.tensor.shape.insert(entry.tensor.shape.begin(), static_cast<std::int64_t>(length.value()));
  }
  return {};
}

// Bytes of the tensor: its rows are whole blocks.
Status size_entry(const Cursor& cursor, Entry& entry, const std::string& what) {
  const TypeFacts& facts = facts_of(entry.tensor.type);
  const std::int64_t columns = entry.tensor.shape.back();
  if (columns % facts.block_elements != 0)
    return cursor.corrupt(what + " has rows of " + std::to_string(columns) + " elements, which are no whole blocks of " + std::string(facts.name) + " (" + std::to_string(facts.block_elements) + ")");
  std::optional<std::int64_t> bytes = checked_mul(columns / facts.block_elements, facts.block_bytes);
  for (std::size_t i = 0; i + 1 < entry.tensor.shape.size() && bytes; ++i) bytes = checked_mul(*bytes, entry.tensor.shape[i]);
  if (!bytes) return cursor.corrupt(what + ": the product of its dimensions overflows");
  entry.bytes = static_cast<std::uint64_t>(*bytes);
  return {};
}

Result<Entry> read_entry(Cursor& cursor) {
  const auto name = cursor.string("a tensor's name", kMaxNameBytes);
  if (!name.ok()) return name.error();
  if (name->empty()) return cursor.corrupt("a tensor has an empty name");
  Entry entry;
  entry.tensor.name = name.value();
  const std::string what = "tensor " + shown_text(name.value());
  QUIRE_RETURN_IF_ERROR(read_shape(cursor, entry, what));
  const auto type = cursor.number<std::uint32_t>("the type of " + what);
  if (!type.ok()) return type.error();
  const TypeFacts* facts = type_of_id(type.value());
  if (facts == nullptr) return cursor.unsupported(what + " has type " + type_text(type.value()) + ", which is not read (read are " + all_type_names() + ")");
  entry.tensor.type = facts->type;
  const auto begin = cursor.number<std::uint64_t>("the offset of " + what);
  if (!begin.ok()) return begin.error();
  entry.begin = begin.value();
  QUIRE_RETURN_IF_ERROR(size_entry(cursor, entry, what));
  return entry;
}

// Sorted by position, each tensor starts at the first aligned byte after the one before it, and the last ends the file (padding aside).
Status check_coverage(const Cursor& cursor, const std::vector<Entry>& entries, std::uint64_t data_bytes, std::uint64_t alignment) {
  std::uint64_t end = 0, next = 0;  // of the tensors seen so far; the first byte where the next one may start
  for (const Entry& entry : entries) {
    const std::string what = "tensor " + shown_text(entry.tensor.name);
    if (entry.begin != next)
      return cursor.corrupt(what + " starts at byte " + std::to_string(entry.begin) + " of the data section, " + (entry.begin < end ? "overlapping the tensor before it" : entry.begin % alignment != 0 ? "which is not aligned to " + std::to_string(alignment) : "leaving a gap") +
                            "; " + std::to_string(next) + " was expected");
    if (entry.begin > data_bytes || entry.bytes > data_bytes - entry.begin)
      return cursor.corrupt("truncated: " + what + " takes " + std::to_string(entry.bytes) + " bytes from byte " + std::to_string(entry.begin) + " of a data section of " + std::to_string(data_bytes));
    end = entry.begin + entry.bytes;
    next = round_up(end, alignment);
  }
  if (data_bytes != end && data_bytes != next) return cursor.corrupt(std::to_string(data_bytes - end) + " bytes at the end of the file belong to no tensor");
  return {};
}

}  // namespace

bool is_gguf_path(const std::string& path) { return path.ends_with(".gguf") && file_exists(path); }

Status File::read_alignment() {
  const auto stated = metadata_.get<std::int64_t>("general.alignment");
  if (!stated.ok()) return at_file(stated.error());
  const std::int64_t alignment = stated.value().value_or(static_cast<std::int64_t>(alignment_));
  if (alignment < kLeastAlignment || alignment > kMostAlignment || !std::has_single_bit(static_cast<std::uint64_t>(alignment)))
    return Error{ErrorCode::kCorrupt, name_ + ": general.alignment = " + std::to_string(alignment) + " must be a power of two from " + std::to_string(kLeastAlignment) + " to " + std::to_string(kMostAlignment), {}};
  alignment_ = static_cast<std::uint64_t>(alignment);
  const auto parts = metadata_.get<std::int64_t>("split.count");
  if (!parts.ok()) return at_file(parts.error());
  if (parts.value().value_or(1) > 1)
    return Error{ErrorCode::kUnsupported, name_ + ": is one of " + std::to_string(*parts.value()) + " parts of a split file; join them first (llama-gguf-split --merge)", {}};
  return {};
}

Status File::read_tensors(Cursor& cursor, std::uint64_t count, std::span<const std::byte> bytes) {
  std::vector<Entry> entries;
  std::set<std::string_view> names;
  for (std::uint64_t i = 0; i < count; ++i) {
    auto entry = read_entry(cursor);
    if (!entry.ok()) return entry.error();
    entries.push_back(std::move(entry).value());
  }
  for (const Entry& entry : entries)
    if (!names.insert(entry.tensor.name).second) return cursor.corrupt("tensor " + shown_text(entry.tensor.name) + " stands twice");
  // A file without tensors (a vocabulary alone) may end with its metadata.
  data_offset_ = std::min<std::uint64_t>(round_up(cursor.at(), alignment_), entries.empty() ? bytes.size() : UINT64_MAX);
  if (data_offset_ > bytes.size()) return cursor.corrupt("truncated: the data section would start at byte " + std::to_string(data_offset_) + " of a file of " + std::to_string(bytes.size()));
  std::ranges::stable_sort(entries, {}, &Entry::begin);
  const auto data = bytes.subspan(data_offset_);
  QUIRE_RETURN_IF_ERROR(check_coverage(cursor, entries, data.size(), alignment_));
  for (Entry& entry : entries) {
    entry.tensor.bytes = data.subspan(entry.begin, entry.bytes);
    tensors_.push_back(std::move(entry.tensor));
  }
  return {};
}

Result<File> File::parse(std::span<const std::byte> bytes, const std::string& name) {
  Cursor cursor(bytes, name);
  const auto counts = read_header(cursor);
  if (!counts.ok()) return counts.error();
  auto metadata = Metadata::read(cursor, counts->pairs);
  if (!metadata.ok()) return metadata.error();
  File file;
  file.name_ = name;
  file.metadata_ = std::move(metadata).value();
  QUIRE_RETURN_IF_ERROR(file.read_alignment());
  QUIRE_RETURN_IF_ERROR(file.read_tensors(cursor, counts->tensors, bytes));
  return file;
}

Result<File> File::open(const std::string& path) {
  auto mapped = MappedFile::open(path);
  if (!mapped.ok()) return mapped.error();
  auto file = parse(mapped->bytes(), path);
  if (file.ok()) file->mapped_ = std::move(mapped).value();
  return file;
}

}  // namespace quire::gguf
