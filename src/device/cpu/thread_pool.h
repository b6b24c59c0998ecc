// The CPU device's compute threads. Units of a job are claimed one chunk at a time from one counter, so a thread that the operating
// system takes off its core delays only the chunk it holds, and the caller does the rest: with another process on a core the pool
// slows down, it does not collapse. Which thread runs a unit never changes what the unit computes.
#pragma once
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace quire::device {

class ThreadPool {
 public:
  using Body = void (*)(const void* params, std::int64_t begin, std::int64_t end);

  explicit ThreadPool(int num_threads);  // the caller counts as one; 1 starts no thread
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Runs body over [0, units) in chunks and returns when all are done. One caller at a time.
  // `unit_work`: multiply-adds in one unit; small jobs run on the caller alone.
  void run(Body body, const void* params, std::int64_t units, std::int64_t unit_work);
  [[nodiscard]] int num_threads() const { return static_cast<int>(workers_.size()) + 1; }

 private:
  void worker_loop();
  // Claims and runs chunks of job `epoch` until none is left.
  void work_on(std::uint32_t epoch);

  // The job. Written by run() before the epoch is published; read by a worker only after it claimed a chunk of that epoch, and
  // run() cannot return before that chunk is done.
  Body body_ = nullptr;
  const void* params_ = nullptr;
  std::int64_t units_ = 0, chunk_ = 1;
  std::int32_t num_chunks_ = 0;

  // (epoch << 32) | unclaimed chunks: one word, so that a claim can never mix two jobs.
  alignas(64) std::atomic<std::uint64_t> claim_{0};
  alignas(64) std::atomic<std::int32_t> done_chunks_{0};
  alignas(64) std::atomic<std::uint32_t> epoch_{0};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> workers_;
};

}  // namespace quire::device
