// Launching, recording and replaying: a recorded launch keeps its parameter bytes and nothing else of the host, and reads the device memory
// of the moment it is replayed.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include "device/cpu/cpu_device.h"
#include "kit/seed.h"

namespace quire::device {
namespace {

// out[i] = a[i] * factor + b[i]. The ids stand for any kernel: a device runs what it was built with.
struct MixParams {
  const std::int64_t* a;
  const std::int64_t* b;
  std::int64_t* out;
  std::int64_t factor;
};
void mix(const void* params, std::int64_t begin, std::int64_t end) {
  const auto& p = *static_cast<const MixParams*>(params);
  for (std::int64_t i = begin; i < end; ++i) p.out[i] = p.a[i] * p.factor + p.b[i];
}

// The largest parameters there may be: every byte must arrive.
struct FullParams {
  std::int64_t* sum;
  std::array<std::uint8_t, kMaxParamBytes - 8> bytes;
};
static_assert(sizeof(FullParams) == kMaxParamBytes);
void add_bytes(const void* params, std::int64_t begin, std::int64_t end) {
  const auto& p = *static_cast<const FullParams*>(params);
  for (std::int64_t i = begin; i < end; ++i)
    for (std::size_t j = 0; j < p.bytes.size(); ++j) *p.sum += static_cast<std::int64_t>(j + 1) * p.bytes[j];
}

constexpr std::array kKernels = {CpuKernel{KernelId::kGatherRows, mix}, CpuKernel{KernelId::kSample, add_bytes}};
constexpr std::int64_t kN = 1000;
constexpr Geometry kWide{kN, 10'000};  // wide enough to be shared out

struct Rig {
  explicit Rig(int threads = 2) : device(threads, kKernels), stream(device.make_stream()), memory(device.allocate(4 * kN * 8, "test").value()) {}
  [[nodiscard]] std::int64_t* array(int i) const { return reinterpret_cast<std::int64_t*>(memory.data()) + i * kN; }
  void upload(int i, const std::vector<std::int64_t>& v) { stream->copy_to_device(array(i), v.data(), v.size() * 8); }
  [[nodiscard]] std::vector<std::int64_t> download(int i) {
    std::vector<std::int64_t> v(kN);
    stream->copy_to_host(v.data(), array(i), v.size() * 8);
    return v;
  }
  // Two launches, the second of which needs the first one's result.
  void launch_chain() {
    MixParams p{array(0), array(1), array(2), 3};
    stream->launch(KernelId::kGatherRows, kWide, p);
    std::memset(static_cast<void*>(&p), 0xff, sizeof p);  // the caller's parameters may go at once
    p = MixParams{array(2), array(0), array(3), -5};
    stream->launch(KernelId::kGatherRows, kWide, p);
    std::memset(static_cast<void*>(&p), 0xff, sizeof p);
  }
  CpuDevice device;
  std::unique_ptr<Stream> stream;
  Buffer memory;
};

std::vector<std::int64_t> random_values(std::mt19937_64& rng) {
  std::vector<std::int64_t> v(kN);
  for (auto& x : v) x = static_cast<std::int64_t>(rng() % 1000);
  return v;
}

std::vector<std::int64_t> expected(const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b) {
  std::vector<std::int64_t> out(kN);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = (a[i] * 3 + b[i]) * -5 + a[i];
  return out;
}

TEST(Stream, ReplayEqualsEagerAndReadsTheDeviceMemoryOfItsTime) {
  auto rng = test::seeded_rng();
  Rig rig;
  auto a = random_values(rng), b = random_values(rng);
  rig.upload(0, a);
  rig.upload(1, b);
  Graph graph;
  rig.stream->begin_record(graph);
  rig.launch_chain();
  rig.stream->end_record();
  EXPECT_EQ(rig.download(3), std::vector<std::int64_t>(kN, 0)) << "recording runs nothing";
  ASSERT_EQ(graph.launches.size(), 2u);
  for (int round = 0; round < 3; ++round) {
    a = random_values(rng), b = random_values(rng);
    rig.upload(0, a);
    rig.upload(1, b);
    const auto want = expected(a, b);
    std::fill(a.begin(), a.end(), -1);  // host staging is gone before the replay
    std::fill(b.begin(), b.end(), -1);
    rig.stream->replay(graph);
    EXPECT_EQ(rig.download(3), want);
  }
  rig.upload(3, a);
  rig.launch_chain();
  const auto eager = rig.download(3);
  rig.upload(3, a);
  rig.stream->replay(graph);
  EXPECT_EQ(rig.download(3), eager);
}

TEST(Stream, AGraphOutlivesTheStreamThatRecordedIt) {
  auto rng = test::seeded_rng();
  Rig rig;
  Graph graph;
  const auto a = random_values(rng), b = random_values(rng);
  {
    const auto other = rig.device.make_stream();
    other->begin_record(graph);
    other->launch(KernelId::kGatherRows, kWide, MixParams{rig.array(0), rig.array(1), rig.array(3), 2});
    other->end_record();
  }
  rig.upload(0, a);
  rig.upload(1, b);
  rig.stream->replay(graph);
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_EQ(rig.array(3)[i], a[i] * 2 + b[i]);
}

TEST(Stream, EveryParameterByteIsCopiedWhenRecorded) {
  Rig rig(1);
  FullParams p{rig.array(0), {}};
  std::int64_t want = 0;
  for (std::size_t j = 0; j < p.bytes.size(); ++j) {
    p.bytes[j] = static_cast<std::uint8_t>(j * 7 + 3);
    want += static_cast<std::int64_t>(j + 1) * p.bytes[j];
  }
  Graph graph;
  rig.stream->begin_record(graph);
  rig.stream->launch(KernelId::kSample, Geometry{1, 1}, p);
  rig.stream->end_record();
  p.bytes.fill(0xee);
  p.sum = nullptr;
  rig.stream->replay(graph);
  EXPECT_EQ(rig.array(0)[0], want);
}

TEST(Stream, AnEmptyLaunchIsNoLaunch) {
  Rig rig;
  Graph graph;
  const MixParams nowhere{nullptr, nullptr, nullptr, 0};
  for (const std::int64_t units : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{INT64_MIN}}) {
    rig.stream->launch(KernelId::kGatherRows, Geometry{units, 1}, nowhere);
    rig.stream->begin_record(graph);
    rig.stream->launch(KernelId::kGatherRows, Geometry{units, 1}, nowhere);
    rig.stream->end_record();
  }
  EXPECT_EQ(rig.stream->num_launches(), 0u);
  EXPECT_TRUE(graph.launches.empty());
  rig.launch_chain();
  EXPECT_EQ(rig.stream->num_launches(), 2u);
}

TEST(Stream, EmptyCopiesTouchNothing) {
  Rig rig;
  rig.stream->copy_to_device(nullptr, nullptr, 0);
  rig.stream->copy_to_host(nullptr, nullptr, 0);
  rig.stream->synchronize();
}

TEST(StreamDeath, MisuseEndsTheProcess) {
  Rig rig(1);
  Graph graph, other;
  std::int64_t host = 0;
  EXPECT_DEATH(rig.stream->end_record(), "");
  rig.stream->begin_record(graph);
  EXPECT_DEATH(rig.stream->copy_to_device(rig.array(0), &host, 8), "cannot be recorded");
  EXPECT_DEATH(rig.stream->copy_to_host(&host, rig.array(0), 8), "cannot be recorded");
  EXPECT_DEATH(rig.stream->copy_to_device(nullptr, nullptr, 0), "cannot be recorded");
  EXPECT_DEATH(rig.stream->begin_record(other), "already recording");
  EXPECT_DEATH(rig.stream->replay(graph), "");
  rig.stream->end_record();
  EXPECT_DEATH(rig.stream->launch(KernelId::kRmsNorm, Geometry{1, 1}, host), "no kernel rms_norm");
  constexpr std::array kTwice = {CpuKernel{KernelId::kSample, mix}, CpuKernel{KernelId::kSample, add_bytes}};
  EXPECT_DEATH(CpuDevice(1, kTwice), "sample is listed twice");
}

TEST(KernelIds, NamesAreUniqueAndKnown) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < kNumKernels; ++i) {
    names.emplace_back(kernel_name(static_cast<KernelId>(i)));
    EXPECT_NE(names.back(), "?");
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

}  // namespace
}  // namespace quire::device
