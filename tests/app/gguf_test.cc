// A GGUF file as MODEL of every command that takes one, and quire export-tokenizer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/value.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/json.h"
#include "kit/gguf_model.h"
#include "program.h"

namespace quire::app_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kFolder = QUIRE_SOURCE_DIR "/models/gsm-tiny";
const std::string kQuestion = "Question: Ada has 3 apples. Ada buys 4 more apples. How many apples does Ada have now?\nAnswer:";

std::string content_of(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

// gsm-tiny in one type, written once for the whole suite.
class Gguf : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    dir_ = new ::quire::test::TempDir();
    for (const char* type : {"BF16", "Q8_0"}) dir_->write(std::string(type) + ".gguf", ::quire::test::gguf_file_of(::quire::test::gguf_model(kFolder, type)));
  }
  static void TearDownTestSuite() { delete dir_; }
  static std::string model(const std::string& type) { return dir_->path() + "/" + type + ".gguf"; }
  static Ended with_model(const std::vector<std::string>& command, const std::string& model, const std::vector<std::string>& more = {}) {
    std::vector<std::string> line = command;
    line.insert(line.end(), {model, "--kv-cache-memory-bytes", "16M", "--max-num-seqs", "4", "--num-threads", "1"});
    line.insert(line.end(), more.begin(), more.end());
    return run_quire(line);
  }
  static ::quire::test::TempDir* dir_;
};
::quire::test::TempDir* Gguf::dir_ = nullptr;

std::string text_of(const Ended& ended) {
  EXPECT_EQ(ended.status, 0) << ended.err;
  return ended.status != 0 ? "" : std::string(parse_json(ended.out).value().at("text").as_string());
}

TEST_F(Gguf, AnswersWithTheTokenizerOfTheFile) {
  const std::vector<std::string> ask{"--prompt", kQuestion, "--json", "--temperature", "0", "--max-tokens", "24"};
  const std::string folder = text_of(with_model({"run"}, kFolder, ask));
  EXPECT_THAT(folder, HasSubstr("7"));
  EXPECT_EQ(text_of(with_model({"run"}, model("BF16"), ask)), folder);
  const Ended quantised = with_model({"run"}, model("Q8_0"), ask);
  EXPECT_THAT(text_of(quantised), HasSubstr("7"));
  EXPECT_THAT(quantised.err, HasSubstr("--gguf-weights 43 Q8_0 matrices stay in their blocks, whose inputs are quantised to int8; every other matrix is float16"));
  auto dequantise = ask;
  dequantise.insert(dequantise.end(), {"--gguf-weights", "dequantised"});
  const Ended dequantised = with_model({"run"}, model("Q8_0"), dequantise);
  EXPECT_THAT(text_of(dequantised), HasSubstr("7"));
  EXPECT_THAT(dequantised.err, HasSubstr("--dtype auto: float16, which the matrices of the GGUF file (43 Q8_0) become while loading"));
}

TEST_F(Gguf, ChatUsesTheTemplateOfTheFile) {
  const std::vector<std::string> ask{"--chat", "--prompt", "Ben has 12 coins. Ben loses 5 coins. How many coins does Ben have now?", "--json", "--temperature", "0", "--max-tokens", "48"};
  EXPECT_EQ(text_of(with_model({"run"}, model("BF16"), ask)), text_of(with_model({"run"}, kFolder, ask)));
}

TEST_F(Gguf, EveryCommandTakesOne) {
  const std::string text = dir_->write("text.txt", [] {
    std::string many;
    for (int i = 0; i < 120; ++i) many += kQuestion + " 3 + 4 = " + std::to_string(i) + "\n";
    return many;
  }());
  const Ended plan = with_model({"plan"}, model("Q8_0"));
  EXPECT_EQ(plan.status, 0) << plan.err;
  EXPECT_THAT(plan.out, HasSubstr("--dtype float16"));
  const Ended explain = with_model({"explain"}, model("Q8_0"));
  EXPECT_EQ(explain.status, 0) << explain.err;
  EXPECT_THAT(explain.out, AllOf(HasSubstr("float16"), HasSubstr("gguf: 43 Q8_0; in blocks: 43 Q8_0")));
  const Ended scales = with_model({"explain"}, model("Q8_0"), {"--scales"});
  EXPECT_EQ(scales.status, 0) << scales.err;
  const Ended doctor = with_model({"doctor"}, model("Q8_0"));
  EXPECT_EQ(doctor.status, 0) << doctor.err;
  EXPECT_THAT(doctor.out, HasSubstr("all passed"));
  const Ended eval = with_model({"eval"}, model("Q8_0"), {"--text", text, "--max-windows", "2"});
  EXPECT_EQ(eval.status, 0) << eval.err;
  EXPECT_THAT(eval.out, HasSubstr("erplexity"));
  const Ended latency = with_model({"bench", "latency"}, model("Q8_0"), {"--batch-size", "2", "--input-len", "8", "--output-len", "2", "--num-iters", "1", "--num-iters-warmup", "1"});
  EXPECT_EQ(latency.status, 0) << latency.err;
  const Ended print = with_model({"serve"}, model("Q8_0"), {"--print-config", "--load-format", "gguf", "--quantization", "gguf"});
  EXPECT_EQ(print.status, 0) << print.err;
  const Ended fp8 = with_model({"run"}, model("BF16"), {"--quantization", "fp8", "--prompt", kQuestion, "--max-tokens", "4"});
  EXPECT_EQ(fp8.status, 0) << fp8.err;
}

