#include "program.h"

#include <fcntl.h>
#include <signal.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

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

}  // namespace

Ended run_quire(const std::vector<std::string>& arguments, Output output, const std::vector<std::pair<std::string, std::string>>& variables) {
  const ::quire::test::TempDir dir;
  const std::string out_path = dir.path() + "/out", err_path = dir.path() + "/err";
  std::vector<std::string> words{QUIRE_BINARY};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGPIPE, SIG_DFL);
    redirect(output, out_path, err_path);
    for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
    ::alarm(kLongestSeconds);
    ::execv(argv[0], argv.data());
    ::_exit(kCannotStart);
  }
  EXPECT_GT(child, 0) << "fork";
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return {WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status), contents(out_path), contents(err_path)};
}

std::vector<std::string> with_tiny_model(const std::string& command, const std::vector<std::string>& more) {
  std::vector<std::string> line{command, QUIRE_SOURCE_DIR "/models/gsm-tiny", "--kv-cache-memory-bytes", "16M", "--max-num-seqs", "4", "--num-threads", "1"};
  line.insert(line.end(), more.begin(), more.end());
  return line;
}

}  // namespace quire::app_test
