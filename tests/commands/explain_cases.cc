#include "explain_cases.h"

#include "commands/kv_scales.h"
#include "kit/temp_dir.h"
#include "model/checkpoint_files.h"

namespace quire::commands::test {

namespace {

// Static FP8 weights and an FP8 cache, as the first generation of FP8-KV checkpoints has them.
model::ModelSpec fp8_spec(std::int32_t num_layers) {
  model::ModelSpec spec;
  spec.num_layers = num_layers;
  spec.quant.method = model::QuantMethod::kFp8;
  spec.quant.declared_by = "config.json: quantization_config.quant_method";
  model::LayerSchemes all;
  all.fill({model::WeightScaling::kTensor, model::InputScaling::kStatic});
  spec.quant.layers.assign(static_cast<std::size_t>(num_layers), all);
  spec.quant.kv = model::KvScheme{};
  return spec;
}

model::ModelSpec plain_spec(std::int32_t num_layers) {
  model::ModelSpec spec;
  spec.num_layers = num_layers;
  return spec;
}

}  // namespace

const std::vector<ThreadLine>& thread_lines() {
  static const ModelFacts kLlama70b{.num_heads = 64, .num_kv_heads = 8, .head_dim = 128, .dtype = DType::kBF16, .masks = {}, .limit = {.tokens = 131072}, .fp8_kv = true, .spec = fp8_spec(80), .serve_refusal = ""};
  static const ModelFacts kLlama8b{.num_heads = 32, .num_kv_heads = 8, .head_dim = 128, .dtype = DType::kBF16, .masks = {}, .limit = {.tokens = 131072}, .fp8_kv = false, .spec = plain_spec(32), .serve_refusal = ""};
  static const std::vector<ThreadLine> kLines = {
      {"#20295",
       {{"HIP_VISIBLE_DEVICES", "3,4"}, {"VLLM_ROCM_USE_AITER", "1"}, {"VLLM_USE_V1", "1"}},
       {"MODEL", "--tensor-parallel-size", "2", "--gpu-memory-utilization", "0.9", "--trust-remote-code", "--disable-log-requests", "--block-size", "16", "--max-model-len", "32768", "--dtype",
        "float16", "--quantization", "fp8", "--no-enable-prefix-caching", "--max-num-batched-tokens=8192", "--kv-cache-dtype", "fp8", "--compilation-config", R"({"full_cuda_graph":true})"},
       kLlama70b},
      {"#25104",
       {{"VLLM_ROCM_USE_AITER_MHA", "1"}},
       {"MODEL", "-tp", "1", "--max-num-batched-tokens", "131072", "--max-num-seqs", "1024", "--max-seq-len-to-capture", "16384", "--max-model-len", "10240", "--swap-space", "64",
        "--no-enable-prefix-caching", "--disable-log-requests", "--disable-uvicorn-access-log", "--trust-remote-code", "--gpu-memory-utilization", "0.90", "-O",
        R"({"compilation_config":"FULL"})"},
       kLlama8b},
  };
  return kLines;
}

Result<Explanation> explained(std::vector<std::string> arguments, const ModelFacts& facts, const config::EnvVariables& variables) {
  arguments.insert(arguments.begin(), "explain");
  const auto command = config::parse_command_line(arguments);
  if (!command.ok()) return command.error();
  const auto& explain = std::get<config::ExplainCommand>(command.value());
  return make_explanation({explain.options, explain.device, variables, facts});
}

std::string golden_text(std::string_view device) {
  std::string out;
  for (const ThreadLine& line : thread_lines()) {
    auto arguments = line.arguments;
    arguments.insert(arguments.end(), {"--device", std::string(device)});
    const auto e = explained(arguments, line.facts, line.variables);
    out += (out.empty() ? "" : "\n") + std::string("== ") + line.title + "\n" + (e.ok() ? explanation_text(e.value()) : "error: " + e.error().message + "\n");
  }
  return out;
}

namespace {

using Tensors = std::vector<model::test::RawTensor>;

constexpr char kTinyConfig[] = R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2,
  "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4, "vocab_size": 16, "max_position_embeddings": 64, "torch_dtype": "bfloat16"})";

// Layer n's scale is first + n, or first and first + 1 for two heads.
void add_scales(Tensors& to, const std::string& suffix, float first, const std::vector<std::int64_t>& shape = {}) {
  for (int layer = 0; layer < 2; ++layer) to.push_back(model::test::counting_tensor("model.layers." + std::to_string(layer) + ".self_attn." + suffix, shape, first + static_cast<float>(layer)));
}

struct ScaleCase {
  const char* title;
  Tensors tensors;
  std::vector<std::vector<std::string>> lines;  // of flags
};

std::vector<ScaleCase> scale_cases() {
  std::vector<ScaleCase> cases = {
      {"Quark", {}, {{"--kv-cache-dtype", "fp8"}, {"--kv-cache-dtype", "fp8", "--device", "gfx942"}, {"--kv-cache-dtype", "fp8_e5m2"}, {"--kv-cache-dtype", "bfloat16"}}},
      {"compressed-tensors, a scale for each head", {}, {{"--kv-cache-dtype", "fp8", "--device", "gfx942"}}},
      {"AutoFP8, one scale for both", {}, {{"--kv-cache-dtype", "fp8"}, {"--kv-cache-dtype", "fp8", "--device", "gfx942"}}},
      {"no scales", {}, {{"--kv-cache-dtype", "fp8"}, {"--kv-cache-dtype", "fp8", "--load-format", "dummy"}, {}}},
      {"half a set and an unknown one", {}, {{"--kv-cache-dtype", "fp8"}, {"--kv-cache-dtype", "fp8", "--relaxed", "kv-scales"}}},
  };
  for (const char* suffix : {"k_proj.output_scale", "v_proj.output_scale", "q_proj.output_scale", "prob_output_scale"}) add_scales(cases[0].tensors, suffix, 0.5f);
  add_scales(cases[1].tensors, "k_scale", 0.25f, {2, 1, 1});
  add_scales(cases[1].tensors, "v_scale", 0.75f, {2, 1, 1});
  add_scales(cases[2].tensors, "kv_scale", 0.5f, {1});
  cases[4].tensors = {model::test::counting_tensor("model.layers.1.self_attn.k_scale", {}, 0.5f), model::test::counting_tensor("model.layers.1.self_attn.o_proj.output_scale", {}, 0.5f)};
  return cases;
}

std::string scales_text(const std::string& model_dir, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "MODEL");
  const auto facts = read_model_facts(model_dir, model_dir);
  QUIRE_CHECK(facts.ok()) << facts.error().message;
  const auto e = explained(arguments, facts.value());
  QUIRE_CHECK(e.ok()) << e.error().message;
  arguments.insert(arguments.begin(), "explain");
  const auto command = config::parse_command_line(arguments);
  const auto ledger = explained_ledger({model_dir, e->problem.kv_format, std::get<config::ExplainCommand>(command.value()).options});
  return ledger.ok() ? ledger_text(ledger.value()) : "error: " + ledger.error().message + "\n";
}

}  // namespace

std::string scales_golden_text() {
  std::string out;
  for (const ScaleCase& c : scale_cases()) {
    const quire::test::TempDir dir;
    (void)dir.write("config.json", kTinyConfig);
    (void)dir.write("model.safetensors", model::test::safetensors_of(c.tensors));
    for (const auto& line : c.lines) {
      std::string flags;
      for (const std::string& word : line) flags += " " + word;
      out += (out.empty() ? "" : "\n") + std::string("== ") + c.title + ":" + flags + "\n" + scales_text(dir.path(), line);
    }
  }
  return out;
}

}  // namespace quire::commands::test