TEST_F(Gguf, WhatCannotBeServedIsRefusedByName) {
  const auto error = [&](const std::vector<std::string>& command, const std::string& path, const std::vector<std::string>& more = {}) {
    const Ended ended = with_model(command, path, more);
    EXPECT_NE(ended.status, 0);
    EXPECT_EQ(ended.out, "");
    return ended.err;
  };
  ::quire::test::GgufModel model_without = ::quire::test::gguf_model(kFolder, "Q8_0");
  model_without.without = {"blk.4.ffn_down.weight"};
  const std::string missing = dir_->write("missing.gguf", ::quire::test::gguf_file_of(model_without));
  for (const char* command : {"plan", "doctor"}) EXPECT_THAT(error({command}, missing), AllOf(HasSubstr("missing.gguf"), HasSubstr("1 missing tensors: blk.4.ffn_down.weight")));
  ::quire::test::GgufModel model_unknown = ::quire::test::gguf_model(kFolder, "Q8_0");
  model_unknown.more = [](::quire::test::GgufWriter& w) { w.u32("llama.attention.new_trick", 1); };
  EXPECT_THAT(error({"plan"}, dir_->write("unknown.gguf", ::quire::test::gguf_file_of(model_unknown))), HasSubstr("unknown metadata key \"llama.attention.new_trick\" = 1"));
  const std::string whole = content_of(model("Q8_0"));
  EXPECT_THAT(error({"plan"}, dir_->write("cut.gguf", whole.substr(0, whole.size() / 2))), AllOf(HasSubstr("cut.gguf"), HasSubstr("truncated")));
  EXPECT_THAT(error({"plan"}, dir_->write("other.gguf", "GIF89a, no GGUF")), HasSubstr("not with \"GGUF\""));
  EXPECT_THAT(error({"plan"}, model("Q8_0"), {"--load-format", "safetensors"}), HasSubstr("--load-format safetensors: MODEL is a GGUF file; allowed: auto, gguf, dummy"));
  EXPECT_THAT(error({"plan"}, kFolder, {"--load-format", "gguf"}), HasSubstr("--load-format gguf: MODEL is no GGUF file"));
  EXPECT_THAT(error({"plan"}, kFolder, {"--quantization", "gguf"}), HasSubstr("--quantization gguf: MODEL is no GGUF file"));
  const Ended quantize = run_quire({"quantize", model("Q8_0"), "--format", "fp8", "--output", dir_->path() + "/fp8"});
  EXPECT_NE(quantize.status, 0);
  EXPECT_THAT(quantize.err, HasSubstr("is a GGUF file; quire quantize reads folders of safetensors"));
}

TEST_F(Gguf, ExportsItsTokenizer) {
  const std::string out = dir_->path() + "/tokenizer";
  const Ended exported = run_quire({"export-tokenizer", model("Q8_0"), "--output", out, "--json"});
  ASSERT_EQ(exported.status, 0) << exported.err;
  const auto document = parse_json(exported.out).value();
  EXPECT_EQ(document.at("files").as_array().size(), 3u);
  EXPECT_TRUE(document.at("notes").as_array().empty());
  for (const auto& name : document.at("files").as_array()) EXPECT_TRUE(parse_json_file(out + "/" + std::string(name.as_string())).ok()) << name;
  EXPECT_EQ(parse_json_file(out + "/config.json").value().at("hidden_size").to_number<int>(), 256);
  // The exported folder makes of a text what the file makes of it, template included.
  const std::vector<std::string> ask{"--chat", "--prompt", "Ben has 12 coins.", "--json", "--temperature", "0", "--max-tokens", "16"};
  auto with_folder = ask;
  with_folder.insert(with_folder.end(), {"--tokenizer", out});
  EXPECT_EQ(text_of(with_model({"run"}, model("Q8_0"), with_folder)), text_of(with_model({"run"}, model("Q8_0"), ask)));
  for (const auto& entry : std::filesystem::directory_iterator(dir_->path())) EXPECT_EQ(entry.path().filename().string().find(".partial-"), std::string::npos) << entry.path();
}

