// How far a quantisation is, in a file beside what it writes: what it was asked for, what calibration found, and which files and tensors are
// on the disk. A run that was killed goes on from there. One JSON document a line; a last line without its end is none.
#pragma once
#include <boost/json/object.hpp>
#include <cstddef>
#include <optional>
#include <string>

#include "base/result.h"
#include "quantize/output_file.h"

namespace quire::quantize {

inline constexpr char kJournalFile[] = ".quire-quantize.journal";

struct JournalState {
  boost::json::object settings;                    // as begun with
  std::optional<boost::json::object> calibration;
  std::size_t shards_done = 0;
  std::size_t tensors_done = 0;                    // of the shard after those
};

class Journal {
 public:
  // nullopt: there is none in `dir`. kCorrupt: it cannot be read.
  [[nodiscard]] static Result<std::optional<JournalState>> read(const std::string& dir);
  [[nodiscard]] static Result<Journal> begin(const std::string& dir, const boost::json::object& settings);
  // Goes on with the one that read() found. kUnavailable: another process writes there.
  [[nodiscard]] static Result<Journal> resume(const std::string& dir);

  // Each is on the disk when the call returns; so must be what it speaks of, before.
  [[nodiscard]] Status calibrated(const boost::json::object& calibration);
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
