// Runs fuzz targets without libFuzzer: every stored input, then damaged copies of them (mutator.h), or the files that are named.
//   fuzz_replay TARGET              the corpus, and as many damaged copies as targets.def says
//   fuzz_replay TARGET FILE...      these inputs alone
// An input that ends the process or runs for too long is left in fuzz-TARGET-input, in the working folder.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/files.h"
#include "fuzz/mutator.h"
#include "fuzz/target.h"
#include "kit/slowdown.h"

namespace quire::fuzz {
namespace {

constexpr unsigned kMaxSeconds = 30 * test::kSlowdown;  // of one input: a bound for hanging

// What the handler needs, without allocation.
std::string running_input, left_in;

extern "C" void leave_input(int signal) {
  const int fd = ::open(left_in.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  [[maybe_unused]] ssize_t n = ::write(fd, running_input.data(), running_input.size());
  n = ::write(STDERR_FILENO, "the input is in ", 16);
  n = ::write(STDERR_FILENO, left_in.data(), left_in.size());
  n = ::write(STDERR_FILENO, signal == SIGALRM ? ": it ran for too long\n" : "\n", signal == SIGALRM ? 22 : 1);
  ::_exit(1);
}

void run(const Target& target, std::string input) {
  running_input = std::move(input);
  ::alarm(kMaxSeconds);
  target.entry({reinterpret_cast<const std::uint8_t*>(running_input.data()), running_input.size()});
  ::alarm(0);
}

std::string read_whole(const std::string& path) {
  auto text = read_file(path, std::size_t{1} << 26);
  QUIRE_CHECK(text.ok()) << text.error().message;
  return std::move(text).value();
}

void replay_and_mutate(const Target& target) {
  const std::string root = QUIRE_SOURCE_DIR "/tests/fuzz/";
  std::vector<std::string> files, corpus;
  for (const auto& found : std::filesystem::directory_iterator(root + std::string(target.corpus))) files.push_back(found.path().string());
  std::sort(files.begin(), files.end());
  for (const std::string& file : files) corpus.push_back(read_whole(file));
  QUIRE_CHECK(!corpus.empty()) << target.corpus << " holds nothing";
  const auto dictionary = parse_dictionary(read_whole(root + std::string(target.dictionary)));
  QUIRE_CHECK(dictionary.ok()) << target.dictionary << ": " << dictionary.error().message;
  for (const std::string& input : corpus) run(target, input);
  std::uint64_t seed = 1469598103934665603ull;  // FNV-1a over the name
  for (const char c : target.name) seed = (seed ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  Mutator mutator(seed, corpus, dictionary.value(), target.max_bytes);
  const int mutations = target.mutations / test::kSlowdown;
  for (int i = 0; i < mutations; ++i) run(target, mutator.next());
  std::printf("%zu stored inputs and %d damaged ones\n", corpus.size(), mutations);
}

int run_program(int argc, char** argv) {
  const auto target = std::ranges::find(kTargets, std::string_view(argc > 1 ? argv[1] : ""), &Target::name);
  if (target == std::end(kTargets)) {
    std::fprintf(stderr, "usage: fuzz_replay TARGET [FILE...]; targets:");
    for (const Target& t : kTargets) std::fprintf(stderr, " %s", t.name.data());
    std::fprintf(stderr, "\n");
    return 2;
  }
  left_in = "fuzz-" + std::string(target->name) + "-input";
  for (const int signal : {SIGALRM, SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) ::signal(signal, leave_input);
  if (argc == 2) replay_and_mutate(*target);
  for (int i = 2; i < argc; ++i) run(*target, read_whole(argv[i]));
  return 0;
}

}  // namespace
}  // namespace quire::fuzz

int main(int argc, char** argv) { return quire::fuzz::run_program(argc, argv); }
