// How far a quantisation is, in a file beside what it writes: what it was asked for, what calibration found, and which files and tensors are
// on the disk. A run that was killed goes on from there. One JSON document a line; a last line without its end is none.
#pragma once
#include <boost/json/object.hpp>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "base/result.h"
#include "base/output_file.h"

namespace quire::quantize {

inline constexpr char kJournalFile[] = ".quire-quantize.journal", kLockFile[] = ".quire-quantize.lock", kOurFiles[] = ".quire-quantize.";

struct JournalState {
  boost::json::object settings;                    // as begun with
  std::optional<boost::json::object> calibration;
  bool cleared = false;                            // an old checkpoint is out of the way; nothing is written before
  std::size_t shards_done = 0;
  std::size_t tensors_done = 0;                    // of the shard after those
};

// Held while a process works in the folder, and taken before anything in it is read or changed. Its file goes with it.
class FolderLock {
 public:
  // kUnavailable: another process has it.
  [[nodiscard]] static Result<FolderLock> take(const std::string& dir);
  FolderLock(FolderLock&& other) noexcept : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}
  FolderLock& operator=(FolderLock&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(fd_, other.fd_);
    return *this;
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock();

 private:
  FolderLock(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  std::string path_;
  int fd_ = -1;
};

class Journal {
 public:
  // nullopt: there is none in `dir`. kCorrupt: it cannot be read.
  [[nodiscard]] static Result<std::optional<JournalState>> read(const std::string& dir);
  [[nodiscard]] static Result<Journal> begin(const std::string& dir, const boost::json::object& settings);
  // Goes on with the one that read() found.
  [[nodiscard]] static Result<Journal> resume(const std::string& dir);

  // Each is on the disk when the call returns; so must be what it speaks of, before.
  [[nodiscard]] Status calibrated(const boost::json::object& calibration);
  [[nodiscard]] Status cleared();
  [[nodiscard]] Status tensors_written(std::size_t count);  // of the shard that is being written
  [[nodiscard]] Status shard_written();
  // Everything is written.
  [[nodiscard]] Status remove();

 private:
  Journal(std::string path, OutputFile file) : path_(std::move(path)), file_(std::move(file)) {}
  [[nodiscard]] static Result<Journal> open(const std::string& dir, std::uint64_t keep_bytes);
  [[nodiscard]] Status add(const boost::json::object& line);
  std::string path_;
  OutputFile file_;
};

}  // namespace quire::quantize
