// A fresh folder that disappears with the object.
#pragma once
#include <string>
#include <string_view>

namespace quire::test {

class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }
  // Writes `content` to path()/name and returns that path.
  std::string write(std::string_view name, std::string_view content) const;

 private:
  std::string path_;
};

}  // namespace quire::test
