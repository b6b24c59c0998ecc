// One GGUF file (version 2 or 3, little-endian): its metadata and tensors, proven to describe the file exactly before anything is read.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "gguf/metadata.h"
#include "gguf/types.h"

namespace quire::gguf {

struct Tensor {
  std::string name;                 // "blk.0.attn_q.weight"
  TensorType type = TensorType::kF32;
  std::vector<std::int64_t> shape;  // 1 to 4 lengths, each at least 1, outermost first ([rows, columns]); the file has them the other way round
  std::span<const std::byte> bytes; // rows of whole blocks; lives as long as the File
};

// True when `path` is a regular file that ends in ".gguf": what a MODEL argument must look like to be read as one.
[[nodiscard]] bool is_gguf_path(const std::string& path);

class File {
 public:
  // Maps and checks. Errors start with the path.
  [[nodiscard]] static Result<File> open(const std::string& path);
  // The same over bytes that outlive the result; `name` starts every error.
  // kUnsupported: version 1, big-endian files, one part of a split file, a tensor type that is not read (with its name). kCorrupt: anything
  // else that is not a whole GGUF file: other magic or version; counts, lengths or shapes over their limits or past the end (checked
  // arithmetic); a name twice; rows that are no whole blocks; an alignment that is no power of two from 8 to 64 KiB; tensors that overlap,
  // leave a gap, or bytes at the end that belong to none.
  [[nodiscard]] static Result<File> parse(std::span<const std::byte> bytes, const std::string& name);

  [[nodiscard]] const Metadata& metadata() const { return metadata_; }
  [[nodiscard]] const std::vector<Tensor>& tensors() const { return tensors_; }  // by position in the file
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::uint64_t data_offset() const { return data_offset_; }
  [[nodiscard]] std::uint64_t alignment() const { return alignment_; }
  // A Metadata error with the file's name in front.
  [[nodiscard]] Error at_file(const Error& error) const { return Error{error.code, name_ + ": " + error.message, error.param}; }

 private:
  File() = default;
  [[nodiscard]] Status read_alignment();
  [[nodiscard]] Status read_tensors(Cursor& cursor, std::uint64_t count, std::span<const std::byte> bytes);

  std::optional<MappedFile> mapped_;
  std::string name_;
  Metadata metadata_;
  std::vector<Tensor> tensors_;
  std::uint64_t data_offset_ = 0, alignment_ = 32;
};

}  // namespace quire::gguf
