#include "base/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace quire {
namespace {

Error io_error(const std::string& path, const char* what) {
  return Error{ErrorCode::kIo, path + ": " + what + ": " + std::strerror(errno), {}};
}

// Closes the descriptor on every path out of a function.
struct Descriptor {
  int fd;
  ~Descriptor() { if (fd >= 0) ::close(fd); }
};

// O_NONBLOCK: opening a FIFO whose other end nobody has must not wait; reads of regular files, which are all that is taken, do not know it.
int open_to_read(const std::string& path) { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); }

Result<std::size_t> regular_size(const Descriptor& d, const std::string& path) {
  struct stat st {};
  if (::fstat(d.fd, &st) != 0) return io_error(path, "cannot stat");
  if (!S_ISREG(st.st_mode)) return Error{ErrorCode::kIo, path + ": not a regular file", {}};
  return static_cast<std::size_t>(st.st_size);
}

}  // namespace

Result<std::string> read_file(const std::string& path, std::size_t max_bytes) {
  const Descriptor d{open_to_read(path)};
  if (d.fd < 0) return io_error(path, "cannot open");
  auto size = regular_size(d, path);
  if (!size.ok()) return size.error();
  if (size.value() > max_bytes)
    return Error{ErrorCode::kTooLarge, path + ": " + std::to_string(size.value()) + " bytes is over the limit of " + std::to_string(max_bytes), {}};
  std::string text(size.value(), '\0');
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::read(d.fd, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return io_error(path, "cannot read");
    if (n == 0) return Error{ErrorCode::kIo, path + ": file became shorter while it was read", {}};
    done += static_cast<std::size_t>(n);
  }
  return text;
}

bool file_exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

Result<MappedFile> MappedFile::open(const std::string& path) {
  const Descriptor d{open_to_read(path)};
  if (d.fd < 0) return io_error(path, "cannot open");
  auto size = regular_size(d, path);
  if (!size.ok()) return size.error();
  MappedFile file;
  file.path_ = path;
  file.size_ = size.value();
  if (file.size_ != 0) {
    void* p = ::mmap(nullptr, file.size_, PROT_READ, MAP_PRIVATE, d.fd, 0);
    if (p == MAP_FAILED) return io_error(path, "cannot map");
    file.data_ = static_cast<const std::byte*>(p);
  }
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace quire
