// What is logged at start: version, device, model, what runs and every adjustment, and for attention every row that does not run with
// the reason. Pure and stable: golden-tested, no times and no addresses. Secrets never appear.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "commands/run_setup.h"
#include "config/resolved.h"
#include "device/device.h"

namespace quire::commands {

struct BannerInputs {
  const config::ResolvedConfig& config;
  const RunSetup& setup;
  const device::DeviceProfile& device;
  std::string_view version;
  std::string_view instruction_set;  // that the kernels use
  enum class Server : std::uint8_t { kNone, kListens } server = Server::kNone;
};

// A continuation of the line before has an empty label; "warning", "note", "RELAXED": what a user should look at.
struct BannerLine {
  std::string label, text;
};
[[nodiscard]] std::vector<BannerLine> banner_lines(const BannerInputs& inputs);
// The same as text. Lines end in '\n'; those that a user should look at begin with "warning" or "RELAXED".
[[nodiscard]] std::string banner(const BannerInputs& inputs);

}  // namespace quire::commands
