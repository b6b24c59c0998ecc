#include "quantize/journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/json/serialize.hpp>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/files.h"
#include "base/json.h"

namespace quire::quantize {
namespace {

namespace json = boost::json;

constexpr std::size_t kMostBytes = std::size_t{256} << 20;

Error unreadable(const std::string& path, const std::string& why) {
  return Error{ErrorCode::kCorrupt, path + ": is no journal of this program (" + why + "); --overwrite begins again", "--output"};
}

std::string path_in(const std::string& dir) { return dir + "/" + kJournalFile; }

// Whole lines only.
Result<std::string> whole_lines(const std::string& path) {
  auto text = read_file(path, kMostBytes);
  if (!text.ok()) return text.error();
  std::string lines = std::move(text).value();
  lines.resize(lines.rfind('\n') == std::string::npos ? 0 : lines.rfind('\n') + 1);
  return lines;
}

// The first line. False, here and below: the line says nothing that is known.
bool take_settings(JournalState& state, json::object& line) {
  json::object* settings = line.contains("settings") ? line["settings"].if_object() : nullptr;
  if (settings != nullptr) state.settings = std::move(*settings);
  return settings != nullptr;
}

// Any later line.
bool take_progress(JournalState& state, json::object& line) {
  if (json::value* calibration = line.if_contains("calibration"); calibration != nullptr && calibration->is_object()) {
    state.calibration = std::move(calibration->get_object());
  } else if (const json::value* tensors = line.if_contains("tensors"); tensors != nullptr && tensors->is_int64() && tensors->get_int64() >= 0) {
    state.tensors_done = static_cast<std::size_t>(tensors->get_int64());
  } else if (line.contains("cleared")) {
    state.cleared = true;
  } else if (line.contains("shard")) {
    ++state.shards_done;
    state.tensors_done = 0;
  } else {
    return false;
  }
  return true;
}

}  // namespace

Result<std::optional<JournalState>> Journal::read(const std::string& dir) {
  const std::string path = path_in(dir);
  if (!file_exists(path)) return std::optional<JournalState>();
  const auto lines = whole_lines(path);
  if (!lines.ok()) return lines.error();
  JournalState state;
  std::size_t at = 0, number = 0;
  while (at < lines->size()) {
    const std::size_t end = lines->find('\n', at);
    auto line = parse_json(std::string_view(lines.value()).substr(at, end - at));
    const auto take = number == 0 ? take_settings : take_progress;
    if (!line.ok() || !line->is_object() || !take(state, line->get_object())) return unreadable(path, "line " + std::to_string(number + 1));
    at = end + 1;
    ++number;
  }
  if (number == 0) return unreadable(path, "it is empty");
  return std::optional(std::move(state));
}

Result<Journal> Journal::open(const std::string& dir, std::uint64_t keep_bytes) {
  auto file = OutputFile::open(path_in(dir), keep_bytes);
  if (!file.ok()) return file.error();
  return Journal(path_in(dir), std::move(file).value());
}

Result<Journal> Journal::begin(const std::string& dir, const json::object& settings) {
  const std::string first = json::serialize(json::object{{"settings", settings}}) + "\n";
  QUIRE_RETURN_IF_ERROR(write_whole_file(path_in(dir), first));
  return open(dir, first.size());
}

Result<Journal> Journal::resume(const std::string& dir) {
  const auto lines = whole_lines(path_in(dir));
  if (!lines.ok()) return lines.error();
  return open(dir, lines->size());
}

Status Journal::add(const json::object& line) {
  QUIRE_RETURN_IF_ERROR(file_.write(json::serialize(line) + "\n"));
  return file_.sync();
}

Status Journal::calibrated(const json::object& calibration) { return add({{"calibration", calibration}}); }
Status Journal::cleared() { return add({{"cleared", true}}); }
Status Journal::tensors_written(std::size_t count) { return add({{"tensors", count}}); }
Status Journal::shard_written() { return add({{"shard", true}}); }

Status Journal::remove() {
  if (::unlink(path_.c_str()) != 0) return Error{ErrorCode::kIo, path_ + ": cannot be removed: " + std::strerror(errno), {}};
  return {};
}

Result<FolderLock> FolderLock::take(const std::string& dir) {
  const std::string path = dir + "/" + kLockFile;
  FolderLock lock(path, ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (lock.fd_ < 0) return Error{ErrorCode::kIo, "--output " + dir + ": cannot be written: " + std::strerror(errno), "--output"};
  struct stat mine {}, there {};
  const bool locked = ::flock(lock.fd_, LOCK_EX | LOCK_NB) == 0;
  // One that ended meanwhile took the file's name away: a lock on a file without a name keeps nobody out.
  const bool named = ::fstat(lock.fd_, &mine) == 0 && ::stat(path.c_str(), &there) == 0 && mine.st_ino == there.st_ino && mine.st_dev == there.st_dev;
  if (locked && named) return lock;
  ::close(std::exchange(lock.fd_, -1));
  return Error{ErrorCode::kUnavailable, "--output " + dir + ": another quire quantize is writing there", "--output"};
}

FolderLock::~FolderLock() {
  if (fd_ < 0) return;
  ::unlink(path_.c_str());
  ::close(fd_);
}

}  // namespace quire::quantize
