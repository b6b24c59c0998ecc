#include "ops/linear_table.h"

#include <algorithm>
#include <array>

#include "device/kernel_id.h"

namespace quire::ops {
namespace {

using device::KernelId;
using enum ActFormat;
using enum ActScaling;
using enum LinearDevice;

constexpr std::string_view kNotBuilt = "not built in this build", kWide = "16- and 32-bit weights are multiplied with float32 activations", kOtherEncoding = "weights and input must share one FP8 encoding",
                           kGguf = "GGUF blocks have no kernel in this build", kCodes = "codes of GGUF blocks are multiplied with int8 activations";
constexpr KernelId kNoKernel{};

constexpr LinearRow kernel(std::string_view weights, ActFormat input, ActScaling scaling, KernelId id) { return {weights, input, scaling, kCpu, id, {}}; }
constexpr LinearRow refused(std::string_view weights, ActFormat input, ActScaling scaling, LinearDevice device, std::string_view why) { return {weights, input, scaling, device, kNoKernel, why}; }

constexpr std::string_view kF32Name = "float32", kF16Name = "float16", kBF16Name = "bfloat16", kE4m3Name = "float8_e4m3fn", kFnuzName = "float8_e4m3fnuz";

// clang-format off
constexpr std::array kTable = {
    kernel(kF32Name, kF32, kNone, KernelId::kLinearF32),
    kernel(kF16Name, kF32, kNone, KernelId::kLinearF16),
    kernel(kBF16Name, kF32, kNone, KernelId::kLinearBF16),
    kernel(kE4m3Name, kF32, kNone, KernelId::kLinearE4m3),
    kernel(kE4m3Name, kFp8E4m3, kStatic, KernelId::kLinearE4m3),
    kernel(kE4m3Name, kFp8E4m3, kPerToken, KernelId::kLinearE4m3),
    kernel(kE4m3Name, kFp8E4m3, kPerGroup, KernelId::kLinearE4m3),
    kernel(kFnuzName, kF32, kNone, KernelId::kLinearE4m3Fnuz),
    kernel(kFnuzName, kFp8E4m3Fnuz, kStatic, KernelId::kLinearE4m3Fnuz),
    kernel(kFnuzName, kFp8E4m3Fnuz, kPerToken, KernelId::kLinearE4m3Fnuz),
    kernel(kFnuzName, kFp8E4m3Fnuz, kPerGroup, KernelId::kLinearE4m3Fnuz),
    refused(kE4m3Name, kFp8E4m3Fnuz, kStatic, kCpu, kOtherEncoding),
    refused(kE4m3Name, kFp8E4m3Fnuz, kPerToken, kCpu, kOtherEncoding),
    refused(kE4m3Name, kFp8E4m3Fnuz, kPerGroup, kCpu, kOtherEncoding),
    refused(kFnuzName, kFp8E4m3, kStatic, kCpu, kOtherEncoding),
    refused(kFnuzName, kFp8E4m3, kPerToken, kCpu, kOtherEncoding),
    refused(kFnuzName, kFp8E4m3, kPerGroup, kCpu, kOtherEncoding),
    refused(kF16Name, kFp8E4m3, kStatic, kCpu, kWide), refused(kBF16Name, kFp8E4m3, kStatic, kCpu, kWide), refused(kF32Name, kFp8E4m3, kStatic, kCpu, kWide),
    kernel("Q8_0", kInt8, kPerGroup, KernelId::kLinearCoded), kernel("Q4_0", kInt8, kPerGroup, KernelId::kLinearCoded), kernel("Q4_1", kInt8, kPerGroup, KernelId::kLinearCoded),
    kernel("Q5_0", kInt8, kPerGroup, KernelId::kLinearCoded), kernel("Q5_1", kInt8, kPerGroup, KernelId::kLinearCoded),
    kernel("Q4_K", kInt8, kPerGroup, KernelId::kLinearCoded), kernel("Q5_K", kInt8, kPerGroup, KernelId::kLinearCoded), kernel("Q6_K", kInt8, kPerGroup, KernelId::kLinearCoded),
    refused("Q8_0", kF32, kNone, kCpu, kCodes), refused("Q4_0", kF32, kNone, kCpu, kCodes), refused("Q4_1", kF32, kNone, kCpu, kCodes), refused("Q5_0", kF32, kNone, kCpu, kCodes), refused("Q5_1", kF32, kNone, kCpu, kCodes),
    refused("Q4_K", kF32, kNone, kCpu, kCodes), refused("Q5_K", kF32, kNone, kCpu, kCodes), refused("Q6_K", kF32, kNone, kCpu, kCodes),
    refused(kF16Name, kF32, kNone, kCuda, kNotBuilt), refused(kBF16Name, kF32, kNone, kCuda, kNotBuilt),
    refused(kE4m3Name, kFp8E4m3, kStatic, kCuda, kNotBuilt), refused(kE4m3Name, kFp8E4m3, kPerToken, kCuda, kNotBuilt), refused(kE4m3Name, kFp8E4m3, kPerGroup, kCuda, kNotBuilt),
    refused("Q4_K", kF32, kNone, kCuda, kGguf),
    refused(kF16Name, kF32, kNone, kRocm, kNotBuilt), refused(kBF16Name, kF32, kNone, kRocm, kNotBuilt),
    refused(kE4m3Name, kFp8E4m3, kStatic, kRocm, kNotBuilt), refused(kE4m3Name, kFp8E4m3, kPerToken, kRocm, kNotBuilt),
    refused(kFnuzName, kFp8E4m3Fnuz, kStatic, kRocm, kNotBuilt), refused(kFnuzName, kFp8E4m3Fnuz, kPerToken, kRocm, kNotBuilt), refused(kFnuzName, kFp8E4m3Fnuz, kPerGroup, kRocm, kNotBuilt),
    refused("Q4_K", kF32, kNone, kRocm, kGguf),
};
// clang-format on

constexpr bool same_pair(const LinearRow& a, const LinearRow& b) { return a.weights == b.weights && a.input == b.input && a.scaling == b.scaling && a.device == b.device; }

constexpr bool each_pair_once() {
  for (std::size_t i = 0; i < kTable.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (same_pair(kTable[i], kTable[j])) return false;
  return true;
}
static_assert(each_pair_once());

// Inputs that `weights` have a kernel for on `device`.
std::string inputs_of(std::string_view weights, LinearDevice device) {
  std::string out;
  for (const LinearRow& r : kTable)
    if (r.weights == weights && r.device == device && r.refusal.empty()) out += (out.empty() ? "" : "; ") + input_name(r.input, r.scaling);
  return out;
}

}  // namespace

const char* linear_device_name(LinearDevice d) { return d == kCpu ? "CPU" : d == kCuda ? "CUDA" : "ROCm"; }

std::span<const LinearRow> linear_table() { return kTable; }

std::string input_name(ActFormat format, ActScaling scaling) {
  const std::string name = format == kInt8 ? "int8" : dtype_name(storage_dtype(format));
  switch (scaling) {
    case kNone: return name;
    case kStatic: return name + ", static scale";
    case kPerToken: return name + ", scale per token";
    case kPerGroup: return name + ", scale per token and " + std::to_string(InputQuant{format, scaling, 0, {}}.group()) + " columns";
  }
  return name;
}

const LinearRow* find_linear(std::string_view weights, ActFormat input, ActScaling scaling, LinearDevice device) {
  const auto found = std::ranges::find_if(kTable, [&](const LinearRow& r) { return r.weights == weights && r.input == input && r.scaling == scaling && r.device == device; });
  return found == kTable.end() ? nullptr : &*found;
}

Status linear_support(std::string_view weights, ActFormat input, ActScaling scaling, LinearDevice device) {
  const LinearRow* row = find_linear(weights, input, scaling, device);
  if (row != nullptr && row->refusal.empty()) return {};
  const std::string able = inputs_of(weights, device);
  return Error{ErrorCode::kUnsupported,
               std::string(weights) + " weights by " + input_name(input, scaling) + " on " + linear_device_name(device) + ": " + (row == nullptr ? "no such linear" : std::string(row->refusal)) + "; " +
                   (able.empty() ? "nothing multiplies these weights there" : "these weights take: " + able),
               {}};
}

std::vector<std::string> linear_lines(LinearDevice device) {
  std::vector<std::string> out;
  for (const LinearRow& r : kTable)
    if (r.device == device && r.refusal.empty()) out.push_back(std::string(r.weights) + " by " + input_name(r.input, r.scaling) + ": " + device::kernel_name(r.kernel));
  std::vector<std::string_view> told;
  for (const LinearRow& r : kTable) {
    if (r.device != device || r.refusal.empty() || std::ranges::find(told, r.refusal) != told.end()) continue;
    told.push_back(r.refusal);
    std::string pairs;
    for (const LinearRow& other : kTable)
      if (other.device == device && other.refusal == r.refusal) pairs += (pairs.empty() ? "" : "; ") + std::string(other.weights) + " by " + input_name(other.input, other.scaling);
    out.push_back("refused, " + std::string(r.refusal) + ": " + pairs);
  }
  return out;
}

std::string linear_markdown() {
  std::string out =
      "# Which linears there are\n\n"
      "Made by `quire flags-doc` from `src/ops/linear_table.cc`; a test fails when this page is stale.\n\n"
      "A checkpoint says how its weights are stored and how their input is quantised; both together must have a kernel on the device, or the model is refused by name before a\n"
      "byte of it is read. A pair that is not listed is refused too. `quire explain MODEL --device NAME` prints the rows of one device. The arithmetic is in `NUMERICS.md`, \"Linear\", \"FP8 weights\" and \"GGUF weights\".\n\n"
      "| device | weights | input | kernel | refused because |\n|---|---|---|---|---|\n";
  for (const LinearRow& r : kTable)
    out += "| " + std::string(linear_device_name(r.device)) + " | " + std::string(r.weights) + " | " + input_name(r.input, r.scaling) + " | " +
           (r.refusal.empty() ? "`" + std::string(device::kernel_name(r.kernel)) + "`" : "-") + " | " + std::string(r.refusal) + " |\n";
  return out;
}

}  // namespace quire::ops
