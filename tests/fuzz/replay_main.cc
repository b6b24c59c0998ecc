// Runs a fuzz target over stored inputs, for compilers without libFuzzer: every argument is a file or a folder of files.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "base/files.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

bool replay(const std::string& path) {
  auto text = quire::read_file(path, std::size_t{1} << 30);
  if (!text.ok()) {
    std::fprintf(stderr, "%s\n", text.error().message.c_str());
    return false;
  }
  (void)LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.value().data()), text.value().size());
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> files;
  for (int i = 1; i < argc; ++i) {
    if (!std::filesystem::is_directory(argv[i])) {
      files.emplace_back(argv[i]);
      continue;
    }
    for (const auto& found : std::filesystem::recursive_directory_iterator(argv[i]))
      if (found.is_regular_file()) files.push_back(found.path().string());
  }
  bool all = !files.empty();
  for (const std::string& file : files) all = replay(file) && all;
  std::printf("%zu inputs replayed\n", files.size());
  return all ? 0 : 1;
}
