// The table itself, and every text made from it: help, documents; and --print-config.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/serialize.hpp>

#include "attention/capability.h"
#include "base/files.h"
#include "config/help.h"
#include "config/print.h"
#include "config/values.h"
#include "graph/document.h"
#include "model/gguf_architectures.h"
#include "model/spec.h"
#include "ops/linear_table.h"
#include "kit.h"

namespace quire::config {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string repository_file(const std::string& name) {
  auto text = read_file(QUIRE_SOURCE_DIR "/" + name, 1u << 22);
  return text.ok() ? std::move(text).value() : text.error().message;
}

TEST(Table, EveryRowIsSound) {
  for (const FlagRow* row : flag_table()) {
    EXPECT_FALSE(row->help.empty()) << row->name;
    EXPECT_EQ(row->fate == Fate::kHonoured && row->unbuilt.empty(), row->fate_text.empty()) << row->name;
    EXPECT_TRUE(row->neutral.empty() || row->fate == Fate::kNotBuilt) << row->name;
    EXPECT_TRUE(row->kind != ValueKind::kBool || parse_bool(row->fallback)) << row->name;
    EXPECT_TRUE(row->kind != ValueKind::kChoice || row->fallback.empty() || is_word(row->allowed, row->fallback)) << row->name << ": a default of its own words, or none: it must be given";
    if (row->kind == ValueKind::kInt && parse_integer(row->fallback)) {
      EXPECT_TRUE(check_value(*row, row->name, row->fallback).ok()) << row->name;
    }
    for (std::string_view word : split_words(row->unbuilt)) EXPECT_TRUE(is_word(row->allowed, word)) << row->name << " " << word;
    for (std::string_view alias : split_words(row->aliases, ' ')) EXPECT_TRUE(alias.starts_with('-')) << row->name;
    EXPECT_EQ(&flag(row->name), row);
    EXPECT_EQ(match_flag("--" + std::string(row->name)).row, row);
  }
}

// Every flag of vLLM's engine and front end, old and new: each must have a row, whatever its fate.
TEST(Table, HoldsEveryFlagOfVllm) {
  const std::string all =
      "--model --served-model-name --tokenizer --tokenizer-mode --tokenizer-revision --skip-tokenizer-init --trust-remote-code --revision "
      "--code-revision --hf-token --hf-config-path "
      "--hf-overrides --dtype --quantization -q --max-model-len --seed --load-format --download-dir --model-loader-extra-config --ignore-patterns "
      "--safetensors-load-strategy "
      "--use-tqdm-on-load --generation-config --override-generation-config --max-logprobs --logprobs-mode --enforce-eager --disable-sliding-window "
      "--disable-cascade-attn "
      "--enable-prompt-embeds --enable-sleep-mode --logits-processor-pattern --logits-processors --tensor-parallel-size -tp --pipeline-parallel-size "
      "-pp --data-parallel-size -dp "
      "--data-parallel-size-local -dpl --data-parallel-rank -dpn --data-parallel-start-rank -dpr --data-parallel-address -dpa "
      "--data-parallel-rpc-port -dpp --data-parallel-backend -dpb "
      "--data-parallel-hybrid-lb -dph --data-parallel-external-lb -dpe --decode-context-parallel-size -dcp --prefill-context-parallel-size -pcp "
      "--enable-expert-parallel -ep --enable-eplb "
      "--all2all-backend --nnodes --node-rank --master-addr --master-port --distributed-executor-backend --disable-custom-all-reduce "
      "--max-parallel-loading-workers --worker-cls "
      "--worker-extension-cls --block-size --gpu-memory-utilization --kv-cache-memory-bytes --kv-cache-dtype --calculate-kv-scales "
      "--num-gpu-blocks-override --enable-prefix-caching "
      "--prefix-caching-hash-algo --cpu-offload-gb --kv-offloading-size --kv-offloading-backend --max-num-batched-tokens --max-num-seqs "
      "--enable-chunked-prefill "
      "--long-prefill-token-threshold --max-num-partial-prefills --max-long-partial-prefills --scheduling-policy --async-scheduling "
      "--stream-interval --scheduler-cls "
      "--disable-hybrid-kv-cache-manager --scheduler-reserve-full-isl --attention-backend --attention-config -ac --compilation-config -cc "
      "--optimization-level --cudagraph-capture-sizes "
      "--max-cudagraph-capture-size --cuda-graph-sizes --performance-mode --speculative-config --kv-transfer-config --kv-events-config "
      "--ec-transfer-config --structured-outputs-config "
      "--reasoning-parser --enable-lora --max-loras --max-lora-rank --lora-dtype --lora-modules --limit-mm-per-prompt --mm-processor-kwargs "
      "--mm-processor-cache-gb --skip-mm-profiling "
      "--disable-log-stats --show-hidden-metrics-for-version --otlp-traces-endpoint --collect-detailed-traces --kv-cache-metrics --cudagraph-metrics "
      "--enable-mfu-metrics "
      "--enable-log-requests --additional-config --host --port --uds --api-key --uvicorn-log-level --disable-uvicorn-access-log "
      "--disable-access-log-for-endpoints --allowed-origins "
      "--allowed-methods --allowed-headers --allow-credentials --ssl-keyfile --ssl-certfile --ssl-ca-certs --ssl-cert-reqs --enable-ssl-refresh "
      "--root-path --middleware "
      "--disable-fastapi-docs --enable-request-id-headers --chat-template --chat-template-content-format --trust-request-chat-template "
      "--default-chat-template-kwargs --response-role "
      "--enable-auto-tool-choice --tool-call-parser --tool-parser-plugin --tool-server --exclude-tools-when-tool-choice-none "
      "--return-tokens-as-token-ids --max-log-len "
      "--enable-prompt-tokens-details --enable-force-include-usage --enable-server-load-tracking --enable-tokenizer-info-endpoint "
      "--enable-log-outputs --enable-log-deltas "
      "--log-error-stack --log-config-file --h11-max-incomplete-event-size --h11-max-header-count --api-server-count -asc --headless --config "
      "--shutdown-timeout --fingerprint-mode "
      "--fingerprint-value --swap-space --max-seq-len-to-capture --disable-log-requests --guided-decoding-backend --task --runner --convert "
      "--rope-scaling --rope-theta";
  for (std::string_view name : split_words(all, ' ')) EXPECT_NE(match_flag(name).row, nullptr) << name;
}

// Parsing one value of each row: an honoured flag passes, one without effect warns, an unbuilt one is refused.
TEST(Table, FatesHold) {
  for (const FlagRow* row : flag_table()) {
    if (!takes(Audience::kServe, *row) || row->name == "model" || row->name == "config" || row->name == "help") continue;
    std::string value = "probe";
    if (row->kind == ValueKind::kBool) value = row->fallback == "true" ? "false" : "true";
    if (row->kind == ValueKind::kChoice || (row->kind != ValueKind::kInt && !row->allowed.empty()))
      value = std::string(split_words(row->allowed).back());
    if (row->kind == ValueKind::kInt || row->kind == ValueKind::kIntList)
      value = std::to_string(std::max<std::int64_t>(int_range(row->allowed).lo, 0) + 1);
    if (row->kind == ValueKind::kFloat) value = "0.25";
    if (row->kind == ValueKind::kJson) value = "{\"a\":1}";
    if (value == row->fallback) value = "2";
    const std::vector<std::string> line{"serve", "M", "--" + std::string(row->name) + "=" + value};
    const auto command = parse_command_line(line);
    const bool refused = row->fate == Fate::kNotBuilt || is_word(row->unbuilt, value);
    EXPECT_EQ(command.ok(), !refused) << line[2] << (command.ok() ? "" : command.error().message);
    if (!command.ok()) {
      EXPECT_THAT(command.error().message, HasSubstr("not built yet")) << line[2];
      EXPECT_THAT(command.error().message, HasSubstr("--" + std::string(row->name)));
    } else {
      EXPECT_EQ(std::get<ServeCommand>(command.value()).options.notes().size(), row->fate == Fate::kNoEffect ? 1u : 0u) << line[2];
    }
  }
}

TEST(Help, FitsAHundredColumns) {
  for (const std::string& text : {program_help(), command_help(Audience::kServe), command_help(Audience::kRun), command_help(Audience::kExplain), command_help(Audience::kBench), command_help(Audience::kBenchAttention), command_help(Audience::kBenchServe),
                                  command_help(Audience::kBenchLatency), command_help(Audience::kBenchThroughput), command_help(Audience::kChat), command_help(Audience::kExportTokenizer)}) {
    for (std::string_view line : split_words(text, '\n')) EXPECT_LE(line.size(), 100u) << line;
  }
}

TEST(Help, ShowsDefaultsRangesAndFates) {
  std::string help = command_help(Audience::kServe);
  std::replace(help.begin(), help.end(), '\n', ' ');
  help.erase(std::unique(help.begin(), help.end(), [](char a, char b) { return a == ' ' && b == ' '; }), help.end());
  EXPECT_THAT(help, HasSubstr("--port N"));
  EXPECT_THAT(help, HasSubstr("integer from 0 to 65535; default 8000"));
  EXPECT_THAT(help, HasSubstr("--[no-]enable-prefix-caching"));
  EXPECT_THAT(help, HasSubstr("Accepted without effect"));
  EXPECT_THAT(help, HasSubstr(" --swap-space "));
  EXPECT_THAT(help, Not(HasSubstr("--swap-space X")));
  EXPECT_THAT(help, HasSubstr("--compilation-config, -cc, -O JSON"));
  EXPECT_THAT(help, Not(HasSubstr("--prompt")));
  EXPECT_THAT(command_help(Audience::kRun), HasSubstr("--prompt TEXT"));
  for (const char* flag : {"--base-url TEXT", "--request-rate X", "--max-concurrency N", "--model, --model-tag TEXT", "--temperature X", "--plot TEXT", "--[no-]json", "--seed N", "--input-len, --random-input-len N"})
    EXPECT_THAT(command_help(Audience::kBenchServe), HasSubstr(flag));
  EXPECT_THAT(command_help(Audience::kChat), ::testing::AllOf(HasSubstr("--base-url TEXT"), HasSubstr("--max-tokens N"), Not(HasSubstr("--num-prompts"))));
  EXPECT_THAT(command_help(Audience::kBenchLatency), ::testing::AllOf(HasSubstr("--num-iters N"), Not(HasSubstr("--num-prompts"))));
  EXPECT_THAT(command_help(Audience::kBenchThroughput), HasSubstr("--num-prompts N"));
  EXPECT_THAT(command_help(Audience::kExportTokenizer), ::testing::AllOf(HasSubstr("--output TEXT"), HasSubstr("--[no-]overwrite"), Not(HasSubstr("--kv"))));
  EXPECT_THAT(command_help(Audience::kQuantize), ::testing::AllOf(HasSubstr("--output TEXT"), HasSubstr("--kv WORD")));
}

TEST(Documents, AreFresh) {
  const char* remedy = "refresh with: ninja quire_docs && bin/quire_docs docs";
  EXPECT_TRUE(repository_file("docs/FLAGS.md") == flags_markdown()) << "docs/FLAGS.md is stale; " << remedy;
  EXPECT_TRUE(repository_file("docs/CAPABILITIES.md") == attention::capabilities_markdown()) << "docs/CAPABILITIES.md is stale; " << remedy;
  EXPECT_TRUE(repository_file("docs/LINEAR.md") == ops::linear_markdown()) << "docs/LINEAR.md is stale; " << remedy;
  EXPECT_TRUE(repository_file("docs/ENV.md") == env_markdown()) << "docs/ENV.md is stale; " << remedy;
  EXPECT_TRUE(repository_file("docs/GGUF.md") == model::gguf_markdown()) << "docs/GGUF.md is stale; " << remedy;
  EXPECT_TRUE(repository_file("docs/FAMILIES.md") == model::families_markdown()) << "docs/FAMILIES.md is stale; " << remedy;
  EXPECT_TRUE(repository_file("docs/QUANTIZATION.md") == model::quantization_markdown()) << "docs/QUANTIZATION.md is stale; " << remedy;
  EXPECT_TRUE(repository_file("docs/GRAPH_MODES.md") == graph::graph_modes_markdown()) << "docs/GRAPH_MODES.md is stale; " << remedy;
}

TEST(Documents, CannotBeWrittenNowhere) {
  const Status status = write_docs("no/such/folder");
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message, HasSubstr("no/such/folder/FLAGS.md"));
}

ResolvedConfig example() {
  return test::resolved(
      "gsm-tiny --max-num-seqs 8 --kv-cache-memory-bytes 64M --swap-space 4 --api-key s3cret --port 0 --async-scheduling --relaxed unused-tensors "
      "--attention-backend cpu_split --enforce-eager");
}

TEST(PrintConfig, TextAndJsonAgreeAndHideKeys) {
  const ResolvedConfig config = example();
  const std::string text = config_text(config);
  EXPECT_THAT(text, HasSubstr("scheduler.max_num_seqs: 8\n"));
  EXPECT_THAT(text, HasSubstr("engine.kv_cache_bytes: 67108864\n"));
  const auto json = config_json(config);
  EXPECT_EQ(json.at("scheduler").at("max_num_seqs").as_int64(), 8);
  EXPECT_EQ(json.at("http").at("api_keys").as_uint64(), 1u);
  for (const std::string& shown : {text, boost::json::serialize(json)}) EXPECT_THAT(shown, Not(HasSubstr("s3cret")));
}

}  // namespace
}  // namespace quire::config
