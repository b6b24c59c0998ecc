#include "program.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <optional>

#include "base/files.h"
#include "kit/temp_dir.h"

namespace quire::app_test {
namespace {

constexpr unsigned kLongestSeconds = 120;
constexpr int kCannotStart = 127;

std::string contents(const std::string& path) {
  auto text = read_file(path, 64u << 20);
  return text.ok() ? std::move(text).value() : std::string();
}

int writable(const std::string& path) { return ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600); }

// In the child: standard output and error as asked for.
void redirect(Output output, const std::string& out_path, const std::string& err_path) {
  ::dup2(writable(err_path), STDERR_FILENO);
  int pipe_ends[2] = {-1, -1};
  switch (output) {
    case Output::kCaptured: ::dup2(writable(out_path), STDOUT_FILENO); return;
    case Output::kFullDevice: ::dup2(::open("/dev/full", O_WRONLY), STDOUT_FILENO); return;
    case Output::kReaderGone:
      if (::pipe(pipe_ends) != 0) ::_exit(kCannotStart);
      ::dup2(pipe_ends[1], STDOUT_FILENO);
      ::close(pipe_ends[0]);
      ::close(pipe_ends[1]);
      return;
    case Output::kClosed: ::close(STDOUT_FILENO); return;
  }
}

int exit_status(pid_t child) {
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

// In the child: becomes the program. `longest` seconds, then SIGALRM ends it.
[[noreturn]] void become_quire(const std::vector<std::string>& arguments, unsigned longest) {
  std::vector<std::string> words{QUIRE_BINARY};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  ::alarm(longest);
  ::execv(argv[0], argv.data());
  ::_exit(kCannotStart);
}

using Variables = std::vector<std::pair<std::string, std::string>>;

Ended run_with(const std::vector<std::string>& arguments, Output output, const Variables& variables, const std::optional<std::string>& input) {
  const ::quire::test::TempDir dir;
  const std::string out_path = dir.path() + "/out", err_path = dir.path() + "/err";
  int pipe_ends[2] = {-1, -1};
  EXPECT_EQ(::pipe(pipe_ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    redirect(output, out_path, err_path);
    if (input.has_value()) ::dup2(pipe_ends[0], STDIN_FILENO);
    ::close(pipe_ends[0]);
    ::close(pipe_ends[1]);
    for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
    become_quire(arguments, kLongestSeconds);
  }
  EXPECT_GT(child, 0) << "fork";
  ::close(pipe_ends[0]);
  if (input.has_value()) {
    EXPECT_EQ(::write(pipe_ends[1], input->data(), input->size()), static_cast<ssize_t>(input->size())) << "it fits a pipe";
  }
  ::close(pipe_ends[1]);
  const int status = exit_status(child);
  return {status, contents(out_path), contents(err_path)};
}

}  // namespace

Ended run_quire(const std::vector<std::string>& arguments, Output output, const std::vector<std::pair<std::string, std::string>>& variables) { return run_with(arguments, output, variables, std::nullopt); }

Ended run_quire_with_input(const std::vector<std::string>& arguments, const std::string& input, const std::vector<std::pair<std::string, std::string>>& variables) {
  return run_with(arguments, Output::kCaptured, variables, input);
}

RunningServer::RunningServer(const std::vector<std::string>& more) {
  std::vector<std::string> flags{"--host", "127.0.0.1", "--port", "0", "--served-model-name", "gsm-tiny"};
  flags.insert(flags.end(), more.begin(), more.end());
  const std::vector<std::string> line = with_tiny_model("serve", flags);
  const std::string err_path = dir_.path() + "/err";
  child_ = ::fork();
  if (child_ == 0) {
    redirect(Output::kCaptured, dir_.path() + "/out", err_path);
    ::setenv("QUIRE_LOG_LEVEL", "info", 1);
    become_quire(line, 5 * kLongestSeconds);
  }
  const std::string mark = "serving gsm-tiny on ";
  for (unsigned i = 0; i < kLongestSeconds * 20; ++i) {
    const std::string said = log();
    const std::size_t at = said.find(mark), end = at == std::string::npos ? at : said.find('\n', at);
    if (end != std::string::npos) {
      url_ = said.substr(at + mark.size(), end - at - mark.size());
      return;
    }
    if (::waitpid(child_, nullptr, WNOHANG) == child_) {
      child_ = -1;
      return;
    }
    ::usleep(50'000);
  }
}

RunningServer::~RunningServer() {
  if (child_ <= 0) return;
  ::kill(child_, SIGTERM);
  EXPECT_EQ(exit_status(child_), 0) << log();
}

std::string RunningServer::log() const { return contents(dir_.path() + "/err"); }

Terminal::Terminal(const std::vector<std::string>& arguments) {
  const int master = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  EXPECT_EQ(::grantpt(master), 0);
  EXPECT_EQ(::unlockpt(master), 0);
  const std::string name = ::ptsname(master);
  child_ = ::fork();
  if (child_ == 0) {
    ::setsid();
    const int end = ::open(name.c_str(), O_RDWR);  // the first terminal of a session controls it: Ctrl-C becomes SIGINT
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(end, fd);
    if (end > STDERR_FILENO) ::close(end);
    ::unsetenv("QUIRE_LOG_LEVEL");
    become_quire(arguments, kLongestSeconds);
  }
  master_ = master;
}

Terminal::~Terminal() {
  if (child_ > 0) {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  ::close(master_);
}

void Terminal::type(const std::string& keys) { EXPECT_EQ(::write(master_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size())); }

bool Terminal::shows(const std::string& text) {
  for (unsigned i = 0; i < kLongestSeconds * 10; ++i) {
    const std::size_t at = shown_.find(text, seen_);
    if (at != std::string::npos) {
      seen_ = at + text.size();
      return true;
    }
    pollfd wait{master_, POLLIN, 0};
    if (::poll(&wait, 1, 100) <= 0) continue;
    std::array<char, 4096> bytes;
    const ssize_t got = ::read(master_, bytes.data(), bytes.size());
    if (got <= 0) return shown_.find(text, seen_) != std::string::npos;
    shown_.append(bytes.data(), static_cast<std::size_t>(got));
  }
  return false;
}

int Terminal::wait() {
  (void)shows("text that is never shown: reads what is left, so that the program cannot wait for a reader");
  const int status = exit_status(child_);
  child_ = -1;
  return status;
}

std::vector<std::string> with_tiny_model(const std::string& command, const std::vector<std::string>& more) {
  std::vector<std::string> line{command, QUIRE_SOURCE_DIR "/models/gsm-tiny", "--kv-cache-memory-bytes", "16M", "--max-num-seqs", "4", "--num-threads", "1"};
  line.insert(line.end(), more.begin(), more.end());
  return line;
}

}  // namespace quire::app_test
