// A CPU device whose attention kernels, or whose use of an FP8 cache's scales, are wrong in one chosen way: each fault is a mistake that a GPU
// backend has really made.
#pragma once
#include <cstdint>
#include <vector>

#include "device/cpu/cpu_device.h"

namespace quire::test {

enum class Fault {
  kNone,
  kBlockTableStale,         // a replay reads the block table of the step that was recorded with
  kLengthsStale,            // ... its lengths
  kOffset32,                // byte offsets into a layer's pool are cut to 32 bits
  kWindowOffByOne,          // a row sees one key too few: the window's first, or without a window its own
  kGroupOffByOne,           // each query head reads the KV head of the head before it
  kDecodeWritesPrefillRow,  // a decode row's result lands on a prefill or extend row after that was computed
  kWorkspaceOverlap,        // rows share partials
  kPaddedRowReadsKv,        // the first padded row is computed, from block 0
  kValuesTransposed,        // value cells are read as [dim, token]
  kCapturedAsDecode,        // a whole graph was captured with a decode batch: replays launch no prefill kernel
  // Of an FP8 cache. FaultShape says which kernels, and of what.
  kScaleDropped,      // 1 in place of the scale
  kScaleDoubled,
  kScaleOfNextLayer,  // the last layer takes the first one's
  kScalesSwapped,     // K's for V and V's for K
  kFnuzReadAsOcp,     // attention takes a FNUZ cache for an OCP one
};
inline constexpr Fault kFaults[] = {Fault::kBlockTableStale, Fault::kLengthsStale,           Fault::kOffset32,         Fault::kWindowOffByOne,   Fault::kGroupOffByOne,
                                    Fault::kDecodeWritesPrefillRow, Fault::kWorkspaceOverlap, Fault::kPaddedRowReadsKv, Fault::kValuesTransposed,
                                    Fault::kCapturedAsDecode};
inline constexpr Fault kScaleFaults[] = {Fault::kScaleDropped, Fault::kScaleDoubled, Fault::kScaleOfNextLayer, Fault::kScalesSwapped, Fault::kFnuzReadAsOcp};
[[nodiscard]] const char* fault_name(Fault f);

enum class ScaleUsers { kReaders, kWriters, kBoth };  // attention, the write of new cells
enum class ScalePart { kKeys, kValues, kBoth };

// What the faulty kernels must know to copy what they corrupt.
struct FaultShape {
  std::int64_t state_rows = 0, table_stride = 0, num_blocks = 0, max_tokens = 0;
  int only_layer = -1;  // the kernels are wrong in this layer alone; -1: in all
  int num_layers = 0;
  ScaleUsers users = ScaleUsers::kReaders;
  ScalePart part = ScalePart::kBoth;
};
// Every kernel of the program, those that `fault` is about with it. One fault at a time in a process; one thread.
[[nodiscard]] std::vector<device::CpuKernel> faulty_kernels(Fault fault, const FaultShape& shape);

}  // namespace quire::test
