// What is written against what an independent script made of the same source and the same measurements, tensor by tensor and byte by byte.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "base/json.h"
#include "folder.h"
#include "kit/temp_dir.h"
#include "model/checkpoint.h"
#include "quantize/job.h"

namespace quire::quantize {
namespace {

using quire::test::TempDir;
using test::kGoldens;

// The form's KV scales in the goldens.
KvScales golden_kv(Form form) { return form == Form::kFp8Dynamic ? KvScales::kNone : form == Form::kCompressedTensors ? KvScales::kHead : KvScales::kTensor; }

JobReport write(Form form, const std::string& dir, std::uint64_t max_shard_bytes = 0) {
  JobSettings settings{.source_dir = kGoldens + "/source", .output_dir = dir, .form = form, .kv = golden_kv(form)};
  settings.max_shard_bytes = max_shard_bytes;
  const model::ModelSpec spec = test::golden_spec();
  auto job = Job::open(settings, spec);
  QUIRE_CHECK(job.ok()) << job.error().message;
  EXPECT_EQ(job.value()->wants_calibration(), form != Form::kFp8Dynamic);
  if (job.value()->wants_calibration()) {
    EXPECT_TRUE(job.value()->calibrate(test::expected_ranges()).ok());
  }
  auto report = job.value()->run([](std::uint64_t, std::uint64_t) {});
  QUIRE_CHECK(report.ok()) << report.error().message;
  return std::move(report).value();
}

void expect_same_tensors(const std::string& got_dir, const std::string& want_dir) {
  const auto got = model::Checkpoint::open(got_dir), want = model::Checkpoint::open(want_dir);
  ASSERT_TRUE(got.ok()) << got.error().message;
  ASSERT_TRUE(want.ok()) << want.error().message;
  for (const auto& [name, w] : want->tensors()) {
    const auto found = got->tensors().find(name);
    ASSERT_NE(found, got->tensors().end()) << name << " is missing";
    EXPECT_EQ(found->second.dtype, w.dtype) << name;
    EXPECT_EQ(found->second.shape, w.shape) << name;
    ASSERT_EQ(found->second.bytes.size(), w.bytes.size()) << name;
    for (std::size_t i = 0; i < w.bytes.size(); ++i) ASSERT_EQ(found->second.bytes[i], w.bytes[i]) << name << " byte " << i;
  }
  EXPECT_EQ(got->tensors().size(), want->tensors().size());
}

class Goldens : public ::testing::TestWithParam<Form> {};

TEST_P(Goldens, EveryTensorIsTheScripts) {
  const std::string golden = kGoldens + "/" + std::string(form_row(GetParam()).name);
  const TempDir dir;
  const JobReport report = write(GetParam(), dir.path() + "/out");
  EXPECT_EQ(report.num_quantised, 14u);
  EXPECT_LT(report.output_bytes, report.source_bytes);
  if (GetParam() == Form::kFp8Block) {
    EXPECT_THAT(report.notes, testing::ElementsAre(testing::HasSubstr("model.layers.0.mlp.gate_proj.weight has 132 rows, no multiple of 128: vLLM refuses such blocks")));
  } else {
    EXPECT_TRUE(report.notes.empty());
  }
  expect_same_tensors(dir.path() + "/out", golden);
  EXPECT_EQ(parse_json_file(dir.path() + "/out/config.json").value(), parse_json_file(golden + "/config.json").value());
  const auto files = test::files_in(dir.path() + "/out");
  const auto source = test::files_in(kGoldens + "/source");
  for (const char* name : {"tokenizer.json", "tokenizer_config.json"}) EXPECT_EQ(files.at(name), source.at(name));
  EXPECT_EQ(files.size(), GetParam() == Form::kModelOpt ? 5u : 4u) << "nothing else is left";
  if (GetParam() == Form::kModelOpt) {
    EXPECT_EQ(parse_json_file(dir.path() + "/out/hf_quant_config.json").value(), parse_json_file(golden + "/hf_quant_config.json").value());
  }
  // All but the new field stays as it was written.
  const std::string config = source.at("config.json");
  EXPECT_TRUE(files.at("config.json").starts_with(config.substr(0, config.rfind('}') - 1)));
}

TEST_P(Goldens, SmallFilesHoldTheSame) {
  const TempDir dir;
  const JobReport report = write(GetParam(), dir.path() + "/out", 16384);
  EXPECT_GT(report.num_files, 4u);
  expect_same_tensors(dir.path() + "/out", kGoldens + "/" + std::string(form_row(GetParam()).name));
  const auto files = test::files_in(dir.path() + "/out");
  EXPECT_TRUE(files.contains("model.safetensors.index.json"));
  for (const auto& [name, content] : files)
    EXPECT_TRUE(!name.ends_with(".safetensors") || content.size() < 16384u + 4096u) << name;
}

INSTANTIATE_TEST_SUITE_P(Forms, Goldens, ::testing::Values(Form::kFp8, Form::kFp8Dynamic, Form::kFp8Block, Form::kCompressedTensors, Form::kQuark, Form::kModelOpt), [](const auto& instance) {
  std::string name;
  for (const char c : form_row(instance.param).name)
    if (c != '-') name += c;
  return name;
});

}  // namespace
}  // namespace quire::quantize
