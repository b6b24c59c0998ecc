#include "ops/machine_rates.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/machine_rates.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace quire::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t kStreams = 8;
constexpr std::size_t kChains = 16;  // independent multiply-adds in flight: covers a latency of 8 at two in a cycle

// The exclusive or of all whole groups of vectors: nothing of the reading can be left out.
std::uint64_t read_all(const std::byte* data, std::size_t bytes) {
  const hn::CappedTag<std::uint64_t, 8> d;
  const std::size_t lanes = hn::Lanes(d), step = kStreams * lanes;
  const auto* words = reinterpret_cast<const std::uint64_t*>(data);
  hn::Vec<decltype(d)> sum[kStreams];
#pragma GCC unroll 8
  for (std::size_t s = 0; s < kStreams; ++s) sum[s] = hn::Zero(d);
  for (std::size_t i = 0; i + step <= bytes / sizeof(std::uint64_t); i += step) {
#pragma GCC unroll 8
    for (std::size_t s = 0; s < kStreams; ++s) sum[s] = hn::Xor(sum[s], hn::LoadU(d, words + i + s * lanes));
  }
  for (std::size_t s = 1; s < kStreams; ++s) sum[0] = hn::Xor(sum[0], sum[s]);
  return hn::GetLane(hn::SumOfLanes(d, sum[0]));
}

// `rounds` times kChains multiply-adds of one vector; returns their number of operations in `flops`.
float multiply_add(std::int64_t rounds, float start, double& flops) {
  const hn::CappedTag<float, 16> d;
  const auto shrink = hn::Set(d, 0.5f), add = hn::Set(d, start);
  hn::Vec<decltype(d)> chain[kChains];
#pragma GCC unroll 16
  for (std::size_t c = 0; c < kChains; ++c) chain[c] = hn::Set(d, static_cast<float>(c));
  for (std::int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 16
    for (std::size_t c = 0; c < kChains; ++c) chain[c] = hn::MulAdd(chain[c], shrink, add);
  }
  for (std::size_t c = 1; c < kChains; ++c) chain[0] = hn::Add(chain[0], chain[c]);
  flops = 2.0 * static_cast<double>(rounds) * static_cast<double>(kChains * hn::Lanes(d));
  return hn::GetLane(hn::SumOfLanes(d, chain[0]));
}

}  // namespace quire::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <string>
#include <vector>

namespace quire::ops {
HWY_EXPORT(read_all);
HWY_EXPORT(multiply_add);
namespace {

constexpr std::size_t kReadUnit = 1u << 20;    // bytes that a thread reads at a time
constexpr std::int64_t kAddRounds = 100'000;   // of kChains multiply-adds: about a millisecond
constexpr std::int64_t kAddUnitsPerThread = 32;
constexpr double kSeconds = 0.5;               // for each rate
constexpr std::int64_t kLargeUnit = 1 << 20;   // work of a unit: too much for one thread to take all

struct ReadJob {
  const std::byte* data;
  std::size_t bytes;
  std::atomic<std::uint64_t>* sink;
};

struct AddJob {
  std::atomic<double>* flops;
  std::atomic<std::uint64_t>* sink;
  float start;
};

void read_units(const void* params, std::int64_t begin, std::int64_t end) {
  const auto& job = *static_cast<const ReadJob*>(params);
  for (std::int64_t u = begin; u < end; ++u) {
    const std::size_t from = static_cast<std::size_t>(u) * kReadUnit;
    job.sink->fetch_xor(HWY_DYNAMIC_DISPATCH(read_all)(job.data + from, std::min(kReadUnit, job.bytes - from)), std::memory_order_relaxed);
  }
}

void add_units(const void* params, std::int64_t begin, std::int64_t end) {
  const auto& job = *static_cast<const AddJob*>(params);
  for (std::int64_t u = begin; u < end; ++u) {
    double flops = 0.0;
    const float sum = HWY_DYNAMIC_DISPATCH(multiply_add)(kAddRounds, job.start, flops);
    job.sink->fetch_xor(sum == 0.0f ? 1u : 0u, std::memory_order_relaxed);
    job.flops->fetch_add(flops, std::memory_order_relaxed);
  }
}

// The largest of work() / seconds over passes that take kSeconds together; the first one, which wakes threads and maps pages, is left out.
template <class Pass>
double best_rate(Pass pass) {
  using Clock = std::chrono::steady_clock;
  (void)pass();
  double best = 0.0;
  const auto began = Clock::now();
  for (auto from = began; from - began < std::chrono::duration<double>(kSeconds);) {
    const double work = pass();
    const auto to = Clock::now();
    best = std::max(best, work / std::chrono::duration<double>(to - from).count());
    from = to;
  }
  return best;
}

}  // namespace

MachineRates measure_machine_rates(device::ThreadPool& pool, std::span<const std::byte> memory) {
  std::atomic<std::uint64_t> sink{0};
  MachineRates rates;
  const ReadJob read{memory.data(), memory.size(), &sink};
  const auto units = static_cast<std::int64_t>((memory.size() + kReadUnit - 1) / kReadUnit);
  rates.read_bytes_per_second = best_rate([&] {
    pool.run(read_units, &read, units, kLargeUnit);
    return static_cast<double>(memory.size());
  });
  rates.flops_per_second = best_rate([&] {
    std::atomic<double> flops{0.0};
    const AddJob add{&flops, &sink, 1.0f + static_cast<float>(sink.load() % 2)};  // not known before it runs
    pool.run(add_units, &add, kAddUnitsPerThread * pool.num_threads(), kLargeUnit);
    return flops.load();
  });
  return rates;
}

std::int64_t last_level_cache_bytes() {
  std::int64_t largest = 0;
  for (int index = 0; index < 8; ++index) {
    std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/size");
    std::int64_t size = 0;
    char unit = 0;
    if (!(file >> size)) continue;
    file >> unit;
    largest = std::max(largest, size * (unit == 'M' ? std::int64_t{1} << 20 : unit == 'K' ? std::int64_t{1} << 10 : 1));
  }
  return largest;
}

}  // namespace quire::ops
#endif
