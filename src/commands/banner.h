// What is logged at start: version, device, model, what runs and every adjustment, and for attention every row that does not run with
// the reason. Pure and stable: golden-tested, no times and no addresses. Secrets never appear.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

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

// Lines end in '\n'; those that a user should look at begin with "warning" or "RELAXED".
[[nodiscard]] std::string banner(const BannerInputs& inputs);

}  // namespace quire::commands
