// A limit on the size of every file of this process, which to a write looks like a full disk.
#pragma once
#include <signal.h>
#include <sys/resource.h>

namespace quire::test {

class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) : handler_(::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &was_);
    const rlimit low{.rlim_cur = bytes, .rlim_max = was_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &low);
  }
  ~FileLimit() {
    ::setrlimit(RLIMIT_FSIZE, &was_);
    ::signal(SIGXFSZ, handler_);
  }
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;

 private:
  sighandler_t handler_;
  rlimit was_{};
};

}  // namespace quire::test
