// Command lines that `quire serve` must refuse: a non-zero exit status, nothing on standard output, and one error that names the flag or
// the file. What the self-check refuses is in tests/commands.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/files.h"
#include "http/fake_server.h"
#include "kit/temp_dir.h"
#include "program.h"

namespace quire::app_test {
namespace {

using ::quire::test::TempDir;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kModel = QUIRE_SOURCE_DIR "/models/gsm-tiny";

// The line after the program's name that holds the error.
std::string error_of(const Ended& ended) {
  const std::string mark = "quire serve: error: ";
  const std::size_t at = ended.err.find(mark);
  EXPECT_NE(at, std::string::npos) << ended.err;
  if (at == std::string::npos) return "";
  EXPECT_EQ(ended.err.find(mark, at + 1), std::string::npos) << "one error: " << ended.err;
  return ended.err.substr(at + mark.size());
}

// Refuses a server on any free port.
std::string refused(std::vector<std::string> line, int status) {
  line.insert(line.begin(), "serve");
  if (std::find(line.begin(), line.end(), "--port") == line.end()) line.insert(line.end(), {"--port", "0"});
  const Ended ended = run_quire(line);
  EXPECT_EQ(ended.status, status) << ended.err;
  EXPECT_EQ(ended.out, "");
  return error_of(ended);
}

// A copy of the shipped model with one file replaced.
class BrokenModel {
 public:
  BrokenModel(const std::string& file, const std::string& content) {
    for (const auto& entry : std::filesystem::directory_iterator(kModel))
      if (entry.is_regular_file() && entry.path().filename() != file) std::filesystem::create_symlink(entry.path(), dir_.path() + "/" + entry.path().filename().string());
    (void)dir_.write(file, content);
  }
  [[nodiscard]] const std::string& path() const { return dir_.path(); }

