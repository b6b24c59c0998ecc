// What clock_shim.cc must notice, so that its silence about a server means something: prints the wall clock's seconds, then waits once for
// 10 ms in the way that its argument names.
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <future>
#include <mutex>
#include <string_view>

using namespace std::chrono_literals;

int main(int argc, char** argv) {
  const std::string_view how = argc > 1 ? argv[1] : "";
  std::printf("%lld\n", static_cast<long long>(std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count()));
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable condition;
  std::promise<int> promise;
  const auto wall = std::chrono::system_clock::now() + 10ms;
  const auto steady = std::chrono::steady_clock::now() + 10ms;
  if (how == "condition_wall") (void)condition.wait_until(lock, wall);
  else if (how == "condition_steady") (void)condition.wait_until(lock, steady);
  else if (how == "condition_for") (void)condition.wait_for(lock, 10ms);
  else if (how == "future_wall") (void)promise.get_future().wait_until(wall);
  else if (how == "future_for") (void)promise.get_future().wait_for(10ms);
  else return 2;
  return 0;
}
