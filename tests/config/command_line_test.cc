// Spelling rules, fates and errors of the command line.
#include "config/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>

#include "config/values.h"
#include "kit.h"

namespace quire::config {
namespace {

using test::error_of;
using test::options_of;
using test::words;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string compilation(std::string_view line) { return boost::json::serialize(options_of(line).json("compilation-config")); }

TEST(Values, HumanReadableIntegers) {
  EXPECT_EQ(parse_integer("1k"), 1000);
  EXPECT_EQ(parse_integer("1K"), 1024);
  EXPECT_EQ(parse_integer("25.6k"), 25600);
  EXPECT_EQ(parse_integer("2G"), std::int64_t{2} << 30);
  EXPECT_EQ(parse_integer("0.5M"), 512 * 1024);
  EXPECT_EQ(parse_integer("-1"), -1);
  for (const char* bad : {"", "k", "1kk", "1.0001k", "1.", "1.5", "0x10", "1e3", " 1", "1 ", "+1", "--1", "-1.5k", "9223372036854775808",
                          "9223372036854775807k", "99999999T", "1.0000000000001T", "\xff"}) {
    EXPECT_EQ(parse_integer(bad), std::nullopt) << bad;
  }
}

TEST(Values, NumbersAndBooleans) {
  EXPECT_EQ(parse_number("0.90"), 0.9);
  for (const char* bad : {"", "inf", "nan", "1,5", "0.5x", "1e999"}) EXPECT_EQ(parse_number(bad), std::nullopt) << bad;
  EXPECT_EQ(parse_bool("0"), false);
  EXPECT_EQ(parse_bool("True"), true);
  EXPECT_EQ(parse_bool("2"), std::nullopt);
}

TEST(Spelling, UnderscoresShortNamesAndAttachedValues) {
  EXPECT_EQ(options_of("M --max_num_seqs 7").integer("max-num-seqs"), 7);
  EXPECT_EQ(options_of("M --max-num-seqs=7").integer("max-num-seqs"), 7);
  EXPECT_EQ(options_of("M -tp 1").integer("tensor-parallel-size"), 1);
  EXPECT_EQ(options_of("M -tp=1").integer("tensor-parallel-size"), 1);
  EXPECT_EQ(options_of("M --max-logprobs -1").integer("max-logprobs"), -1);
  EXPECT_EQ(options_of("M --max-model-len 2k").integer("max-model-len"), 2000);
  EXPECT_EQ(options_of("M --max-model-len auto").integer("max-model-len"), std::nullopt);
  EXPECT_EQ(options_of("M --max-model-len -1").integer("max-model-len"), std::nullopt);
  EXPECT_EQ(options_of("--port 1 M").model(), "M");
  EXPECT_EQ(options_of("--port 1 -- -odd-name").model(), "-odd-name");
}

TEST(Spelling, BooleansComeInPairs) {
  EXPECT_FALSE(options_of("M --no-enable-prefix-caching").boolean("enable-prefix-caching"));
  EXPECT_TRUE(options_of("M --enable_prefix_caching").boolean("enable-prefix-caching"));
  EXPECT_TRUE(options_of("M").boolean("enable-prefix-caching"));
  EXPECT_FALSE(options_of("M --enable-prefix-caching=false").boolean("enable-prefix-caching"));
  EXPECT_THAT(error_of("serve M --enforce-eager=maybe"), HasSubstr("--enforce-eager 'maybe': takes no value"));
}

TEST(Spelling, LastUseStandsAndIsSaid) {
  const Options options = options_of("M --port 1 --port 2");
  EXPECT_EQ(options.integer("port"), 2);
  ASSERT_EQ(options.notes().size(), 1u);
  EXPECT_THAT(options.notes()[0].text, HasSubstr("last value stands"));
  EXPECT_THAT(options_of("M --port 2 --port 2").notes(), IsEmpty());
}

TEST(Spelling, Lists) {
  EXPECT_THAT(options_of("M --served-model-name a b c --port 1").list("served-model-name"), ElementsAre("a", "b", "c"));
  EXPECT_THAT(options_of("M --api-key a --api-key b c").list("api-key"), ElementsAre("a", "b", "c"));
  EXPECT_THAT(options_of("M --allowed-origins '[\"x\",\"y\"]'").list("allowed-origins"), ElementsAre("x", "y"));
  EXPECT_THAT(options_of("M --allowed-origins x y").list("allowed-origins"), ElementsAre("x", "y"));
  EXPECT_THAT(options_of("M").list("allowed-origins"), ElementsAre("*"));
  EXPECT_THAT(options_of("M --served-model-name [a]").list("served-model-name"), ElementsAre("[a]"));
}

TEST(Spelling, OptimisationLevelInAllForms) {
  for (const char* line : {"M -O3", "M -O 3", "M -O=3", "M -O.level 3", "M -O.level=3", "M -O '{\"level\":3}'", "M -O{\"level\":3}",
                           "M --compilation-config 3", "M --compilation_config.level 3", "M -cc.level=3"}) {
    EXPECT_EQ(compilation(line), "{\"level\":3}") << line;
  }
}

TEST(Spelling, DottedKeysMerge) {
  EXPECT_EQ(compilation("M -O.cudagraph_mode NONE -cc.pass_config.enable_fusion true"),
            "{\"cudagraph_mode\":\"NONE\",\"pass_config\":{\"enable_fusion\":true}}");
  EXPECT_EQ(compilation("M -cc '{\"level\":1}' -cc.level 2"), "{\"level\":2}");
  EXPECT_EQ(compilation("M -cc.cudagraph_capture_sizes+ 1,2 -cc.cudagraph_capture_sizes+ 4"), "{\"cudagraph_capture_sizes\":[1,2,4]}");
  EXPECT_THAT(options_of("M -cc '{\"level\":1}' -cc.level 2").notes()[0].text, HasSubstr("'level' given more than once"));
  EXPECT_THAT(error_of("serve M -cc.a..b 1"), HasSubstr("must be keys joined by dots"));
  EXPECT_THAT(error_of("serve M -cc. 1"), HasSubstr("must be keys joined by dots"));
  EXPECT_THAT(error_of("serve M -cc.a"), HasSubstr("needs a value"));
  EXPECT_THAT(error_of("serve M --port.x 1"), HasSubstr("--port takes no keys"));
}

TEST(Model, PositionalOrNamed) {
  EXPECT_EQ(options_of("M").model(), "M");
  const Options named = options_of("--model M");
  EXPECT_EQ(named.model(), "M");
  ASSERT_EQ(named.notes().size(), 1u);
  EXPECT_EQ(named.notes()[0].flag, "--model");
  EXPECT_THAT(error_of("serve M --model N"), HasSubstr("MODEL is already 'M'"));
  EXPECT_THAT(error_of("serve M N"), HasSubstr("unexpected argument 'N'"));
  EXPECT_THAT(error_of("serve --port 1"), HasSubstr("MODEL is missing"));
}

TEST(Values, AWrongValueOfWhatIsNotBuiltIsToldOnce) {
  const std::string error = error_of("serve M -tp 0");
  EXPECT_THAT(error, HasSubstr("-tp '0': must be"));
  EXPECT_EQ(error.find("not built"), std::string::npos) << error;
  EXPECT_THAT(error_of("serve M -tp 2"), HasSubstr("-tp '2': more than one rank: not built yet"));
}

struct BadLine {
  const char* line;
  const char* message;
};

class BadLines : public ::testing::TestWithParam<BadLine> {};

TEST_P(BadLines, NameTheFlagAndWhatIsAllowed) { EXPECT_THAT(error_of(GetParam().line), HasSubstr(GetParam().message)) << GetParam().line; }

TEST_P(BadLines, NameTheFlagOnce) {
  const auto command = parse_command_line(words(GetParam().line));
  ASSERT_FALSE(command.ok());
  EXPECT_FALSE(test::names_twice(command.error())) << command.error().to_string();
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadLines,
    ::testing::Values(
        BadLine{"serve M --max-model-length 9", "'--max-model-length': unknown flag (did you mean '--max-model-len'?)"},
        BadLine{"serve M --enable-prefix-cache", "did you mean '--enable-prefix-caching'"}, BadLine{"serve M -tpp 2", "'-tpp': unknown flag"},
        BadLine{"serve M --port", "--port: needs a value: an integer from 0 to 65535"}, BadLine{"serve M --port --host h", "--port: needs a value"},
        BadLine{"serve M --port 65536", "--port '65536': must be an integer from 0 to 65535"}, BadLine{"serve M --port -1", "--port '-1': must be"},
        BadLine{"serve M --port eight", "--port 'eight': must be"},
        BadLine{"serve M --dtype float61",
                "--dtype 'float61': must be one of auto, half, float16, bfloat16, float, float32 (did you mean 'float16'?)"},
        BadLine{"serve M --scheduling-policy lifo", "must be one of fcfs, priority"},
        BadLine{"serve M --gpu-memory-utilization 1.5", "--gpu-memory-utilization '1.5': must be a number from 0 to 1"},
        BadLine{"serve M --gpu-memory-utilization nan", "must be a number"}, BadLine{"serve M --request-timeout -1", "--request-timeout '-1': must be"},
        BadLine{"serve M --max-num-seqs 0", "--max-num-seqs '0'"}, BadLine{"serve M --compilation-config {", "must be a JSON object"},
        BadLine{"serve M --compilation-config [1]", "must be a JSON object"},
        BadLine{"serve M --allowed-origins [1]", "must be a JSON list of strings"}, BadLine{"serve M --relaxed kv-scale", "did you mean 'kv-scales'"},
        BadLine{"serve M --api-key ''", "--api-key '': must not be empty"}, BadLine{"run M --prompt ''", "--prompt '': must not be empty"},
        BadLine{"serve M --served-model-name a ''", "--served-model-name '': must not be empty"}, BadLine{"serve M --uds=", "--uds '': must not be empty"},
        BadLine{"run M --prompt x --top-p 0", "--top-p '0': must be a number above 0 and at most 1"},
        BadLine{"run M --prompt x --top-p 1.01", "--top-p '1.01': must be a number above 0"}, BadLine{"run M --prompt x --top-k -2", "--top-k '-2': must be an integer: -1 or 0 for off"},
        BadLine{"run M --prompt x --temperature -0.1", "--temperature '-0.1': must be a number of at least 0"},
        BadLine{"run M --prompt x --temperature inf", "--temperature 'inf': must be a number"},
        BadLine{"run M --prompt x --max-tokens 0", "--max-tokens '0': must be an integer from 1 to 2147483647"},
        BadLine{"run M --prompt x --max-tokens 2147483648", "--max-tokens '2147483648': must be an integer"},
        BadLine{"serve M --prompt x", "--prompt: belongs to `quire run`"}, BadLine{"run M", "--prompt is missing"},
        BadLine{"run M --prompt x --port 1", "--port: belongs to `quire serve`"}, BadLine{"serv M", "'serv': unknown command"},
        BadLine{"chat", "MODEL is missing: quire chat MODEL [flags], or quire chat --base-url URL"}, BadLine{"chat M --base-url", "--base-url: needs a value"},
        BadLine{"chat M --prompt x", "--prompt: belongs to `quire run`"}, BadLine{"chat M --num-prompts 3", "--num-prompts: belongs to `quire bench serve`"}, BadLine{"serve M --base-url http://h", "--base-url: belongs to `quire chat`"},
        BadLine{"run M --prompt x --base-url http://h", "--base-url: belongs to `quire chat`"}, BadLine{"serve M --temperature 1", "--temperature: belongs to `quire run`"},
        BadLine{"bench serve", "--base-url is missing"}, BadLine{"bench serve --base-url http://h --request-rate fast", "--request-rate 'fast': must be a number from 0.000001 to 1000000, or inf"},
        BadLine{"bench serve --base-url http://h --max-num-seqs 4", "--max-num-seqs: belongs to `quire serve`"}, BadLine{"bench serve --base-url http://h --turns 0", "--turns '0': must be"},
        BadLine{"bench serve --base-url http://h --endpoint chats", "did you mean 'chat'"}, BadLine{"bench latency", "MODEL is missing: quire bench latency MODEL"}, BadLine{"bench throughput --num-prompts 1", "MODEL is missing"},
        BadLine{"bench latency M --num-prompts 1", "--num-prompts: belongs to `quire bench serve`"}, BadLine{"bench gemm", "quire bench gemm: not built yet; there are attention, serve, latency and throughput"},
        BadLine{"bench sreve", "did you mean 'serve'"}, BadLine{"serve M --output d", "--output: belongs to `quire quantize`"}, BadLine{"export-tokenizer M --output d --kv none", "--kv: belongs to `quire quantize`"},
        BadLine{"export-tokenizer M", "--output is missing: quire export-tokenizer MODEL.gguf --output DIR"}, BadLine{"export-tokenizer --output d", "MODEL is missing"}, BadLine{"export-tokeniser", "did you mean 'export-tokenizer'"}, BadLine{"bench", "there are attention, serve, latency and throughput"}, BadLine{"--version x", "takes only --json"},
        BadLine{"serve M --served-model-name", "--served-model-name: needs a value"}, BadLine{"serve ''", "MODEL is empty"},
        BadLine{"serve M --tensor-parallel-size 2", "--tensor-parallel-size '2': more than one rank: not built yet"},
        BadLine{"serve M -tp 2", "-tp '2': more than one rank: not built yet"},
        BadLine{"serve M -q awq", "-q 'awq': this weight quantisation: not built yet"}, BadLine{"serve M --quantization fp9", "did you mean 'fp8'?"},
        BadLine{"serve M --kv-cache-dtype fp8_inc", "--kv-cache-dtype 'fp8_inc': this KV cache format: not built yet"},
        BadLine{"serve M --kv-cache-dtype nvfp4", "not built yet"},
        BadLine{"serve M --speculative-config {\"method\":\"ngram\"}", "speculative decoding: not built yet"},
        BadLine{"serve M --enable-lora", "LoRA adapters: not built yet"},
        BadLine{"serve M --max-decode-gap-ms 20", "a bounded decode gap: not built yet"},
        BadLine{"serve M --load-format pt", "this weight format: not built yet"}, BadLine{"serve M --ssl-keyfile k", "TLS"},
        BadLine{"serve M --tool-call-parser hermes", "tool calls: not built yet"}, BadLine{"serve M --device cuda", "this device: not built yet"},
        BadLine{"serve M --logprobs-mode raw_logits", "not built yet"}));

// A mistyped flag is answered by one that this command takes.
TEST(BadNames, SuggestionsAreOfTheCommand) {
  EXPECT_THAT(error_of("serve M --prot 1"), HasSubstr("'--prot': unknown flag (did you mean '--port'?)"));
  EXPECT_THAT(error_of("run M --prot 1 --prompt x"), ::testing::Not(HasSubstr("'--port'")));
  EXPECT_THAT(error_of("bench attention --plto x"), HasSubstr("did you mean '--plot'"));
  EXPECT_THAT(error_of("serve M --plto x"), ::testing::Not(HasSubstr("'--plot'")));
}

TEST(Fates, NeutralValuesOfUnbuiltFlagsAreFine) {
  const Options options = options_of(
      "M -tp 1 -pp 1 -dp 1 --enable-lora=false --no-enable-expert-parallel --quantization none --cpu-offload-gb 0.0 --speculative-config {} "
      "--stream-interval 1 "
      "--worker-cls auto --data-parallel-rpc-port 29550 --data-parallel-backend mp --distributed-executor-backend uni --max-loras 1 "
      "--max-decode-gap-ms 0");
  EXPECT_THAT(options.notes(), IsEmpty());
}

TEST(Fates, AllProblemsAtOnce) {
  const std::string error = error_of("serve M --port 99999 --dtype x --prot 1 --enable-lora --max-num-seqs");
  EXPECT_THAT(error, HasSubstr("5 problems:"));
  for (const char* part : {"--port '99999'", "--dtype 'x'", "'--prot': unknown flag", "--enable-lora", "--max-num-seqs: needs a value"})
    EXPECT_THAT(error, HasSubstr(part));
}

TEST(Fates, SecretsAreNeverShown) {
  const Options options = options_of("M --api-key s3cret --hf-token tok3n");
  for (const auto& [name, value] : options.non_default_args())
    EXPECT_THAT(value, ::testing::Not(::testing::AnyOf(HasSubstr("s3cret"), HasSubstr("tok3n")))) << name;
}

TEST(Fates, NonDefaultArgsLeaveDefaultsOut) {
  using Pair = std::pair<std::string, std::string>;
  EXPECT_THAT(options_of("M --port 8000 --max-num-seqs 4 --served-model-name a b -cc.level 0 --api-key k").non_default_args(),
              ElementsAre(Pair{"model", "M"}, Pair{"served-model-name", "a b"}, Pair{"max-num-seqs", "4"},
                          Pair{"compilation-config", "{\"level\":0}"}, Pair{"api-key", "***"}));
}

TEST(Commands, RunTakesSamplingFlags) {
  auto command = parse_command_line(words("run M --prompt 'a b' --max-tokens 5 --temperature 0 --seed 3 --chat --json --num-threads 1"));
  ASSERT_TRUE(command.ok()) << command.error().message;
  const auto& run = std::get<RunCommand>(command.value());
  EXPECT_EQ(run.request.prompt, "a b");
  EXPECT_EQ(run.request.max_tokens, 5);
  EXPECT_EQ(run.request.temperature, 0.0);
  EXPECT_EQ(run.request.seed, 3);
  EXPECT_FALSE(run.request.top_p.has_value());
  EXPECT_TRUE(run.request.chat);
  EXPECT_TRUE(run.options.boolean("json"));
}

TEST(Commands, ChatAndBenches) {
  const auto parsed = [](const char* line) {
    auto command = parse_command_line(words(line));
    EXPECT_TRUE(command.ok()) << line << ": " << command.error().message;
    return std::move(command).value();
  };
  const Command remote = parsed("chat --base-url http://h --top-p 0.5 --json");
  EXPECT_EQ(std::get<ChatCommand>(remote).options.text("base-url"), "http://h");
  EXPECT_EQ(std::get<ChatCommand>(remote).options.model(), "");
  EXPECT_EQ(std::get<ChatCommand>(parsed("chat M --max-num-seqs 4 --port 1")).options.model(), "M");
  const Command load = parsed("bench serve --base-url http://h --model NAME --request-rate inf --random-input-len 5 --metric-percentiles 1,2 --dataset-path f --endpoint /v1/chat/completions --temperature 0 --seed 4");
  const Options& serve = std::get<BenchServeCommand>(load).options;
  EXPECT_EQ(serve.model(), "NAME");
  EXPECT_TRUE(serve.notes().empty()) << "--model is no older form here";
  EXPECT_EQ(serve.number("request-rate"), std::nullopt);
  EXPECT_EQ(serve.integer("input-len"), 5);
  EXPECT_EQ(serve.text("percentiles"), "1,2");
  EXPECT_EQ(serve.text("dataset"), "f");
  EXPECT_EQ(std::get<BenchServeCommand>(parsed("bench serve --base-url http://h --request-rate 2.5")).options.number("request-rate"), 2.5);
  const Command latency = parsed("bench latency M --batch-size 2 --max-num-seqs 4 --port 1");
  EXPECT_EQ(std::get<BenchLatencyCommand>(latency).options.integer("input-len"), std::nullopt) << "each bench has its own default";
  EXPECT_EQ(std::get<BenchThroughputCommand>(parsed("bench throughput M --prefix-len 3")).options.integer("num-prompts"), 1000);
}

TEST(Commands, HelpAndVersion) {
  for (const char* line : {"", "--help", "-h", "help", "serve --help", "serve M -h --bad", "run --help", "chat --help", "bench --help", "bench attention -h", "bench serve --help", "bench latency --help", "bench throughput M --help"}) {
    const auto command = parse_command_line(words(line));
    ASSERT_TRUE(command.ok()) << line;
    EXPECT_TRUE(std::holds_alternative<HelpCommand>(command.value())) << line;
  }
  EXPECT_TRUE(std::get<VersionCommand>(parse_command_line(words("--version --json")).value()).json);
  EXPECT_FALSE(std::get<VersionCommand>(parse_command_line(words("--version")).value()).json);
  EXPECT_EQ(std::get<FlagsDocCommand>(parse_command_line(words("flags-doc x")).value()).folder, "x");
  EXPECT_EQ(kUsageExitCode, 2);
}

}  // namespace
}  // namespace quire::config
