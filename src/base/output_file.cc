#include "base/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace quire {
namespace {

constexpr char kPartial[] = ".partial";

Error failed(const std::string& path, const char* what) {
  const ErrorCode code = errno == ENOSPC || errno == EDQUOT || errno == EFBIG ? ErrorCode::kResourceExhausted : ErrorCode::kIo;
  return Error{code, path + ": " + what + ": " + std::strerror(errno), {}};
}

Status write_synced(Result<OutputFile> file, std::string_view text) {
  if (!file.ok()) return file.error();
  QUIRE_RETURN_IF_ERROR(file->write(text));
  return file->sync();
}

}  // namespace

Result<OutputFile> OutputFile::open(const std::string& path, std::uint64_t keep_bytes) {
  OutputFile file(path, ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644), keep_bytes);
  if (file.fd_ < 0) return failed(path, "cannot create");
  struct stat st {};
  if (::fstat(file.fd_, &st) != 0) return failed(path, "cannot stat");
  if (!S_ISREG(st.st_mode) && keep_bytes == 0) return file;
  if (static_cast<std::uint64_t>(st.st_size) < keep_bytes) return Error{ErrorCode::kIo, path + ": has " + std::to_string(st.st_size) + " bytes, and " + std::to_string(keep_bytes) + " were written", {}};
  if (::ftruncate(file.fd_, static_cast<off_t>(keep_bytes)) != 0) return failed(path, "cannot be cut");
  if (::lseek(file.fd_, static_cast<off_t>(keep_bytes), SEEK_SET) < 0) return failed(path, "cannot seek");
  return file;
}

Result<OutputFile> OutputFile::create(const std::string& path) {
  OutputFile file(path, ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644), 0);
  if (file.fd_ < 0 && errno == EEXIST) return Error{ErrorCode::kIo, path + ": the file exists; choose another name", {}};
  if (file.fd_ < 0) return failed(path, "cannot create");
  return file;
}

OutputFile::OutputFile(OutputFile&& other) noexcept : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), position_(other.position_) {}

OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(position_, other.position_);
  return *this;
}

OutputFile::~OutputFile() {
  if (fd_ >= 0) ::close(fd_);
}

Status OutputFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed(path_, "cannot write");
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    position_ += static_cast<std::uint64_t>(n);
  }
  return {};
}

Status OutputFile::sync() {  // EINVAL: pipes and devices have no such call
  if (::fsync(fd_) != 0 && errno != EINVAL) return failed(path_, "cannot write to the disk");
  return {};
}

Status write_whole_file(const std::string& path, std::string_view text) {
  const std::string partial = path + kPartial;
  Status done = write_synced(OutputFile::open(partial), text);
  if (done.ok()) done = rename_file(partial, path);
  if (!done.ok()) ::unlink(partial.c_str());
  return done;
}

Status check_whole_file(const std::string& path) {
  const std::string partial = path + kPartial;
  const int fd = ::open(partial.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0) return errno == EEXIST ? Status() : Status(failed(partial, "cannot create"));
  ::close(fd);
  ::unlink(partial.c_str());
  return {};
}

Status write_new_file(const std::string& path, std::string_view text) {
  auto file = OutputFile::create(path);
  if (!file.ok()) return file.error();
  const Status done = write_synced(std::move(file), text);
  if (!done.ok()) ::unlink(path.c_str());
  return done;
}

Status rename_file(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) return failed(to, "cannot be put in place");
  // The name is on the disk only when its folder is.
  const std::size_t slash = to.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : to.substr(0, slash + 1);
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return failed(folder, "cannot be opened");
  const bool synced = ::fsync(fd) == 0 || errno == EINVAL;  // EINVAL: this file system has no such call for folders
  const Status status = synced ? Status() : Status(failed(folder, "cannot write to the disk"));
  ::close(fd);
  return status;
}

}  // namespace quire
