#include "banner_cases.h"

#include "attention/device_family.h"
#include "config/kit.h"

namespace quire::commands::test {

const std::vector<BannerCase>& banner_cases() {
  static const std::vector<BannerCase> kCases = {
      {"plain", "gsm-tiny"},
      {"run", "gsm-tiny", BannerInputs::Server::kNone},
      {"split_eager",
       "gsm-tiny --max-num-seqs 8 --kv-cache-memory-bytes 64M --swap-space 4 --api-key s3cret --port 0 --async-scheduling --relaxed unused-tensors --attention-backend cpu_split --enforce-eager"},
      {"split_full", "gsm-tiny --max-num-seqs 8 --attention-backend CPU_SPLIT -cc.cudagraph_mode FULL --host ::1 --api-key a b --cudagraph-capture-sizes 1 2 4 8 16"},
      // #25104's, on the small model.
      {"25104",
       "MODEL -tp 1 --max-num-batched-tokens 131072 --max-num-seqs 1024 --max-seq-len-to-capture 16384 --max-model-len 2048 --swap-space 64 --no-enable-prefix-caching --disable-log-requests "
       "--disable-uvicorn-access-log --trust-remote-code --gpu-memory-utilization 0.90 -O '{\"compilation_config\":\"FULL\"}'"},
  };
  return kCases;
}

std::string banner_of(const BannerCase& c) {
  const config::ResolvedConfig config = config::test::resolved(c.line);
  const RunSetup setup = set_up_run(config, std::string(attention::kServedFamily)).value();
  const device::DeviceProfile device{.family = std::string(attention::kServedFamily), .name = "a processor of the tests"};
  return banner({.config = config, .setup = setup, .device = device, .version = "1.2.3", .instruction_set = "AVX3", .server = c.server});
}

}  // namespace quire::commands::test
