// A quantisation as files: killed after every tensor and gone on with, the folder that may not be written, the source that changed, the disk
// that is full.
#include "quantize/job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "folder.h"
#include "kit/temp_dir.h"
#include "quantize/journal.h"
#include "base/output_file.h"

namespace quire::quantize {
namespace {

using quire::test::TempDir;
using test::files_in;
using testing::AllOf;
using testing::HasSubstr;

class Jobs : public ::testing::Test {
 protected:
  Jobs() {
    test::copy_folder(test::kGoldens + "/source", dir_.path() + "/source");
    settings_.source_dir = dir_.path() + "/source";
    settings_.output_dir = dir_.path() + "/out";
    settings_.max_shard_bytes = 60000;
    settings_.sync_bytes = 1;
    settings_.text = "a text";
  }

  // Up to the end, or its refusal.
  Result<JobReport> run(const std::function<void(std::uint64_t, std::uint64_t)>& progress = [](std::uint64_t, std::uint64_t) {}) {
    auto job = Job::open(settings_, spec_);
    if (!job.ok()) return job.error();
    if (job.value()->wants_calibration()) {
      ++calibrations_;
      if (const Status s = job.value()->calibrate(test::expected_ranges()); !s.ok()) return s.error();
    }
    return job.value()->run(progress);
  }
  std::string refusal() {
    const auto result = run();
    return result.ok() ? "" : result.error().message;
  }
  // Another process that runs until `number` tensors (and files) are done and is gone then. False: it came to its end.
  bool run_and_die_after(int number) {
    const pid_t child = ::fork();
    if (child == 0) {
      int seen = 0;
      const bool ok = run([&](std::uint64_t, std::uint64_t) {
        if (++seen == number) ::_exit(9);
      }).ok();
      ::_exit(ok ? 0 : 1);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) != 1);
    return WEXITSTATUS(status) == 9;
  }
  // The files of an undisturbed run with the same settings.
  std::map<std::string, std::string> undisturbed() {
    const std::string out = settings_.output_dir;
    settings_.output_dir = dir_.path() + "/undisturbed";
    EXPECT_EQ(refusal(), "");
    auto files = files_in(settings_.output_dir);
    settings_.output_dir = out;
    return files;
  }

