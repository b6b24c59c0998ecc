// Resolution: what runs, for machines and models that do not exist.
#include "config/resolve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/print.h"
#include "kit.h"
#include "kit/temp_dir.h"

namespace quire::config {
namespace {

using test::resolve_error;
using test::resolved;
using test::warnings_of;
using test::World;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr std::int64_t kGib = std::int64_t{1} << 30;

World long_world() {
  World world;
  world.model = test::long_llama();
  world.tokenizer.model_max_length = 131072;
  return world;
}

// #25104's line, word for word but for the length.
constexpr const char* kSeedFlags =
    "MODEL -tp 1 --max-num-batched-tokens 131072 --max-num-seqs 1024 --max-seq-len-to-capture 16384 --max-model-len LENGTH --swap-space 64 "
    "--no-enable-prefix-caching "
    "--disable-log-requests --disable-uvicorn-access-log --trust-remote-code --gpu-memory-utilization 0.90 -O '{\"compilation_config\":\"FULL\"}'";

std::string seed_line(const std::string& length) {
  std::string line = kSeedFlags;
  return line.replace(line.find("LENGTH"), 6, length);
}

TEST(SeedLine25104, ResolvesWithOneWarningForEachFlagWithoutEffect) {
  for (const auto& [length, world] : {std::pair{std::string("2048"), World{}}, std::pair{std::string("10240"), long_world()}}) {
    World with_env = world;
    with_env.variables = {{"VLLM_ROCM_USE_AITER_MHA", "1"}, {"HIP_VISIBLE_DEVICES", "3,4"}};
    const ResolvedConfig config = resolved(seed_line(length), with_env);
    EXPECT_EQ(config.engine.scheduler.max_model_len, std::stoi(length));
    EXPECT_EQ(config.engine.scheduler.max_num_batched_tokens, 131072);
    EXPECT_EQ(config.engine.scheduler.max_num_seqs, 1024);
    EXPECT_FALSE(config.engine.scheduler.enable_prefix_caching);
    EXPECT_FALSE(config.http.access_log);
    EXPECT_EQ(config.engine.graph.mode, "");
    for (const char* flag : {"--max-seq-len-to-capture", "--swap-space", "--disable-log-requests", "--trust-remote-code", "--gpu-memory-utilization",
                             "-O", "VLLM_ROCM_USE_AITER_MHA"}) {
      EXPECT_THAT(warnings_of(config, flag), SizeIs(1)) << flag;
    }
    EXPECT_THAT(warnings_of(config, "-O")[0], HasSubstr("cudagraph_mode"));
    EXPECT_THAT(warnings_of(config, "--disable-log-requests")[0], HasSubstr("--no-enable-log-requests"));
    EXPECT_THAT(warnings_of(config, "--gpu-memory-utilization")[0], HasSubstr("--kv-cache-memory-bytes"));
    EXPECT_THAT(warnings_of(config, "--trust-remote-code")[0], HasSubstr("no remote code is ever run"));
    std::size_t warnings = 0;
    for (const Adjustment& a : config.adjustments) warnings += a.severity == Adjustment::Severity::kWarning;
    EXPECT_EQ(warnings, 7u);
  }
}

TEST(SeedLine25104, ItsOwnLengthIsTooMuchForTheTinyModel) {
  EXPECT_THAT(resolve_error(seed_line("10240")), HasSubstr("--max-model-len 10240: the model's configuration allows at most 2048"));
}

TEST(SeedLine20295, IsRefusedByTheNamesOfWhatIsNotBuilt) {
  const std::string error = resolve_error(
      "MODEL --tensor-parallel-size 2 --gpu-memory-utilization 0.9 --trust-remote-code --disable-log-requests --block-size 16 --max-model-len 32768 "
      "--dtype float16 --quantization fp8 "
      "--no-enable-prefix-caching --max-num-batched-tokens=8192 --kv-cache-dtype fp8 --compilation-config '{\"full_cuda_graph\":true}'",
      long_world());
  EXPECT_THAT(error, HasSubstr("--tensor-parallel-size '2': more than one rank: not built yet"));
  EXPECT_THAT(error, Not(HasSubstr("--quantization"))) << "a 16-bit checkpoint is quantised while loading";
}

TEST(SeedLine20295, WithoutThemFullGraphsAreAskedFor) {
  const ResolvedConfig config =
      resolved("MODEL --max-model-len 32768 --dtype float16 --max-num-batched-tokens=8192 --compilation-config '{\"full_cuda_graph\":true}'", long_world());
  EXPECT_EQ(config.engine.graph.mode, "FULL");
}

TEST(Length, DerivedFromModelAndTokenizer) {
  World world = long_world();
  EXPECT_EQ(resolved("M", world).engine.scheduler.max_model_len, 131072);
  world.tokenizer.model_max_length = 4096;
  EXPECT_EQ(resolved("M", world).engine.scheduler.max_model_len, 4096);
  world.tokenizer.model_max_length = 0;
  world.model.max_position_embeddings = 777;
  EXPECT_EQ(resolved("M", world).engine.scheduler.max_model_len, 777);
  EXPECT_EQ(resolved("M --max-model-len 0.5k", world).engine.scheduler.max_model_len, 500);
}

TEST(Length, AboveTheModelNeedsTheVariable) {
  World world;
  EXPECT_THAT(resolve_error("M --max-model-len 4096", world), HasSubstr("VLLM_ALLOW_LONG_MAX_MODEL_LEN=1"));
  world.variables = {{"VLLM_ALLOW_LONG_MAX_MODEL_LEN", "1"}};
  const ResolvedConfig config = resolved("M --max-model-len 4096", world);
  EXPECT_EQ(config.engine.scheduler.max_model_len, 4096);
  EXPECT_THAT(warnings_of(config, "--max-model-len"), SizeIs(1));
  world.variables = {{"VLLM_ALLOW_LONG_MAX_MODEL_LEN", "0"}};
  EXPECT_NE(resolve_error("M --max-model-len 4096", world), "");
}

TEST(Length, ATokenizerThatIsShorterIsNamed) {
  World world;
  world.tokenizer.model_max_length = 512;
  EXPECT_EQ(resolved("M", world).engine.scheduler.max_model_len, 512);
  EXPECT_THAT(resolve_error("M --max-model-len 600", world), HasSubstr("--max-model-len 600: tokenizer_config.json's model_max_length 512 allows at most 512 tokens"));
  world.tokenizer.model_max_length = 4096;
  EXPECT_THAT(resolve_error("M --max-model-len 2049", world), HasSubstr("the model's configuration allows at most 2048 tokens"));
  world.variables = {{"VLLM_ALLOW_LONG_MAX_MODEL_LEN", "1"}};
  EXPECT_EQ(resolved("M --max-model-len 2049", world).engine.scheduler.max_model_len, 2049);
}

// gsm-tiny in bfloat16: 2 x 2 bytes x 6 layers x 2 heads x 64 x 16 tokens.
constexpr std::int64_t kTinyBlock = 49152;

TEST(Pool, CpuRule) {
  World world;
  EXPECT_EQ(kv_block_bytes(world.model, DType::kBF16, 16), kTinyBlock);
  EXPECT_EQ(resolved("M", world).engine.kv_cache_bytes, 4 * kGib);  // 32 GiB free: a quarter is above the limit
  EXPECT_EQ(resolved("M", world).engine.scheduler.num_blocks, 4 * kGib / kTinyBlock);
  world.machine.free_memory_bytes = 2 * kGib;
  EXPECT_EQ(resolved("M", world).engine.kv_cache_bytes, kGib / 2);
  EXPECT_EQ(resolved("M --kv-cache-memory-bytes 1G", world).engine.kv_cache_bytes, kGib);
  world.variables = {{"VLLM_CPU_KVCACHE_SPACE", "1"}};
  EXPECT_EQ(resolved("M", world).engine.kv_cache_bytes, kGib);
  EXPECT_EQ(resolved("M --kv-cache-memory-bytes 512M", world).engine.kv_cache_bytes, kGib / 2);
}

TEST(Pool, TooSmallForOneRequestSaysWhatWouldFit) {
  const std::string error = resolve_error("M --kv-cache-memory-bytes 1M");  // 21 blocks
  EXPECT_THAT(error, HasSubstr("needs 0.006 GiB, available 0.001 GiB"));
  EXPECT_THAT(error, HasSubstr("feasible --max-model-len is 336"));
  EXPECT_EQ(resolved("M --kv-cache-memory-bytes 1M --max-model-len 336").engine.scheduler.max_model_len, 336);
  EXPECT_NE(resolve_error("M --kv-cache-memory-bytes 1M --max-model-len 337"), "");
  for (const char* fitted : {"M --kv-cache-memory-bytes 1M --max-model-len auto", "M --kv-cache-memory-bytes 1M --max-model-len -1"}) {
    EXPECT_EQ(resolved(fitted).engine.scheduler.max_model_len, 336) << fitted;
  }
  EXPECT_EQ(resolved("M --max-model-len auto").engine.scheduler.max_model_len, 2048);
  EXPECT_THAT(resolve_error("M --kv-cache-memory-bytes 1"), HasSubstr("--kv-cache-memory-bytes 1: KV pool too small"));
  World poor;
  poor.machine.free_memory_bytes = 1 << 20;
  EXPECT_THAT(resolve_error("M", poor), ::testing::AllOf(::testing::StartsWith("KV pool too small"), HasSubstr("or raise --kv-cache-memory-bytes")));
  World by_variable;
  by_variable.model.num_layers = 1024;
  by_variable.model.max_position_embeddings = 131072;
  by_variable.tokenizer.model_max_length = 0;
  by_variable.variables = {{"VLLM_CPU_KVCACHE_SPACE", "1"}};
  EXPECT_THAT(resolve_error("M", by_variable), ::testing::AllOf(HasSubstr("VLLM_CPU_KVCACHE_SPACE 1: KV pool too small"), HasSubstr("or raise VLLM_CPU_KVCACHE_SPACE")));
  EXPECT_THAT(resolve_error("M --kv-cache-memory-bytes 1 --max-model-len auto"), HasSubstr("KV pool too small"));
}

TEST(Pool, BlocksOverrideAndLimits) {
  const ResolvedConfig config = resolved("M --num-gpu-blocks-override 200");
  EXPECT_EQ(config.engine.scheduler.num_blocks, 200);
  EXPECT_EQ(config.engine.num_blocks_override, 200);
  EXPECT_EQ(config.engine.kv_cache_bytes, 200 * kTinyBlock);
  EXPECT_THAT(resolve_error("M --num-gpu-blocks-override 3"),
              ::testing::AllOf(HasSubstr("--num-gpu-blocks-override 3: KV pool too small: one request of 2048 tokens (--max-model-len) needs 128 blocks; the estimated feasible --max-model-len is 48 (or auto); or raise --num-gpu-blocks-override"),
                               Not(HasSubstr("--kv-cache-memory-bytes"))));
  EXPECT_THAT(resolve_error("M --num_gpu_blocks_override 3 --kv-cache-memory-bytes 1G"), Not(HasSubstr("--kv-cache-memory-bytes")));
  EXPECT_THAT(resolve_error("M --kv-cache-memory-bytes 65G"), HasSubstr("the machine has"));
  EXPECT_THAT(warnings_of(resolved("M --kv-cache-memory-bytes 33G"), "--kv-cache-memory-bytes"), SizeIs(1));
  World absurd;
  absurd.model.num_layers = absurd.model.num_kv_heads = absurd.model.head_dim = 1 << 30;
  EXPECT_THAT(resolve_error("M", absurd), HasSubstr("would not fit"));
}

TEST(Pool, BlockSize) {
  EXPECT_EQ(resolved("M --block-size 128").engine.scheduler.block_size, 128);
  EXPECT_THAT(resolve_error("M --block-size 40"), HasSubstr("--block-size 40: must be a multiple of 16 (nearest: 48)"));
  EXPECT_THAT(resolve_error("M --block-size 8"), HasSubstr("--block-size '8': must be an integer from 16 to 1024"));
}

TEST(Budget, DefaultsAndValidation) {
  const SchedulerConfig plain = resolved("M").engine.scheduler;
  EXPECT_EQ(plain.max_num_batched_tokens, 2048);
  EXPECT_EQ(plain.max_num_seqs, 256);
  EXPECT_EQ(plain.depth, 1);
  EXPECT_TRUE(plain.enable_chunked_prefill);
  EXPECT_EQ(resolved("M --max-num-seqs 2 --max-model-len 100").engine.scheduler.max_num_batched_tokens, 200);
  EXPECT_EQ(resolved("M --max-num-seqs 4096").engine.scheduler.max_num_batched_tokens, 4096);
  EXPECT_EQ(resolved("M --max-num-batched-tokens 64").engine.scheduler.max_num_seqs, 64);
  EXPECT_THAT(resolve_error("M --max-num-batched-tokens 64 --max-num-seqs 65"),
              HasSubstr("--max-num-batched-tokens 64: must be at least --max-num-seqs (65)"));
  EXPECT_THAT(resolve_error("M --no-enable-chunked-prefill --max-num-batched-tokens 1024"), HasSubstr("at least --max-model-len (2048)"));
  EXPECT_EQ(resolved("M --no-enable-chunked-prefill --max-num-seqs 1").engine.scheduler.max_num_batched_tokens, 2048);
  EXPECT_THAT(warnings_of(resolved("M --max-num-batched-tokens 8k --max-num-seqs 2"), "--max-num-batched-tokens"),
              ElementsAre(HasSubstr("a step never holds that many")));
  EXPECT_EQ(resolved("M --async-scheduling").engine.scheduler.depth, 2);
  EXPECT_EQ(resolved("M --scheduling-policy priority").engine.scheduler.policy, SchedulingPolicy::kPriority);
  EXPECT_THAT(resolve_error("M --long-prefill-token-threshold 2049"), HasSubstr("must be at most --max-model-len"));
}

TEST(Attention, BackendByNameInAnyCase) {
  EXPECT_EQ(resolved("M").engine.attention_backend, "");
  EXPECT_EQ(resolved("M --attention-backend cpu_unified").engine.attention_backend, "CPU_UNIFIED");
  EXPECT_EQ(resolved("M -ac.backend CPU_SPLIT").engine.attention_backend, "CPU_SPLIT");
  EXPECT_EQ(resolved("M --attention-config '{\"backend\":\"Cpu_Split\"}'").engine.attention_backend, "CPU_SPLIT");
  EXPECT_THAT(resolve_error("M --attention-backend CPU_SPLIT -ac.backend CPU_SPLIT"), HasSubstr("exclude each other"));
  EXPECT_THAT(resolve_error("M --attention-backend ROCM_AITER_FA"), HasSubstr("--attention-backend ROCM_AITER_FA (here ROCM_FAST): not on this device (cpu): it is for gfx90a, gfx942 and gfx950, and not built yet; this device has CPU_UNIFIED and CPU_SPLIT"));
  EXPECT_THAT(resolve_error("M --attention-backend flash_attn"), HasSubstr("needs a CUDA device"));
  EXPECT_THAT(resolve_error("M --attention-backend ROCM_FAST"), HasSubstr("ROCM_FAST: not on this device (cpu): it is for gfx90a"));
  EXPECT_THAT(resolve_error("M --attention-backend cuda_sm90"), HasSubstr("CUDA_SM90: not on this device (cpu): it is for sm90, and not built yet"));
  World world;
  world.variables = {{"VLLM_ATTENTION_BACKEND", "CPU_SPLIT"}};
  EXPECT_EQ(resolved("M", world).engine.attention_backend, "CPU_SPLIT");
  EXPECT_EQ(resolved("M --attention-backend CPU_UNIFIED", world).engine.attention_backend, "CPU_UNIFIED");
  const ResolvedConfig both = resolved("M --attention-backend CPU_UNIFIED", world);
  EXPECT_TRUE(std::any_of(both.adjustments.begin(), both.adjustments.end(), [](const Adjustment& a) { return a.flag == "VLLM_ATTENTION_BACKEND"; })) << "said aloud";
  world.variables = {{"VLLM_ATTENTION_BACKEND", "FLASH_ATTN"}};
  EXPECT_THAT(resolve_error("M", world), HasSubstr("VLLM_ATTENTION_BACKEND FLASH_ATTN: not on this device"));
  EXPECT_THAT(resolve_error("M --attention-backend CPU_UNIFID"), HasSubstr("did you mean 'CPU_UNIFIED'"));
  EXPECT_THAT(resolve_error("M -ac.backnd CPU_SPLIT"), HasSubstr("unknown key 'backnd' (did you mean 'backend'?)"));
  EXPECT_THAT(resolve_error("M -ac.backend 3"), HasSubstr("must be the name of a backend"));
  EXPECT_THAT(warnings_of(resolved("M -ac.flash_attn_version=3"), "-ac"), ElementsAre(HasSubstr("no effect")));
}

TEST(Graphs, RequestedModes) {
  for (const char* none :
       {"M -cc.cudagraph_mode NONE", "M -cc.cudagraph_mode none", "M -O '{\"use_cudagraph\":false}'", "M -O0", "M --optimization-level 0",
        "M --enforce-eager", "M --enforce-eager -cc.cudagraph_mode FULL", "M -cc.mode NONE", "M -cc.cudagraph_mode 0"}) {
    EXPECT_EQ(resolved(none).engine.graph.mode, "NONE") << none;
  }
  EXPECT_TRUE(resolved("M --enforce-eager").engine.enforce_eager);
  for (const char* plain : {"M", "M -O3", "M -O.level 3", "M -O.custom_ops+ all", "M -O '{\"full_cuda_graph\":false}'", "M --optimization-level 2"})
    EXPECT_EQ(resolved(plain).engine.graph.mode, "") << plain;
  for (const char* mode : {"PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE"}) {
    EXPECT_EQ(resolved("M -cc.cudagraph_mode " + std::string(mode)).engine.graph.mode, mode);
  }
  EXPECT_EQ(resolved("M -O '{\"full_cuda_graph\":true}'").engine.graph.mode, "FULL");
  EXPECT_THAT(resolve_error("M -O '{\"full_cuda_graph\":true,\"cudagraph_mode\":\"FULL\"}'"),
              HasSubstr("full_cuda_graph and cudagraph_mode exclude each other"));
  EXPECT_THAT(resolve_error("M -cc.cudagraph_mode FUL"), HasSubstr("did you mean 'FULL'"));
  EXPECT_THAT(resolve_error("M -cc.cudagraph_mod FULL"), HasSubstr("unknown key 'cudagraph_mod' (did you mean 'cudagraph_mode'?)"));
  EXPECT_THAT(resolve_error("M -O '{\"compilation_config\":\"NONE\"}'"), HasSubstr("did you mean 'cudagraph_mode'"));
  EXPECT_THAT(resolve_error("M -O 4"), HasSubstr("a level from 0 to 3"));
  EXPECT_THAT(resolve_error("M -O '{\"cudagraph_capture_sizes\":[1,0]}'"), HasSubstr("'0' must be a batch size"));
}

TEST(Graphs, SizesAreKeptOrRefused) {
  const GraphRequest kept = resolved("M -cc.cudagraph_mode NONE -cc.cudagraph_capture_sizes+ 8,1,8 -cc.max_cudagraph_capture_size 8").engine.graph;
  EXPECT_THAT(kept.capture_sizes, ElementsAre(1, 8));
  EXPECT_EQ(kept.max_capture_size, 8);
  EXPECT_THAT(resolved("M --cuda-graph-sizes 1 2 4").engine.graph.capture_sizes, ElementsAre(1, 2, 4));
  EXPECT_THAT(resolve_error("M --cudagraph-capture-sizes 1 2 -cc.cudagraph_mode NONE --max-cudagraph-capture-size 4"), HasSubstr("contradicts"));
  EXPECT_THAT(resolve_error("M --cudagraph-capture-sizes 1 -cc.cudagraph_capture_sizes [1]"), HasSubstr("exclude each other"));
}

TEST(Threads, FlagThenVariableThenCores) {
  World world;
  EXPECT_EQ(resolved("M", world).engine.num_threads, 8);
  world.variables = {{"QUIRE_NUM_THREADS", "3"}};
  EXPECT_EQ(resolved("M", world).engine.num_threads, 3);
  EXPECT_EQ(resolved("M --num-threads 2", world).engine.num_threads, 2);
  EXPECT_THAT(warnings_of(resolved("M --num-threads 9", world), "--num-threads"), SizeIs(1));
}

TEST(Api, NamesTemplatesAndDefaults) {
  ::quire::test::TempDir dir;
  EXPECT_THAT(resolved("org/M").api.served_names, ElementsAre("org/M"));
  EXPECT_THAT(resolved("M --served-model-name a b").api.served_names, ElementsAre("a", "b"));
  EXPECT_THAT(resolve_error("M --served-model-name a a"), HasSubstr("'a': is given twice"));
  EXPECT_EQ(resolved("M --chat-template '{{ x }}'").api.chat_template_text, "{{ x }}");
  EXPECT_EQ(resolved("M --chat-template " + dir.write("t.jinja", "file text")).api.chat_template_text, "file text");
  EXPECT_THAT(resolve_error("M --chat-template nowhere.jinja"), HasSubstr("--chat-template 'nowhere.jinja'"));
  World world;
  world.generation.temperature = 0.7;
  world.generation.eos_token_ids = {0, 2};
  EXPECT_EQ(resolved("M", world).api.defaults.temperature, 0.7);
  const auto changed = resolved("M --override-generation-config '{\"temperature\":0,\"top_k\":5,\"eos_token_id\":7}'", world).api.defaults;
  EXPECT_EQ(changed.temperature, 0.0);
  EXPECT_EQ(changed.top_k, 5);
  EXPECT_THAT(changed.eos_token_ids, ElementsAre(7));
  EXPECT_EQ(resolved("M --override-generation-config.temperature null", world).api.defaults.temperature, std::nullopt);
  EXPECT_THAT(resolve_error("M --override-generation-config.temprature 1"), HasSubstr("did you mean 'temperature'"));
  EXPECT_THAT(resolve_error("M --override-generation-config.top_p 2"), HasSubstr("--override-generation-config: top_p = 2 must be a number above 0 and at most 1"));
  EXPECT_THAT(resolve_error("M --override-generation-config.eos_token_id 576"), HasSubstr("eos_token_id holds 576, which is not a token id from 0 to 575"));
}

TEST(Resolve, ATemplateThatIsNoFileIsToldOnce) {
  EXPECT_EQ(resolved("M --chat-template '{{ messages }}'").api.chat_template_text, "{{ messages }}");
  const std::string why = resolve_error("M --chat-template " + std::string(20'000, 'a'));
  EXPECT_THAT(why, HasSubstr("is no template text and cannot be read as a file"));
  EXPECT_LT(why.size(), 400u) << "the value is shortened, wherever it stands";
}

TEST(Http, KeysTimeoutsAndUnixSocket) {
  World world;
  world.variables = {{"VLLM_API_KEY", "env"}, {"VLLM_HTTP_TIMEOUT_KEEP_ALIVE", "9"}, {"VLLM_LOG_STATS_INTERVAL", "2.5"}};
  const HttpSettings http = resolved("M --port 0", world).http;
  EXPECT_EQ(http.port, 0);
  EXPECT_THAT(http.api_keys, ElementsAre("env"));
  EXPECT_EQ(http.keep_alive_seconds, 9);
  EXPECT_EQ(http.log_stats_interval_seconds, 2.5);
  EXPECT_THAT(resolved("M --api-key a", world).http.api_keys, ElementsAre("a"));
  EXPECT_EQ(resolved("M --timeout-keep-alive 3", world).http.keep_alive_seconds, 3);
  EXPECT_EQ(resolved("M --port 65535").http.port, 65535);
  EXPECT_THAT(warnings_of(resolved("M --uds s --port 1"), "--uds"), SizeIs(1));
  const HttpSettings defaults = resolved("M").http, initial;
  EXPECT_EQ(defaults.max_body_bytes, initial.max_body_bytes);  // the table and resolved.h say the same
  EXPECT_EQ(defaults.max_connections, initial.max_connections);
  EXPECT_EQ(defaults.keep_alive_seconds, initial.keep_alive_seconds);
  EXPECT_EQ(defaults.header_timeout_seconds, initial.header_timeout_seconds);
  EXPECT_EQ(defaults.write_timeout_seconds, initial.write_timeout_seconds);
  EXPECT_EQ(defaults.shutdown_timeout_seconds, initial.shutdown_timeout_seconds);
  EXPECT_TRUE(defaults.access_log && defaults.log_stats && !defaults.log_requests);
}

TEST(Relaxed, IsNamedInTheWarnings) {
  const ResolvedConfig config = resolved("M --relaxed unused-tensors");
  EXPECT_TRUE(config.engine.relaxed_unused_tensors);
  EXPECT_THAT(warnings_of(config, "--relaxed"), ElementsAre(HasSubstr("unused-tensors")));
}

TEST(Problems, OfResolutionComeTogether) {
  const std::string error =
      resolve_error("M --block-size 40 --max-model-len 4096 --attention-backend FLASHINFER -cc.nope 1 --num-gpu-blocks-override 1");
  EXPECT_THAT(error, HasSubstr("5 problems:"));
  for (const char* part : {"--block-size", "--max-model-len 4096", "FLASHINFER", "'nope'", "KV pool too small"}) EXPECT_THAT(error, HasSubstr(part));
}

// Any two mistakes that have no flag in common are both told.
TEST(Problems, OfEveryPairAreBothListed) {
  struct Mistake {
    std::string flags, text;
  };
  const Mistake mistakes[] = {{"--block-size 40", "--block-size 40: must be a multiple"},
                              {"--max-model-len 4096", "--max-model-len 4096: the model's configuration allows"},
                              {"--kv-cache-memory-bytes 65G", "the machine has"},
                              {"--num-gpu-blocks-override 1", "--num-gpu-blocks-override 1: KV pool too small"},
                              {"--max-num-batched-tokens 64 --max-num-seqs 65", "must be at least --max-num-seqs (65)"},
                              {"--no-enable-chunked-prefill --max-num-batched-tokens 1024", "at least --max-model-len (2048)"},
                              {"--long-prefill-token-threshold 2049", "must be at most --max-model-len"},
                              {"--attention-backend FLASHINFER", "--attention-backend FLASHINFER: not on this device"},
                              {"-ac.backnd 1", "unknown key 'backnd'"},
                              {"-ac.backend 3", "must be the name of a backend"},
                              {"-cc.nope 1", "unknown key 'nope'"},
                              {"-cc.cudagraph_mode FUL", "did you mean 'FULL'"},
                              {"-cc.cudagraph_capture_sizes [0]", "'0' must be a batch size, an integer from 1 to 65536"},
                              {"-cc.max_cudagraph_capture_size x", "must be an integer from 0 to 65536"},
                              {"--cudagraph-capture-sizes 1 2 --max-cudagraph-capture-size 4", "contradicts the listed sizes"},
                              {"--served-model-name a a", "'a': is given twice"},
                              {"--chat-template nowhere.jinja", "--chat-template 'nowhere.jinja'"},
                              {"--override-generation-config.temprature 1", "unknown key 'temprature'"},
                              {"--override-generation-config.top_p 0", "top_p = 0 must be"},
                              {"--override-generation-config.eos_token_id 576", "eos_token_id holds 576"}};
  const auto flags_of = [](const std::string& line) {
    std::vector<std::string> flags;
    for (const std::string& word : test::words(line))
      if (word.front() == '-') flags.push_back(word);
    return flags;
  };
  const auto share = [&](const Mistake& a, const Mistake& b) {
    const auto left = flags_of(a.flags), right = flags_of(b.flags);
    return std::any_of(left.begin(), left.end(), [&](const std::string& f) { return std::find(right.begin(), right.end(), f) != right.end(); });
  };
  for (const Mistake& one : mistakes) {
    EXPECT_THAT(resolve_error("M " + one.flags), HasSubstr(one.text));
    for (const Mistake& other : mistakes) {
      if (&one == &other || share(one, other)) continue;
      EXPECT_THAT(resolve_error("M " + one.flags + " " + other.flags), ::testing::AllOf(HasSubstr(one.text), HasSubstr(other.text))) << one.flags << " " << other.flags;
    }
  }
}

TEST(Locate, TheModelOfTheRepository) {
  const std::string dir = QUIRE_SOURCE_DIR "/models/gsm-tiny";
  const auto found = locate_model(test::options_of("'" + dir + "' --generation-config vllm"));
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_EQ(found.value().tokenizer_dir, found.value().model_dir);
  EXPECT_EQ(found.value().generation_config_dir, std::nullopt);
  const auto missing = locate_model(test::options_of("no/such-model --tokenizer no/such-tokenizer"));
  ASSERT_FALSE(missing.ok());
  EXPECT_THAT(missing.error().message, HasSubstr("MODEL: "));
  EXPECT_THAT(missing.error().message, HasSubstr("--tokenizer: "));
}

TEST(SeedLine25104, OnTheRealTinyModelAndThisMachine) {
  std::string line = seed_line("2048");
  line.replace(0, 5, "'" QUIRE_SOURCE_DIR "/models/gsm-tiny'");
  const Options options = test::options_of(line);
  const auto folders = locate_model(options);
  ASSERT_TRUE(folders.ok()) << folders.error().message;
  const auto spec = model::read_model_spec(folders.value().model_dir);
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  const auto generation = model::read_generation_defaults(*folders.value().generation_config_dir, spec->vocab_size);
  ASSERT_TRUE(generation.ok()) << generation.error().message;
  const auto config = resolve({.options = options,
                               .environment = {},
                               .folders = folders.value(),
                               .model = spec.value(),
                               .generation = generation.value(),
                               .tokenizer = {.model_max_length = 2048},
                               .machine = this_machine()});
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_THAT(config.value().api.defaults.eos_token_ids, ElementsAre(0, 2));
  EXPECT_EQ(config.value().engine.dtype, DType::kBF16);
}

TEST(Machine, ThisOneHasMemoryAndCores) {
  const MachineFacts facts = this_machine();
  EXPECT_GT(facts.total_memory_bytes, 0);
  EXPECT_GT(facts.free_memory_bytes, 0);
  EXPECT_LE(facts.free_memory_bytes, facts.total_memory_bytes);
  EXPECT_GE(facts.num_cores, 1);
}

}  // namespace
}  // namespace quire::config
