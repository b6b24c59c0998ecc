// The threads that work on requests' bodies. Two lanes: quick work (parsing, checking, token ids, long answers) and text (one
// prompt, template or list of words at a time). One thread takes quick work alone, so that it never waits behind text; the others
// take quick work first. Text jobs take turns, one piece each, so that a request of one short text waits for at most one piece of
// every other request, whatever their number of texts. Owned by one server; knows no requests.
#pragma once
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace quire::http {

class TextPool {
 public:
  // `num_text_threads` >= 1, beside the one for quick work.
  explicit TextPool(int num_text_threads);
  ~TextPool();  // join()
  TextPool(const TextPool&) = delete;
  TextPool& operator=(const TextPool&) = delete;

  enum class After : std::uint8_t { kDone, kMore };  // kMore: call again, after the others' turn
  // Neither job may throw. Any thread. False once join() has begun: the job is not taken.
  [[nodiscard]] bool post_quick(std::function<void()> work);
  [[nodiscard]] bool post_text(std::function<After()> piece);
  [[nodiscard]] std::size_t num_texts_in_line();  // text jobs whose next piece has not begun
  // Until everything that was taken is done; the threads then end. Idempotent.
  void join();

 private:
  enum class Takes : std::uint8_t { kQuickAlone, kAll };
  void run(Takes takes);

  std::mutex mutex_;
  std::condition_variable quick_cv_, text_cv_;  // the quick thread; the others
  std::deque<std::function<void()>> quick_;
  std::deque<std::function<After()>> text_;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace quire::http
