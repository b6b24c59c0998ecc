// Which linears there are: weight format x input x device, each with its kernel or the reason why there is none. One table, read by linear(),
// by the loader before it reads a byte, by `quire explain` and by docs/LINEAR.md.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ops/coded.h"
#include "ops/tensors.h"

namespace quire::device {
enum class KernelId : std::uint16_t;
}

namespace quire::ops {

enum class LinearDevice : std::uint8_t { kCpu, kCuda, kRocm };
[[nodiscard]] const char* linear_device_name(LinearDevice d);  // "CPU", "CUDA", "ROCm"

struct LinearRow {
  std::string_view weights;  // weight_format_name()
  ActFormat input;
  ActScaling scaling;
  LinearDevice device;
  device::KernelId kernel;   // holds only without a refusal
  std::string_view refusal;  // why there is no kernel; "": there is one
};

[[nodiscard]] std::span<const LinearRow> linear_table();
// "float32", or "float8_e4m3fn, static scale", "..., scale per token", "..., scale per token and 128 columns"
[[nodiscard]] std::string input_name(ActFormat format, ActScaling scaling);

// nullptr: the table does not have the pair, which is a refusal too.
[[nodiscard]] const LinearRow* find_linear(std::string_view weights, ActFormat input, ActScaling scaling, LinearDevice device);
[[nodiscard]] inline const LinearRow* find_linear(WeightFormat weights, const InputQuant& input, LinearDevice device) {
  return find_linear(weight_format_name(weights), input.format, input.scaling, device);
}

// kUnsupported: no such linear, with both formats, the device, the reason, and what these weights can be multiplied with there.
[[nodiscard]] Status linear_support(std::string_view weights, ActFormat input, ActScaling scaling, LinearDevice device);
[[nodiscard]] inline Status linear_support(WeightFormat weights, const InputQuant& input, LinearDevice device) {
  return linear_support(weight_format_name(weights), input.format, input.scaling, device);
}

// One line for each kernel of a device and for each different refusal: what `quire explain` prints.
[[nodiscard]] std::vector<std::string> linear_lines(LinearDevice device);
// docs/LINEAR.md.
[[nodiscard]] std::string linear_markdown();

}  // namespace quire::ops