 private:
  TempDir dir_;
};

std::string shipped(const std::string& file) { return read_file(std::string(kModel) + "/" + file, 64u << 20).value(); }

// `plan` answers for `serve`: what the headers alone refuse, both refuse with the same words.
TEST(Refusal, PlanRefusesWhatServeRefuses) {
  const TempDir dir;
  const std::string goldens = QUIRE_SOURCE_DIR "/tests/golden/fp8/";
  for (const char* file : {"quark/config.json", "quark/model.safetensors", "source/tokenizer.json", "source/tokenizer_config.json"})
    std::filesystem::create_symlink(goldens + file, dir.path() + "/" + std::filesystem::path(file).filename().string());
  const BrokenModel half("model.safetensors", shipped("model.safetensors").substr(0, 100000));
  for (const std::vector<std::string>& line : {std::vector<std::string>{dir.path(), "--kv-cache-dtype", "fp8_e5m2"}, {half.path()}}) {
    std::vector<std::string> plan = line;
    plan.insert(plan.begin(), "plan");
    const Ended ended = run_quire(plan);
    EXPECT_EQ(ended.status, 1) << ended.err;
    EXPECT_EQ(ended.out, "");
    EXPECT_THAT(ended.err, HasSubstr("quire plan: error: " + refused(line, 1)));
  }
}

TEST(Refusal, BrokenCheckpointsNameTheFile) {
  const std::string weights = shipped("model.safetensors");
  EXPECT_THAT(refused({BrokenModel("model.safetensors", weights.substr(0, weights.size() / 2)).path()}, 1), HasSubstr("model.safetensors"));
  EXPECT_THAT(refused({BrokenModel("model.safetensors", "").path()}, 1), HasSubstr("model.safetensors"));
  EXPECT_THAT(refused({BrokenModel("config.json", "{").path()}, 1), HasSubstr("config.json: "));
  EXPECT_THAT(refused({BrokenModel("tokenizer.json", "[]").path()}, 1), HasSubstr("tokenizer"));
  EXPECT_THAT(refused({BrokenModel("generation_config.json", R"({"eos_token_id": [0, 576]})").path()}, 1),
              AllOf(HasSubstr("generation_config.json: eos_token_id holds 576, which is not a token id from 0 to 575"), HasSubstr("--generation-config vllm")));
  EXPECT_THAT(refused({"no/such/folder"}, 1), HasSubstr("MODEL: "));
}

TEST(Refusal, OfAFileCanBePassedOverWhereTheErrorSaysSo) {
  const BrokenModel model("generation_config.json", R"({"top_p": 0})");
  const Ended ended = run_quire({"serve", model.path(), "--generation-config", "vllm", "--print-config"});
  EXPECT_EQ(ended.status, 0) << ended.err;
}

TEST(Refusal, BackendsThatAreNotHere) {
  EXPECT_THAT(refused({kModel, "--attention-backend", "FLASHINFER"}, 1), AllOf(HasSubstr("--attention-backend FLASHINFER: not on this device (cpu)"), HasSubstr("CPU_UNIFIED and CPU_SPLIT")));
  EXPECT_THAT(refused({kModel, "--attention-backend", "ROCM_FAST"}, 1), HasSubstr("--attention-backend ROCM_FAST: not on this device (cpu)"));
  EXPECT_THAT(refused({kModel, "--attention-backend", "CPU_UNIFID"}, 2), HasSubstr("did you mean 'CPU_UNIFIED'"));
}

TEST(Refusal, TooLittleMemory) {
  EXPECT_THAT(refused({kModel, "--kv-cache-memory-bytes", "1M"}, 1), AllOf(HasSubstr("--kv-cache-memory-bytes 1048576: KV pool too small"), HasSubstr("feasible --max-model-len is 336")));
  EXPECT_THAT(refused({kModel, "--num-gpu-blocks-override", "3"}, 1), AllOf(HasSubstr("--num-gpu-blocks-override 3: KV pool too small"), Not(HasSubstr("--kv-cache-memory-bytes"))));
  // A hundred terabytes of pool: more than there is, and on some machines more than there are addresses for.
  EXPECT_THAT(refused({kModel, "--num-gpu-blocks-override", "2147483647"}, 1), AllOf(::testing::ContainsRegex("not enough memory|cannot allocate"), HasSubstr("--num-gpu-blocks-override")));
}

TEST(Refusal, APortInUseIsThePortsFault) {
  const http::test::FakeServer taken([](const std::string&) { return http::test::ServerAnswer(); });
  const std::string port = std::to_string(taken.port());
  EXPECT_THAT(refused({kModel, "--host", "127.0.0.1", "--port", port}, 1),
              AllOf(HasSubstr("cannot listen on port " + port + " of 127.0.0.1: Address already in use; choose another --port, or 0 for any free one"), Not(HasSubstr("--host"))));
}

TEST(Refusal, AnAddressThatIsNotHereIsTheHostsFault) {
  EXPECT_THAT(refused({kModel, "--host", "192.0.2.7"}, 1), HasSubstr("--host: cannot listen on port 0 of 192.0.2.7: Cannot assign requested address"));
  EXPECT_THAT(refused({kModel, "--host", "no.such.name.invalid"}, 1), HasSubstr("--host: cannot listen on port 0 of no.such.name.invalid: "));
  EXPECT_THAT(refused({kModel, "--uds", "/" + std::string(200, 'x')}, 2), HasSubstr("--uds: the path has 201 bytes"));
  EXPECT_THAT(refused({kModel, "--uds", "/no/such/folder/socket"}, 1), HasSubstr("--uds: cannot listen on /no/such/folder/socket: No such file or directory"));
}

TEST(Refusal, SeveralMistakesAreToldAtOnce) {
  const std::string error = refused({BrokenModel("generation_config.json", R"({"top_p": 0})").path(), "--tokenizer", kModel, "--revision", "main"}, 1);
  EXPECT_THAT(error, HasSubstr("top_p = 0"));
  const Ended all = run_quire({"serve", BrokenModel("config.json", R"({"architectures": ["LlamaForCausalLM"], "vocab_size": 0})").path()}, Output::kCaptured, {{"QUIRE_NUM_THREADS", "x"}});
  EXPECT_THAT(error_of(all), AllOf(HasSubstr("2 problems:"), HasSubstr("QUIRE_NUM_THREADS 'x'"), HasSubstr("vocab_size = 0")));
  EXPECT_THAT(refused({kModel, "--block-size", "40", "--served-model-name", "a", "a"}, 2), AllOf(HasSubstr("--block-size 40"), HasSubstr("'a': is given twice")));
}

}  // namespace
}  // namespace quire::app_test