TEST_F(Gguf, ExportLeavesWhatIsThereAlone) {
  const std::string out = dir_->path() + "/there";
  std::filesystem::create_directory(out);
  (void)dir_->write("there/tokenizer.json", "mine");
  const Ended refused = run_quire({"export-tokenizer", model("Q8_0"), "--output", out});
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("holds tokenizer.json; --overwrite replaces them"));
  EXPECT_EQ(content_of(out + "/tokenizer.json"), "mine");
  EXPECT_FALSE(std::filesystem::exists(out + "/config.json"));
  (void)dir_->write("there/other.txt", "kept");
  const Ended replaced = run_quire({"export-tokenizer", model("Q8_0"), "--output", out + "/", "--overwrite"});
  ASSERT_EQ(replaced.status, 0) << replaced.err;
  EXPECT_THAT(replaced.out, HasSubstr("tokenizer.json, tokenizer_config.json, config.json"));
  EXPECT_THAT(content_of(out + "/tokenizer.json"), HasSubstr("\"merges\""));
  EXPECT_EQ(content_of(out + "/other.txt"), "kept");
}

// A process of the same id was killed: its folder is in the way and nobody's.
TEST_F(Gguf, ExportPassesOverWhatAKilledOneLeft) {
  const std::string out = dir_->path() + "/again";
  const std::string line = "mkdir '" + out + "'.partial-$$ && exec '" QUIRE_BINARY "' export-tokenizer '" + model("Q8_0") + "' --output '" + out + "' > /dev/null";
  EXPECT_EQ(std::system(line.c_str()), 0);
  EXPECT_TRUE(std::filesystem::exists(out + "/tokenizer.json"));
  std::size_t left = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir_->path())) {
    if (entry.path().filename().string().find("again.partial-") == std::string::npos) continue;
    ++left;
    std::filesystem::remove(entry.path());
  }
  EXPECT_EQ(left, 1u) << "the one that was there, which is not ours to remove";
}

TEST_F(Gguf, ExportSaysWhatItHasReplaced) {
  const std::string out = dir_->path() + "/half";
  std::filesystem::create_directories(out + "/config.json/a folder");
  const Ended ended = run_quire({"export-tokenizer", model("Q8_0"), "--output", out, "--overwrite"});
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.err, AllOf(HasSubstr("/half/config.json: cannot be put there: "), HasSubstr("tokenizer.json, tokenizer_config.json are new there already, and the rest is not")));
}

TEST_F(Gguf, ExportRefusesWhatItCannotRead) {
  const auto error = [](const std::vector<std::string>& more) {
    std::vector<std::string> line{"export-tokenizer"};
    line.insert(line.end(), more.begin(), more.end());
    const Ended ended = run_quire(line);
    EXPECT_EQ(ended.status, 2) << ended.err;
    return ended.err;
  };
  EXPECT_THAT(error({}), AllOf(HasSubstr("MODEL is missing"), HasSubstr("--output is missing: quire export-tokenizer MODEL.gguf --output DIR")));
  EXPECT_THAT(error({kFolder, "--output", dir_->path() + "/x"}), HasSubstr("is a folder, which has its tokenizer's files already"));
  EXPECT_THAT(error({model("Q8_0"), "--output", model("BF16")}), HasSubstr("is a file; a folder is needed"));
  EXPECT_THAT(error({model("Q8_0"), "--output", dir_->path() + "/x", "--kv", "none"}), HasSubstr("--kv"));
  EXPECT_FALSE(std::filesystem::exists(dir_->path() + "/x"));
}

// A tokenizer of an architecture that is not served is exported all the same, without a config.json.
TEST_F(Gguf, ExportSaysWhyThereIsNoConfig) {
  ::quire::test::GgufModel other = ::quire::test::gguf_model(kFolder, "Q8_0");
  other.without = {"general.architecture"};
  other.more = [](::quire::test::GgufWriter& w) { w.text("general.architecture", "wavelet"); };
  const Ended exported = run_quire({"export-tokenizer", dir_->write("wavelet.gguf", ::quire::test::gguf_file_of(other)), "--output", dir_->path() + "/wavelet"});
  ASSERT_EQ(exported.status, 0) << exported.err;
  EXPECT_THAT(exported.out, AllOf(HasSubstr("note: no config.json: "), HasSubstr("general.architecture = \"wavelet\" is not implemented"), Not(HasSubstr("config.json, "))));
  EXPECT_FALSE(std::filesystem::exists(dir_->path() + "/wavelet/config.json"));
}

}  // namespace
}  // namespace quire::app_test