  TempDir dir_;
  model::ModelSpec spec_ = test::golden_spec();
  JobSettings settings_;
  int calibrations_ = 0;
};

TEST_F(Jobs, KilledAnywhereItEndsWithTheSameBytes) {
  const auto want = undisturbed();
  int deaths = 0;
  for (int number = 1;; number += 4) {
    std::filesystem::remove_all(settings_.output_dir);
    if (!run_and_die_after(number)) break;
    ++deaths;
    ASSERT_FALSE(std::filesystem::exists(settings_.output_dir + "/config.json")) << "an unfinished checkpoint looks whole";
    calibrations_ = 0;
    const auto report = run();
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_TRUE(report->resumed);
    EXPECT_EQ(calibrations_, 0) << "calibration is not repeated";
    ASSERT_EQ(files_in(settings_.output_dir), want) << "killed after " << number;
  }
  EXPECT_GT(deaths, 8);
}

TEST_F(Jobs, KilledAgainAndAgainItGetsOn) {
  const auto want = undisturbed();
  int deaths = 0;
  while (run_and_die_after(5)) ASSERT_LT(++deaths, 100);
  EXPECT_GT(deaths, 2);
  EXPECT_EQ(files_in(settings_.output_dir), want);
}

// A journal that lost its last line, and a file that was written past what the journal knows.
TEST_F(Jobs, TornEndsAreCutOff) {
  const auto want = undisturbed();
  ASSERT_TRUE(run_and_die_after(9));
  {
    std::ofstream(settings_.output_dir + "/" + kJournalFile, std::ios::app) << "{\"tensors\": 5";
    for (const auto& entry : std::filesystem::directory_iterator(settings_.output_dir))
      if (entry.path().extension() == ".partial") std::ofstream(entry.path(), std::ios::app) << "half a tensor";
  }
  ASSERT_EQ(refusal(), "");
  EXPECT_EQ(files_in(settings_.output_dir), want);
}

TEST_F(Jobs, AWholeCheckpointIsLeftAloneUnlessAsked) {
  ASSERT_EQ(refusal(), "");
  const auto before = files_in(settings_.output_dir);
  EXPECT_THAT(refusal(), AllOf(HasSubstr("--output"), HasSubstr("holds config.json"), HasSubstr("--overwrite")));
  EXPECT_EQ(files_in(settings_.output_dir), before);
  std::ofstream(settings_.output_dir + "/notes.txt") << "mine";
  settings_.overwrite = true;
  settings_.form = Form::kFp8Block;
  settings_.max_shard_bytes = 0;
  ASSERT_EQ(refusal(), "");
  auto after = files_in(settings_.output_dir);
  EXPECT_EQ(after.at("notes.txt"), "mine");
  after.erase("notes.txt");
  EXPECT_EQ(after, undisturbed()) << "files of the old checkpoint are left";
}

TEST_F(Jobs, WhatIsLeftOutOrTooLargeIsTold) {
  std::filesystem::create_directories(settings_.source_dir + "/onnx/deep");
  settings_.max_shard_bytes = 1;
  const auto report = run();
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_THAT(report->notes, ::testing::IsSupersetOf({::testing::Matcher<std::string>(HasSubstr("MODEL's subfolders are not copied: \"onnx\"")),
                                                     ::testing::Matcher<std::string>(::testing::MatchesRegex(".*files of [0-9]+ over --max-shard-size 1: a tensor and its scales stay in one file; the largest is model-[0-9-]+of-[0-9]+.safetensors, [0-9]+ bytes"))}));
  EXPECT_FALSE(std::filesystem::exists(settings_.output_dir + "/onnx"));
}

TEST_F(Jobs, AnyOtherFileIsInTheWayToo) {
  std::filesystem::create_directory(settings_.output_dir);
  std::ofstream(settings_.output_dir + "/notes.txt") << "mine";
  EXPECT_THAT(refusal(), HasSubstr("holds notes.txt"));
  settings_.output_dir = settings_.source_dir;
  settings_.overwrite = true;
  EXPECT_THAT(refusal(), HasSubstr("is MODEL's own folder"));
  settings_.output_dir = dir_.path() + "/source/sub";
  EXPECT_THAT(refusal(), HasSubstr("inside MODEL's own folder"));
  std::ofstream(dir_.path() + "/a_file") << "x";
  settings_.output_dir = dir_.path() + "/a_file/out";
  EXPECT_THAT(refusal(), HasSubstr("cannot be created"));
}

TEST_F(Jobs, OtherSettingsDoNotGoOnWithIt) {
  ASSERT_TRUE(run_and_die_after(9));
  settings_.form = Form::kQuark;
  EXPECT_THAT(refusal(), AllOf(HasSubstr("--format was another one"), HasSubstr("--overwrite begins again")));
  settings_.form = Form::kFp8;
  settings_.text = "another text";
  EXPECT_THAT(refusal(), HasSubstr("--calibration was another one"));
  settings_.text = "a text";
  settings_.max_shard_bytes = 0;
  EXPECT_THAT(refusal(), HasSubstr("--max-shard-size was another one"));
  settings_.overwrite = true;
  const auto report = run();
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_FALSE(report->resumed);
  EXPECT_EQ(files_in(settings_.output_dir), undisturbed());
}

TEST_F(Jobs, AnotherSourceIsNoticed) {
  ASSERT_TRUE(run_and_die_after(9));
  const std::string weights = settings_.source_dir + "/model.safetensors";
  std::filesystem::last_write_time(weights, std::filesystem::last_write_time(weights) + std::chrono::seconds(1));
  EXPECT_THAT(refusal(), AllOf(HasSubstr("the source's model.safetensors was another one"), HasSubstr("--overwrite")));
  std::ofstream(settings_.source_dir + "/a_new_file") << "x";
  EXPECT_THAT(refusal(), HasSubstr("the source's a_new_file was not there"));
}

TEST_F(Jobs, ASourceThatChangesMeanwhileIsNoticed) {
  const auto result = run([&](std::uint64_t done, std::uint64_t total) {
    if (done == total) std::ofstream(settings_.source_dir + "/tokenizer.json", std::ios::app) << " ";
  });
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.error().message, HasSubstr("changed while it was read: the source's tokenizer.json"));
  EXPECT_FALSE(std::filesystem::exists(settings_.output_dir + "/config.json"));
}

