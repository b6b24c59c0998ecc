// The registry of environment variables.
#include "config/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace quire::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

Environment read(const EnvVariables& variables) {
  auto result = read_environment(variables);
  EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
  return result.ok() ? std::move(result).value() : Environment{};
}

std::string error(const EnvVariables& variables) {
  const auto result = read_environment(variables);
  return result.ok() ? "" : result.error().message;
}

TEST(Environment, TypedValues) {
  const Environment env = read({{"QUIRE_LOG_LEVEL", "debug"},
                                {"QUIRE_NUM_THREADS", "4"},
                                {"QUIRE_CPU_ISA", "avx2"},
                                {"VLLM_API_KEY", "k"},
                                {"VLLM_ALLOW_LONG_MAX_MODEL_LEN", "1"},
                                {"VLLM_HTTP_TIMEOUT_KEEP_ALIVE", "7"},
                                {"VLLM_LOG_STATS_INTERVAL", "0.5"},
                                {"VLLM_CPU_KVCACHE_SPACE", "3"},
                                {"PATH", "x"},
                                {"HF_HOME", "/x"}});
  EXPECT_EQ(env.log_level, "debug");
  EXPECT_EQ(env.num_threads, 4);
  EXPECT_EQ(env.cpu_isa, "avx2");
  EXPECT_EQ(env.api_key, "k");
  EXPECT_TRUE(env.allow_long_max_model_len);
  EXPECT_EQ(env.keep_alive_seconds, 7);
  EXPECT_EQ(env.log_stats_interval_seconds, 0.5);
  EXPECT_EQ(env.kv_cache_gib, 3);
  EXPECT_THAT(env.notes, IsEmpty());
}

TEST(Environment, ZeroIsFalseAndEmptyIsUnset) {
  EXPECT_FALSE(read({{"VLLM_ALLOW_LONG_MAX_MODEL_LEN", "0"}}).allow_long_max_model_len);
  const Environment env = read({{"VLLM_API_KEY", ""}, {"QUIRE_NUM_THREADS", ""}, {"VLLM_CPU_KVCACHE_SPACE", "0"}});
  EXPECT_FALSE(env.api_key.has_value() || env.num_threads.has_value() || env.kv_cache_gib.has_value());
}

TEST(Environment, LogLevelOfBothNames) {
  EXPECT_EQ(read({{"VLLM_LOGGING_LEVEL", "WARNING"}}).log_level, "warning");
  EXPECT_EQ(read({{"VLLM_LOGGING_LEVEL", "debug"}}).log_level, "debug");
  EXPECT_EQ(read({{"VLLM_LOGGING_LEVEL", "ERROR"}, {"QUIRE_LOG_LEVEL", "info"}}).log_level, "info");
}

TEST(Environment, BadValuesAreErrorsAndAllAreListed) {
  EXPECT_THAT(error({{"QUIRE_NUM_THREADS", "0"}}), HasSubstr("QUIRE_NUM_THREADS '0': must be an integer from 1 to 1024"));
  EXPECT_THAT(error({{"VLLM_ALLOW_LONG_MAX_MODEL_LEN", "2"}}), HasSubstr("true or false"));
  EXPECT_THAT(error({{"QUIRE_LOG_LEVEL", "inf"}}), HasSubstr("did you mean 'info'"));
  const std::string both = error({{"QUIRE_NUM_THREADS", "x"}, {"QUIRE_NUM_THREAD", "2"}});
  EXPECT_THAT(both, HasSubstr("2 problems"));
  EXPECT_THAT(both, HasSubstr("'QUIRE_NUM_THREAD': unknown environment variable (did you mean 'QUIRE_NUM_THREADS'?)"));
}

TEST(Environment, OtherEnginesVariablesWarnOnce) {
  for (const char* name : {"VLLM_USE_V1", "VLLM_ROCM_USE_AITER", "VLLM_ROCM_USE_AITER_MHA", "VLLM_PORT",
                           "VLLM_SERVICE_HOST", "VLLM_PORT_8000_TCP"}) {
    const Environment env = read({{name, "tcp://10.0.0.1:8000"}});
    ASSERT_THAT(env.notes, SizeIs(1)) << name;
    EXPECT_EQ(env.notes[0].severity, Adjustment::Severity::kWarning);
    EXPECT_EQ(env.notes[0].flag, name);
  }
}

TEST(Environment, DevicesAreIgnoredWithAnInfo) {
  const Environment env = read({{"HIP_VISIBLE_DEVICES", "3,4"}, {"CUDA_VISIBLE_DEVICES", "0"}});
  ASSERT_THAT(env.notes, SizeIs(2));
  for (const auto& note : env.notes) EXPECT_EQ(note.severity, Adjustment::Severity::kInfo);
}

TEST(Environment, TableIsSound) {
  std::set<std::string_view> names;
  for (const EnvRow& row : env_table()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_FALSE(row.text.empty()) << row.name;
  }
  for (const char* name : {"VLLM_ROCM_USE_AITER_MLA", "VLLM_ROCM_USE_AITER_PAGED_ATTN", "VLLM_ROCM_USE_AITER_UNIFIED_ATTENTION",
                           "VLLM_ROCM_SHUFFLE_KV_CACHE_LAYOUT", "VLLM_ROCM_USE_AITER_LINEAR", "VLLM_ROCM_USE_AITER_FP8BMM",
                           "VLLM_ROCM_USE_SKINNY_GEMM", "VLLM_ROCM_CUSTOM_PAGED_ATTN", "VLLM_ROCM_QUICK_REDUCE_QUANTIZATION"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

// Every honoured variable must have a reader: reading one that has none stops the program.
TEST(Environment, EveryHonouredVariableIsRead) {
  for (const EnvRow& row : env_table()) {
    if (row.fate != EnvFate::kHonoured) continue;
    std::string value = "1";
    if (row.kind == ValueKind::kChoice) value = std::string(split_words(row.allowed).front());
    EXPECT_TRUE(read_environment({{std::string(row.name), value}}).ok()) << row.name;
  }
}

}  // namespace
}  // namespace quire::config
