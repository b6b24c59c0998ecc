#include "kit/temp_dir.h"

#include <filesystem>
#include <fstream>

#include "base/check.h"

namespace quire::test {

TempDir::TempDir() {
  std::string pattern = (std::filesystem::temp_directory_path() / "quire-test-XXXXXX").string();
  QUIRE_CHECK(::mkdtemp(pattern.data()) != nullptr);
  path_ = pattern;
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TempDir::write(std::string_view name, std::string_view content) const {
  const auto target = std::filesystem::path(path_) / name;
  std::filesystem::create_directories(target.parent_path());
  std::ofstream(target, std::ios::binary) << content;
  return target.string();
}

}  // namespace quire::test
