#include "explain_cases.h"

namespace quire::commands::test {

const std::vector<ThreadLine>& thread_lines() {
  static const ModelFacts kLlama70b{.num_heads = 64, .num_kv_heads = 8, .head_dim = 128, .dtype = DType::kBF16, .masks = {}, .max_positions = 131072, .fp8_kv = true, .serve_refusal = ""};
  static const ModelFacts kLlama8b{.num_heads = 32, .num_kv_heads = 8, .head_dim = 128, .dtype = DType::kBF16, .masks = {}, .max_positions = 131072, .fp8_kv = false, .serve_refusal = ""};
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

}  // namespace quire::commands::test
