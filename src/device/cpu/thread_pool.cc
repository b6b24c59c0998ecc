#include "device/cpu/thread_pool.h"

#include <algorithm>

#include "base/check.h"
#include "base/checked.h"

namespace quire::device {
namespace {

// Below about this many multiply-adds (some 10 us on one core) waking another core costs more than it brings.
constexpr std::int64_t kInlineWork = 150'000;
// Chunks per thread: enough to even out a slow core, few enough that claiming costs nothing.
constexpr std::int64_t kChunksPerThread = 8;
// How long an idle worker watches for the next launch of the same step before it sleeps: about 20 us.
constexpr int kSpins = 2000;

inline void pause() { __builtin_ia32_pause(); }

}  // namespace

ThreadPool::ThreadPool(int num_threads) {
  QUIRE_CHECK_GE(num_threads, 1);
  for (int i = 1; i < num_threads; ++i) workers_.emplace_back([this] { worker_loop(); });
}

ThreadPool::~ThreadPool() {
  stop_.store(true);
  epoch_.fetch_add(1);
  epoch_.notify_all();
  for (auto& t : workers_) t.join();
}

void ThreadPool::run(Body body, const void* params, std::int64_t units, std::int64_t unit_work) {
  if (units <= 0) return;
  if (workers_.empty() || units == 1 || units * std::max<std::int64_t>(unit_work, 1) < kInlineWork) {
    body(params, 0, units);
    return;
  }
  const std::int64_t by_threads = std::max<std::int64_t>(1, units / (num_threads() * kChunksPerThread));
  const std::int64_t by_work = std::max<std::int64_t>(1, kInlineWork / 8 / std::max<std::int64_t>(unit_work, 1));
  body_ = body;
  params_ = params;
  units_ = units;
  chunk_ = std::min(units, std::max(by_threads, by_work));
  num_chunks_ = static_cast<std::int32_t>(ceil_div(units, chunk_));
  done_chunks_.store(0, std::memory_order_relaxed);
  const std::uint32_t epoch = epoch_.load(std::memory_order_relaxed) + 1u;
  claim_.store((std::uint64_t{epoch} << 32) | static_cast<std::uint32_t>(num_chunks_), std::memory_order_release);
  epoch_.store(epoch, std::memory_order_release);
  epoch_.notify_all();
  work_on(epoch);
  int spins = 0;
  for (std::int32_t done = done_chunks_.load(std::memory_order_acquire); done != num_chunks_; done = done_chunks_.load(std::memory_order_acquire)) {
    if (++spins < kSpins) {
      pause();
    } else {
      done_chunks_.wait(done, std::memory_order_acquire);
    }
  }
}

void ThreadPool::work_on(std::uint32_t epoch) {
  std::uint64_t claim = claim_.load(std::memory_order_acquire);
  while (claim >> 32 == epoch && (claim & 0xffffffffu) != 0) {
    if (!claim_.compare_exchange_weak(claim, claim - 1, std::memory_order_acq_rel, std::memory_order_acquire)) continue;
    // The claimed chunk keeps the job alive: run() waits for it, so the fields below belong to this epoch.
    const std::int32_t total = num_chunks_;
    const std::int64_t begin = (total - static_cast<std::int64_t>(claim & 0xffffffffu)) * chunk_;
    body_(params_, begin, std::min(units_, begin + chunk_));
    if (done_chunks_.fetch_add(1, std::memory_order_acq_rel) + 1 == total) done_chunks_.notify_one();
    claim = claim_.load(std::memory_order_acquire);
  }
}

void ThreadPool::worker_loop() {
  std::uint32_t seen = 0;
  for (;;) {
    std::uint32_t now = epoch_.load(std::memory_order_acquire);
    for (int spins = 0; now == seen && spins < kSpins; ++spins) {
      pause();
      now = epoch_.load(std::memory_order_acquire);
    }
    if (now == seen) {
      epoch_.wait(seen, std::memory_order_acquire);
      continue;
    }
    seen = now;
    if (stop_.load()) return;
    work_on(seen);
  }
}

}  // namespace quire::device
