// For LD_PRELOAD: a wall clock that a test can move, while the steady clock goes on. TEST_CLOCK_FILE names a file of three 64-bit numbers:
// how many seconds the wall clock is off (the test writes it), how often it was read, and how many waits ended at a time of the wall clock.
// Such a wait would end too early or too late when somebody sets the clock; a server has none.
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>

namespace {

struct Control {
  std::atomic<std::int64_t> offset_seconds, reads, wall_waits;
};

Control* map_control() {
  static Control unused;
  const char* path = std::getenv("TEST_CLOCK_FILE");
  const int fd = path == nullptr ? -1 : ::open(path, O_RDWR | O_CLOEXEC);
  void* at = fd < 0 ? MAP_FAILED : ::mmap(nullptr, sizeof(Control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (fd >= 0) ::close(fd);
  return at == MAP_FAILED ? &unused : static_cast<Control*>(at);
}

Control& control() {
  static Control* const mapped = map_control();
  return *mapped;
}

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

bool is_wall(clockid_t clock) { return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE; }

std::int64_t offset() {
  ++control().reads;
  return control().offset_seconds;
}

// Of a wait that names no clock: a time of the steady clock (a condition variable made for it) is far below the wall clock's.
void count_wait(const timespec* until) {
  timespec steady{};
  ::syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &steady);
  constexpr time_t kYear = 365 * 86400;
  if (until != nullptr && until->tv_sec > steady.tv_sec + kYear) ++control().wall_waits;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* out) {
  static auto* const real = next<int(clockid_t, timespec*)>("clock_gettime");
  const int status = real(clock, out);
  if (status == 0 && is_wall(clock)) out->tv_sec += offset();
  return status;
}

int gettimeofday(timeval* __restrict out, void* __restrict) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  *out = {.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
  return 0;
}

time_t time(time_t* out) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (out != nullptr) *out = now.tv_sec;
  return now.tv_sec;
}

int pthread_cond_timedwait(pthread_cond_t* __restrict condition, pthread_mutex_t* __restrict mutex, const timespec* __restrict until) {
  // By dlsym alone it would be glibc's first version of 1997, on x86-64, whose condition variables are laid out otherwise.
  using Wait = int(pthread_cond_t*, pthread_mutex_t*, const timespec*);
  void* const current = ::dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
  static auto* const real = current != nullptr ? reinterpret_cast<Wait*>(current) : next<Wait>("pthread_cond_timedwait");
  count_wait(until);
  return real(condition, mutex, until);
}

int pthread_cond_clockwait(pthread_cond_t* __restrict condition, pthread_mutex_t* __restrict mutex, clockid_t clock, const timespec* __restrict until) {
  static auto* const real = next<int(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec*)>("pthread_cond_clockwait");
  if (is_wall(clock)) ++control().wall_waits;
  return real(condition, mutex, clock, until);
}

int pthread_mutex_timedlock(pthread_mutex_t* __restrict mutex, const timespec* __restrict until) {
  static auto* const real = next<int(pthread_mutex_t*, const timespec*)>("pthread_mutex_timedlock");
  ++control().wall_waits;
  return real(mutex, until);
}

int sem_timedwait(sem_t* __restrict semaphore, const timespec* __restrict until) {
  static auto* const real = next<int(sem_t*, const timespec*)>("sem_timedwait");
  ++control().wall_waits;
  return real(semaphore, until);
}

int clock_nanosleep(clockid_t clock, int flags, const timespec* until, timespec* left) {
  static auto* const real = next<int(clockid_t, int, const timespec*, timespec*)>("clock_nanosleep");
  if (is_wall(clock) && (flags & TIMER_ABSTIME) != 0) ++control().wall_waits;
  return real(clock, flags, until, left);
}

int timerfd_create(clockid_t clock, int flags) {
  static auto* const real = next<int(clockid_t, int)>("timerfd_create");
  if (is_wall(clock)) ++control().wall_waits;
  return real(clock, flags);
}

long syscall(long number, ...) {
  static auto* const real = next<long(long, ...)>("syscall");
  va_list list;
  va_start(list, number);
  long a[6];
  for (long& argument : a) argument = va_arg(list, long);
  va_end(list);
  if (number == SYS_futex && (a[1] & FUTEX_CLOCK_REALTIME) != 0 && a[3] != 0) ++control().wall_waits;
  return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

}  // extern "C"
