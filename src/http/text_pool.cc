#include "http/text_pool.h"

#include <pthread.h>

#include <utility>

#include "base/check.h"

namespace quire::http {

TextPool::TextPool(int num_text_threads) {
  QUIRE_CHECK_GE(num_text_threads, 1);
  threads_.emplace_back([this] { run(Takes::kQuickAlone); });
  for (int i = 0; i < num_text_threads; ++i) threads_.emplace_back([this] { run(Takes::kAll); });
}

TextPool::~TextPool() { join(); }

bool TextPool::post_quick(std::function<void()> work) {
  const std::scoped_lock lock(mutex_);
  if (ending_) return false;
  quick_.push_back(std::move(work));
  quick_cv_.notify_one();
  text_cv_.notify_one();
  return true;
}

bool TextPool::post_text(std::function<After()> piece) {
  const std::scoped_lock lock(mutex_);
  if (ending_) return false;
  text_.push_back(std::move(piece));
  text_cv_.notify_one();
  return true;
}

std::size_t TextPool::num_texts_in_line() {
  const std::scoped_lock lock(mutex_);
  return text_.size();
}

void TextPool::join() {
  {
    const std::scoped_lock lock(mutex_);
    ending_ = true;
    quick_cv_.notify_all();
    text_cv_.notify_all();
  }
  for (std::thread& thread : threads_)
    if (thread.joinable()) thread.join();
}

void TextPool::run(Takes takes) {
  ::pthread_setname_np(::pthread_self(), takes == Takes::kQuickAlone ? "quire-requests" : "quire-text");
  const bool all = takes == Takes::kAll;
  std::condition_variable& cv = all ? text_cv_ : quick_cv_;
  std::unique_lock lock(mutex_);
  for (;;) {
    cv.wait(lock, [&] { return ending_ || !quick_.empty() || (all && !text_.empty()); });
    if (!quick_.empty()) {
      std::function<void()> work = std::move(quick_.front());
      quick_.pop_front();
      lock.unlock();
      work();
      work = nullptr;  // what it holds is let go without the lock
      lock.lock();
    } else if (all && !text_.empty()) {
      std::function<After()> piece = std::move(text_.front());
      text_.pop_front();
      lock.unlock();
      const After after = piece();
      if (after == After::kDone) piece = nullptr;
      lock.lock();
      if (after == After::kMore) text_.push_back(std::move(piece));  // this thread, or one that is free, takes the next in line
    } else {
      return;
    }
  }
}

}  // namespace quire::http
