// The compute pool: every unit exactly once, no matter how many threads there are, how late they come or how uneven the work is. Counters
// are plain integers on purpose: a unit that ran twice, or a run() that returned early, is a data race that TSan reports too.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "device/cpu/thread_pool.h"
#include "kit/seed.h"
#include "kit/slowdown.h"

namespace quire::device {
namespace {

struct CountJob {
  int* counts;
  std::int64_t units;
  int add;
};
void count(const void* params, std::int64_t begin, std::int64_t end) {
  const auto& job = *static_cast<const CountJob*>(params);
  ASSERT_TRUE(0 <= begin && begin < end && end <= job.units) << begin << ".." << end << " of " << job.units;
  for (std::int64_t i = begin; i < end; ++i) job.counts[i] += job.add;
}
void count_backwards(const void* params, std::int64_t begin, std::int64_t end) {
  const auto& job = *static_cast<const CountJob*>(params);
  for (std::int64_t i = end; i-- > begin;) job.counts[i] -= job.add;
}

class Threads : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(OneToEight, Threads, ::testing::Range(1, 9));

TEST_P(Threads, EveryUnitOnceForAnyUnitsAndWork) {
  auto rng = test::seeded_rng();
  ThreadPool pool(GetParam());
  EXPECT_EQ(pool.num_threads(), GetParam());
  constexpr std::int64_t kWork[] = {0, 1, 100, 10'000, 1'000'000, std::int64_t{1} << 40};
  for (int round = 0; round < 150; ++round) {
    const auto units = static_cast<std::int64_t>(round % 3 == 0 ? 1 + rng() % 40 : 1 + rng() % 5000);
    std::vector<int> counts(static_cast<std::size_t>(units), 0);
    // The job lives only as long as run(): a worker that looks at it later reads freed memory.
    const auto job = std::make_unique<CountJob>(CountJob{counts.data(), units, 1 + round});
    pool.run(count, job.get(), units, kWork[rng() % 6]);
    for (std::size_t i = 0; i < counts.size(); ++i) ASSERT_EQ(counts[i], 1 + round) << "unit " << i << " of " << units;
  }
}

TEST_P(Threads, NothingToDo) {
  ThreadPool pool(GetParam());
  pool.run(count, nullptr, 0, 1'000'000);
  pool.run(count, nullptr, -3, 1'000'000);
}

// Launch after launch without a pause, two kinds of job in turn: a worker that wakes up late must take part in the job of its time only.
TEST_P(Threads, ManySmallJobsInARow) {
  ThreadPool pool(GetParam());
  constexpr int kJobs = 60'000;
  std::vector<int> counts(24, 0);
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kJobs; ++i) {
    const std::int64_t units = 2 + i % 23;
    const CountJob job{counts.data(), units, 1 + i % 3};
    pool.run(i % 2 == 0 ? count : count_backwards, &job, units, 200'000);
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::vector<int> want(24, 0);
  for (int i = 0; i < kJobs; ++i)
    for (std::size_t u = 0; u < static_cast<std::size_t>(2 + i % 23); ++u) want[u] += (i % 2 == 0 ? 1 : -1) * (1 + i % 3);
  EXPECT_EQ(counts, want);
  EXPECT_LT(took.count(), 60.0 * quire::test::kSlowdown) << "launching collapsed";  // some 10 ms with 2 threads on 2 cores
}

struct WaitJob {
  std::atomic<int>* done;
  int others;
};
// Unit 0 ends only after all the others did.
void wait_for_others(const void* params, std::int64_t begin, std::int64_t end) {
  const auto& job = *static_cast<const WaitJob*>(params);
  for (std::int64_t i = begin; i < end; ++i) {
    if (i != 0) {
      job.done->fetch_add(1);
      continue;
    }
    while (job.done->load() < job.others) std::this_thread::yield();
  }
}

// A thread that is stuck (taken off its core, or with by far the largest unit) holds up its own chunk and nothing else.
TEST(ThreadPool, AStuckThreadDelaysOnlyItsChunk) {
  for (const int threads : {2, 3, 8}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 20; ++round) {
      std::atomic<int> done{0};
      const WaitJob job{&done, 15};
      pool.run(wait_for_others, &job, 16, 1'000'000);
      EXPECT_EQ(done.load(), 15);
    }
  }
}

struct UnevenJob {
  std::int64_t* sums;
};
void uneven(const void* params, std::int64_t begin, std::int64_t end) {
  const auto& job = *static_cast<const UnevenJob*>(params);
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t rounds = i % 97 == 0 ? 300'000 : i % 5;
    for (std::int64_t r = 0; r < rounds; ++r) job.sums[i] += (r ^ i) % 7;
  }
}

TEST(ThreadPool, UnevenUnitsGiveTheSameResultsOnAnyNumberOfThreads) {
  std::vector<std::int64_t> want(500, 0);
  const UnevenJob alone{want.data()};
  uneven(&alone, 0, 500);
  for (const int threads : {1, 2, 5, 8}) {
    ThreadPool pool(threads);
    std::vector<std::int64_t> got(500, 0);
    const UnevenJob job{got.data()};
    pool.run(uneven, &job, 500, 30'000);
    EXPECT_EQ(got, want) << threads;
  }
}

// Workers asleep since the last job (longer than they spin) must wake for the next one.
TEST(ThreadPool, SleepingWorkersWake) {
  ThreadPool pool(4);
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::atomic<int> done{0};
    const WaitJob job{&done, 15};
    pool.run(wait_for_others, &job, 16, 1'000'000);
  }
}

TEST(ThreadPool, EndsAtOnceUsedOrNot) {
  for (int i = 0; i < 50; ++i) {
    ThreadPool pool(1 + i % 8);
    if (i % 2 == 0) continue;
    std::vector<int> counts(64, 0);
    const CountJob job{counts.data(), 64, 1};
    pool.run(count, &job, 64, 100'000);
    EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), 0), 64);
  }
}

TEST(ThreadPoolDeath, NeedsAThread) { EXPECT_DEATH(ThreadPool(0), ""); }

}  // namespace
}  // namespace quire::device
