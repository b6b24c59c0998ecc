// Files that are written whole or not at all, on a disk that is full and beside what is there.
#include "base/output_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/files.h"
#include "kit/file_limit.h"
#include "kit/temp_dir.h"

namespace quire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) out.push_back(entry.path().filename().string());
  return out;
}
std::string content_of(const std::string& path) { return read_file(path, 1u << 20).value(); }
const std::string kText(5000, 'x');

TEST(OutputFile, ANewFileIsWholeOrNotThere) {
  const test::TempDir dir;
  const std::string path = dir.path() + "/new";
  {
    const test::FileLimit limit(100);
    const Status full = write_new_file(path, kText);
    EXPECT_EQ(full.error().code, ErrorCode::kResourceExhausted);
    EXPECT_EQ(full.error().message, path + ": cannot write: File too large");
  }
  EXPECT_THAT(names_in(dir.path()), IsEmpty()) << "so that it can be tried again";
  EXPECT_TRUE(write_new_file(path, kText).ok());
  EXPECT_EQ(content_of(path), kText);
  EXPECT_EQ(write_new_file(path, "other").error().message, path + ": the file exists; choose another name");
  EXPECT_EQ(content_of(path), kText);
  EXPECT_THAT(write_new_file(dir.path() + "/no/folder", "x").error().message, HasSubstr("cannot create: No such file or directory"));
}

TEST(OutputFile, AWholeFileReplacesOrLeavesWhatWasThere) {
  const test::TempDir dir;
  const std::string path = dir.write("there", "old");
  {
    const test::FileLimit limit(100);
    EXPECT_EQ(write_whole_file(path, kText).error().message, path + ".partial: cannot write: File too large");
  }
  EXPECT_EQ(content_of(path), "old");
  EXPECT_THAT(names_in(dir.path()), ElementsAre("there"));
  EXPECT_TRUE(write_whole_file(path, kText).ok());
  EXPECT_EQ(content_of(path), kText);
  EXPECT_THAT(names_in(dir.path()), ElementsAre("there"));
}

TEST(OutputFile, CheckingTouchesNothing) {
  const test::TempDir dir;
  const std::string path = dir.write("there", "old");
  EXPECT_TRUE(check_whole_file(path).ok());
  EXPECT_TRUE(check_whole_file(dir.path() + "/new").ok());
  EXPECT_EQ(content_of(path), "old");
  EXPECT_THAT(names_in(dir.path()), ElementsAre("there"));
  EXPECT_THAT(check_whole_file(dir.path() + "/no/folder").error().message, HasSubstr("cannot create: No such file or directory"));
}

}  // namespace
}  // namespace quire
