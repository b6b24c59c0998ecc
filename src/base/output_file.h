// A file being written: every byte or an error that names the path and the system's reason (a full disk, a limit, a folder that is gone).
// Knows no format.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace quire {

class OutputFile {
 public:
  // Created, or cut to its first `keep_bytes`, where writing goes on. kIo when it is shorter than that. A device or pipe is opened as it is.
  [[nodiscard]] static Result<OutputFile> open(const std::string& path, std::uint64_t keep_bytes = 0);
  // A new file; an error when there is one already.
  [[nodiscard]] static Result<OutputFile> create(const std::string& path);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&& other) noexcept;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  [[nodiscard]] Status write(std::span<const std::byte> bytes);
  [[nodiscard]] Status write(std::string_view text) { return write(std::as_bytes(std::span(text))); }
  // What was written is on the disk.
  [[nodiscard]] Status sync();
  [[nodiscard]] std::uint64_t position() const { return position_; }

 private:
  OutputFile(std::string path, int fd, std::uint64_t position) : path_(std::move(path)), fd_(fd), position_(position) {}
  std::string path_;
  int fd_ = -1;
  std::uint64_t position_ = 0;
};

// The whole of `text` under `path`, which appears at once or not at all (through `path`.partial, of which nothing is left).
[[nodiscard]] Status write_whole_file(const std::string& path, std::string_view text);
// Whether that can begin: nothing that is there is touched, and nothing is left.
[[nodiscard]] Status check_whole_file(const std::string& path);
// The whole of `text` under a name that is free; otherwise, and on a failure, there is nothing of it.
[[nodiscard]] Status write_new_file(const std::string& path, std::string_view text);
[[nodiscard]] Status rename_file(const std::string& from, const std::string& to);

}  // namespace quire
