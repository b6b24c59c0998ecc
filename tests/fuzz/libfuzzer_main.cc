// One target for libFuzzer, which brings main(). QUIRE_FUZZ_ENTRY is the target's function.
#include "fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  quire::fuzz::QUIRE_FUZZ_ENTRY({data, size});
  return 0;
}
