// quire explain: which attention backends serve a model on a device, present or not, with every reason. Reads config.json and the tables;
// with --scales the checkpoint's scale tensors. Touches no device.
#pragma once
#include <boost/json/object.hpp>
#include <string>
#include <vector>

#include "attention/device_family.h"
#include "attention/select.h"
#include "config/command_line.h"
#include "config/environment.h"
#include "config/resolve.h"
#include "model/spec.h"

namespace quire::commands {

// What attention needs of a checkpoint. Read leniently: a model that `serve` refuses can still be asked about.
struct ModelFacts {
  std::int32_t num_heads = 0, num_kv_heads = 0, head_dim = 0;
  DType dtype = DType::kBF16;
  attention::MaskSet masks;
  config::LengthLimit limit;       // as serve resolves it
  bool fp8_kv = false;             // the checkpoint declares an FP8 KV cache
  model::ModelSpec spec;           // what `serve` reads, where it reads it
  std::string serve_refusal;       // why `serve` refuses config.json or tokenizer_config.json; "": it does not
};
[[nodiscard]] Result<ModelFacts> read_model_facts(const std::string& model_dir, const std::string& tokenizer_dir);

struct ExplainInputs {
  const config::Options& options;
  std::string device;  // name of a device family; "" or "auto": cpu
  config::EnvVariables variables;
  ModelFacts facts;
};

struct Explanation {
  std::string model;
  const attention::DeviceFamily* device = nullptr;
  attention::AttnProblem problem;
  std::string quantization;  // of the weights, in one line; "none"
  attention::Selection selection;
  std::string graph_mode;                 // asked for; "": none
  std::string graph_runs;                 // what runs instead or as asked; "": nothing serves, or a refusal
  std::vector<std::string> graph_changes; // why that differs, or why it is refused
  std::vector<std::string> not_built;     // parts of the command line that `serve` refuses in this program
  std::vector<config::Adjustment> notes;  // everything else to be said about it

  [[nodiscard]] bool runnable() const;  // `quire serve` of this program takes this command line as far as attention is concerned
};

// A pure function. Errors: unknown device, backend, key or value; never "nothing serves".
[[nodiscard]] Result<Explanation> make_explanation(const ExplainInputs& inputs);

[[nodiscard]] std::string explanation_text(const Explanation& e);
[[nodiscard]] boost::json::object explanation_json(const Explanation& e);

// The process's exit code: 0 whenever there is an answer.
[[nodiscard]] int explain(const config::ExplainCommand& command);

}  // namespace quire::commands