TEST_F(Jobs, AFinishedFileThatWasTouchedIsNoticed) {
  const std::string first = settings_.output_dir + "/model-00001-of-00002.safetensors";
  while (!std::filesystem::exists(first)) ASSERT_TRUE(run_and_die_after(5));
  std::filesystem::resize_file(first, 100);
  EXPECT_THAT(refusal(), HasSubstr("model-00001-of-00002.safetensors: was written, and is not as it was left"));
}

// A limit on a file's size is what a full disk looks like to the program: a write that fails.
TEST_F(Jobs, AFullDiskIsNamedAndGoneOnWithLater) {
  const auto want = undisturbed();
  const pid_t child = ::fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{30000, 30000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const auto result = run();
    const bool named = !result.ok() && result.error().code == ErrorCode::kResourceExhausted && result.error().message.find("model-00001-of-00002.safetensors.partial: cannot write: File too large") != std::string::npos;
    ::_exit(named ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  const auto report = run();
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_TRUE(report->resumed);
  EXPECT_EQ(files_in(settings_.output_dir), want);
}

TEST_F(Jobs, TwoDoNotWriteTheSame) {
  ASSERT_TRUE(run_and_die_after(9));
  const auto first = Job::open(settings_, spec_);
  ASSERT_TRUE(first.ok());
  EXPECT_THAT(refusal(), HasSubstr("another quire quantize is writing there"));
}

// Killed between the file's name and the journal's line about it: the file counts, and is not written again.
TEST_F(Jobs, AFileInPlaceThatTheJournalDoesNotKnowCounts) {
  const auto want = undisturbed();
  int deaths_with_files = 0;
  for (int number = 5; number < 40; number += 5) {
    std::filesystem::remove_all(settings_.output_dir);
    if (!run_and_die_after(number)) break;
    const std::string journal = settings_.output_dir + "/" + kJournalFile, text = test::files_in(settings_.output_dir).at(kJournalFile);
    const std::size_t line = text.rfind("{\"shard\":true}\n");
    if (line == std::string::npos) continue;
    std::filesystem::resize_file(journal, line);
    for (const auto& entry : std::filesystem::directory_iterator(settings_.output_dir))
      if (entry.path().extension() == ".partial") std::filesystem::remove(entry.path());
    const auto report = run();
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_GT(report->files_kept, 0u);
    ASSERT_EQ(files_in(settings_.output_dir), want) << "killed after " << number;
    ++deaths_with_files;
  }
  EXPECT_GT(deaths_with_files, 1);
}

// Until nothing can be refused any more, --overwrite leaves the old checkpoint whole; a run that goes on takes none of its files for its own.
TEST_F(Jobs, OverwriteTakesTheOldCheckpointAwayLast) {
  ASSERT_EQ(refusal(), "");
  auto old = files_in(settings_.output_dir);
  settings_.overwrite = true;
  {
    const auto job = Job::open(settings_, spec_);
    ASSERT_TRUE(job.ok()) << job.error().message;
    auto now = files_in(settings_.output_dir);
    EXPECT_EQ(now.erase(kJournalFile), 1u);
    now.erase(kLockFile);
    EXPECT_EQ(now, old);
  }
  settings_.overwrite = false;
  const auto report = run();
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(report->files_kept, 0u);
  EXPECT_EQ(files_in(settings_.output_dir), old);
}

TEST_F(Jobs, OtherFlagsOfCalibrationAreOtherSettings) {
  ASSERT_TRUE(run_and_die_after(9));
  settings_.calibration_flags = {{"--dtype", "float32"}};
  EXPECT_THAT(refusal(), AllOf(HasSubstr("--dtype was another one"), HasSubstr("--overwrite")));
}

TEST_F(Jobs, AQuantisedSourceIsRefusedByName) {
  const std::string config = settings_.source_dir + "/config.json";
  std::filesystem::copy_file(test::kGoldens + "/quark/config.json", config, std::filesystem::copy_options::overwrite_existing);
  EXPECT_THAT(refusal(), AllOf(HasSubstr("is quantised already"), HasSubstr("quantization_config"), HasSubstr("quark")));
  std::filesystem::copy_file(test::kGoldens + "/source/config.json", config, std::filesystem::copy_options::overwrite_existing);
  std::ofstream(settings_.source_dir + "/hf_quant_config.json") << "{}";
  EXPECT_THAT(refusal(), AllOf(HasSubstr("is quantised already"), HasSubstr("hf_quant_config.json")));
}

TEST_F(Jobs, ScalesOfHeadsAreRefusedBeforeAnythingIsWritten) {
  settings_.kv = KvScales::kHead;
  EXPECT_THAT(refusal(), HasSubstr("--kv head"));
  EXPECT_FALSE(std::filesystem::exists(settings_.output_dir));
}

// Other weights beside the tensors would serve unquantised; an explicit null says nothing.
TEST_F(Jobs, OtherWeightsStayBehindAndANullIsNoQuantisation) {
  std::ofstream(settings_.source_dir + "/pytorch_model.bin") << "weights";
  std::ofstream(settings_.source_dir + "/LICENSE") << "free";
  const std::string path = settings_.source_dir + "/config.json";
  std::string config = files_in(settings_.source_dir).at("config.json");
  config.insert(config.find('{') + 1, "\"quantization_config\": null,");
  std::ofstream(path) << config;
  ASSERT_EQ(refusal(), "");
  const auto files = files_in(settings_.output_dir);
  EXPECT_FALSE(files.contains("pytorch_model.bin"));
  EXPECT_EQ(files.at("LICENSE"), "free");
  const std::string& written = files.at("config.json");
  EXPECT_EQ(written.find("quantization_config"), written.rfind("quantization_config")) << "the field is there once";
}

TEST(OutputFile, WhatCannotBeWrittenIsNamed) {
  auto full = OutputFile::open("/dev/full");
  if (full.ok()) {  // a device cannot be cut everywhere
    const Status s = full->write("x");
    ASSERT_FALSE(s.ok());
    EXPECT_EQ(s.error().code, ErrorCode::kResourceExhausted);
    EXPECT_THAT(s.error().message, HasSubstr("/dev/full: cannot write: No space left on device"));
  } else {
    EXPECT_THAT(full.error().message, HasSubstr("/dev/full: cannot be cut"));
  }
  EXPECT_THAT(OutputFile::open("/nowhere/file").error().message, HasSubstr("/nowhere/file: cannot create"));
  const TempDir dir;
  EXPECT_THAT(OutputFile::open(dir.path() + "/short", 10).error().message, HasSubstr("has 0 bytes, and 10 were written"));
}

TEST(Journal, WhatIsNoneIsSaid) {
  const TempDir dir;
  EXPECT_FALSE(Journal::read(dir.path()).value().has_value());
  (void)dir.write(kJournalFile, "");
  EXPECT_THAT(Journal::read(dir.path()).error().message, HasSubstr("it is empty"));
  (void)dir.write(kJournalFile, "{\"settings\": {}}\n{\"what\": 1}\n");
  EXPECT_THAT(Journal::read(dir.path()).error().message, AllOf(HasSubstr("line 2"), HasSubstr("--overwrite")));
  (void)dir.write(kJournalFile, "not json\n");
  EXPECT_FALSE(Journal::read(dir.path()).ok());
}

}  // namespace
}  // namespace quire::quantize
