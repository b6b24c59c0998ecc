// quire quantize: an FP8 checkpoint of a 16-bit one. Runs the model where a form needs scales that only running gives; the rest is files
// (quantize/job.h).
#pragma once
#include <boost/json/object.hpp>
#include <string>

#include "config/command_line.h"
#include "quantize/job.h"

namespace quire::commands {

struct QuantizeResult {
  std::string model, format, kv, output;
  std::string text;  // that calibration ran over: a path, "the built-in text", or "" when none was needed
  double seconds = 0.0;
  quantize::JobReport report;
};
[[nodiscard]] std::string quantize_text(const QuantizeResult& result);
[[nodiscard]] boost::json::object quantize_json(const QuantizeResult& result);

// The process's exit code: 0; 2 for a command line, a source or an output folder that is wrong; 1 when the system refused.
[[nodiscard]] int quantize(const config::QuantizeCommand& command);

}  // namespace quire::commands
