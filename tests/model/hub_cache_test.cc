// MODEL to a folder: paths, hub ids in a cache laid out as huggingface_hub does, and the words of every failure.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>

#include "kit/temp_dir.h"
#include "model/checkpoint.h"

namespace quire::model {
namespace {

using ::quire::test::TempDir;
using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kHash = "0123456789abcdef0123456789abcdef01234567";

using Variables = std::map<std::string, std::string>;

// Sets variables for one test and puts the old ones back.
class Environment {
 public:
  explicit Environment(const Variables& values) {
    for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "HOME"}) {
      const char* old = std::getenv(name);
      old_.emplace_back(name, old == nullptr ? std::nullopt : std::optional<std::string>(old));
      const auto found = values.find(name);
      if (found == values.end())
        ::unsetenv(name);
      else
        ::setenv(name, found->second.c_str(), 1);
    }
  }
  ~Environment() {
    for (const auto& [name, value] : old_) {
      if (value)
        ::setenv(name.c_str(), value->c_str(), 1);
      else
        ::unsetenv(name.c_str());
    }
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  std::vector<std::pair<std::string, std::optional<std::string>>> old_;
};

// One downloaded repository: blobs, links in the snapshot, a ref.
void make_repository(const TempDir& dir, const std::string& cache, const std::string& folder, const std::string& ref = "main") {
  (void)dir.write(cache + "/" + folder + "/blobs/b1", "{}");
  (void)dir.write(cache + "/" + folder + "/refs/" + ref, kHash);
  const std::filesystem::path snapshot = dir.path() + "/" + cache + "/" + folder + "/snapshots/" + kHash;
  std::filesystem::create_directories(snapshot);
  std::filesystem::create_symlink("../../blobs/b1", snapshot / "config.json");
}

std::string resolved(const std::string& model, const std::string& revision = "") {
  auto dir = resolve_model_dir(model, revision);
  return dir.ok() ? dir.value() : "error: " + dir.error().to_string();
}

TEST(ResolveModelDir, AnExistingFolderWins) {
  TempDir dir;
  (void)dir.write("org/name/config.json", "{}");
  Environment environment(Variables{{"HOME", dir.path()}});
  EXPECT_EQ(resolved(dir.path()), dir.path());
  EXPECT_EQ(resolved("~/org/name"), dir.path() + "/org/name");
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(dir.path());
  EXPECT_EQ(resolved("org/name"), "org/name");
  EXPECT_EQ(resolved("./org/name"), "./org/name");
  std::filesystem::current_path(before);
}

TEST(ResolveModelDir, FindsHubIdsInEveryPlaceOfTheCache) {
  TempDir dir;
  const std::string tail = "/models--org--Some.Name-1B/snapshots/" + kHash;
  for (const char* cache : {"a", "b/hub", "c/huggingface/hub", "d/.cache/huggingface/hub", "e"})
    make_repository(dir, cache, "models--org--Some.Name-1B");
  const std::string root = dir.path();
  struct Case {
    Variables environment;
    std::string expected;
  };
  const Case cases[] = {
      {{{"HF_HUB_CACHE", root + "/a"}, {"HF_HOME", root + "/b"}}, root + "/a"},
      {{{"HF_HUB_CACHE", root + "/a"}, {"HUGGINGFACE_HUB_CACHE", root + "/e"}}, root + "/a"},
      {{{"HUGGINGFACE_HUB_CACHE", root + "/e"}, {"HF_HOME", root + "/b"}}, root + "/e"},
      {{{"HF_HOME", root + "/b"}, {"XDG_CACHE_HOME", root + "/c"}}, root + "/b/hub"},
      {{{"XDG_CACHE_HOME", root + "/c"}, {"HOME", root + "/d"}}, root + "/c/huggingface/hub"},
      {{{"HOME", root + "/d"}}, root + "/d/.cache/huggingface/hub"},
      {{{"HF_HUB_CACHE", ""}, {"HF_HOME", ""}, {"HOME", root + "/d"}}, root + "/d/.cache/huggingface/hub"},
      {{{"HF_HOME", "~/b"}, {"HOME", root}}, root + "/b/hub"},
  };
  for (const Case& c : cases) {
    Environment environment(c.environment);
    EXPECT_EQ(resolved("org/Some.Name-1B"), c.expected + tail);
  }
}

TEST(ResolveModelDir, RevisionsAreRefsOrFullHashes) {
  TempDir dir;
  make_repository(dir, "hub", "models--gpt2");
  (void)dir.write("hub/models--gpt2/refs/refs/pr/3", kHash + "\n");
  Environment environment(Variables{{"HF_HUB_CACHE", dir.path() + "/hub"}});
  const std::string expected = dir.path() + "/hub/models--gpt2/snapshots/" + kHash;
  EXPECT_EQ(resolved("gpt2"), expected);
  EXPECT_EQ(resolved("gpt2", "main"), expected);
  EXPECT_EQ(resolved("gpt2", kHash), expected);
  EXPECT_EQ(resolved("gpt2", "refs/pr/3"), expected);
  EXPECT_THAT(resolved("gpt2", "v2"), AllOf(HasSubstr("revision \"v2\""), HasSubstr("huggingface-cli download gpt2 --revision v2")));
  EXPECT_THAT(resolved("gpt2", std::string(40, 'f')), HasSubstr("huggingface-cli download gpt2 --revision ffff"));
}

TEST(ResolveModelDir, AMissingModelNamesTheCommandAndTheFolder) {
  TempDir dir;
  Environment environment(Variables{{"HF_HUB_CACHE", dir.path() + "/hub"}});
  EXPECT_THAT(resolved("org/name"), AllOf(HasSubstr("with 'hf download org/name'"), HasSubstr("'huggingface-cli download org/name'"),
                                          HasSubstr(dir.path() + "/hub/models--org--name")));
  EXPECT_EQ(resolve_model_dir("org/name", "").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(resolve_model_dir("org/name", "").error().param, "model");
}

TEST(ResolveModelDir, AMissingPathIsCalledAPath) {
  for (const char* model : {"./nope", "../nope", "/nope/nope", "~/nope", "nope/", "a/b/c"})
    EXPECT_THAT(resolved(model), HasSubstr("looks like a path")) << model;
}

TEST(ResolveModelDir, WrongNamesNeverReachTheFileSystem) {
  const Variables cache = {{"HF_HUB_CACHE", "/nonexistent"}};
  Environment environment(cache);
  for (const char* model : {"a b", "org/na..me", "org/-name", "-org/name", "org/name-", "org/na--me", "name.git", "a\\b", "caf\xc3\xa9", "a:b"})
    EXPECT_THAT(resolved(model), HasSubstr("no hub id")) << model;
  EXPECT_THAT(resolved(std::string(97, 'a')), HasSubstr("no hub id"));
  EXPECT_THAT(resolved(""), HasSubstr("must name"));
  EXPECT_THAT(resolved(std::string("a\0b", 3)), HasSubstr("NUL"));
  for (const char* revision : {"../main", "a/../b", "/etc/passwd", "a//b", "a b", "main/", "."})
    EXPECT_THAT(resolved("org/name", revision), HasSubstr("not a branch")) << revision;
}

TEST(ResolveModelDir, BrokenDownloadsAreNamed) {
  TempDir dir;
  make_repository(dir, "hub", "models--org--name");
  Environment environment(Variables{{"HF_HUB_CACHE", dir.path() + "/hub"}});
  std::filesystem::remove(dir.path() + "/hub/models--org--name/blobs/b1");
  EXPECT_THAT(resolved("org/name"), AllOf(HasSubstr("download is not complete"), HasSubstr("huggingface-cli download org/name")));
  (void)dir.write("hub/models--org--name/refs/main", "../../../elsewhere");
  EXPECT_THAT(resolved("org/name"), HasSubstr("not a commit hash"));
  (void)dir.write("hub/models--org--name/refs/main", std::string(100000, 'a'));
  EXPECT_THAT(resolved("org/name"), HasSubstr("over the limit"));
}

TEST(ResolveModelDir, AFileIsNotAFolder) {
  TempDir dir;
  EXPECT_THAT(resolved(dir.write("model.bin", "x")), HasSubstr("is a file; a folder with config.json and safetensors, or a .gguf file, is needed"));
  const std::string gguf = dir.write("model.gguf", "GGUF");
  EXPECT_EQ(resolve_model_dir(gguf, "main").value(), gguf);
  EXPECT_THAT(resolved("none-here.gguf"), HasSubstr("no such folder or GGUF file"));
}

}  // namespace
}  // namespace quire::model
