#include "http/server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "api/reply.h"
#include "base/check.h"
#include "base/log.h"
#include "http/listen.h"
#include "http/shared.h"
#include "http/worker.h"

namespace quire::http {

namespace asio = boost::asio;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

namespace {

std::string peer_name(const sockaddr_storage& from) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (from.ss_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&from);
    ::inet_ntop(AF_INET, &v4->sin_addr, text.data(), text.size());
    return std::string(text.data()) + ":" + std::to_string(ntohs(v4->sin_port));
  }
  if (from.ss_family == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&from);
    ::inet_ntop(AF_INET6, &v6->sin6_addr, text.data(), text.size());
    return "[" + std::string(text.data()) + "]:" + std::to_string(ntohs(v6->sin6_port));
  }
  return "unix";
}

// One connection too many: told so without a session. What the client has sent already is read first, because closing over
// unread bytes would reset the connection and lose the answer.
void turn_away(int fd, int limit) {
  const api::Reply reply = api::http_error(503, "The server has " + std::to_string(limit) + " connections, its limit");
  const std::string bytes = "HTTP/1.1 503 Service Unavailable\r\nServer: quire\r\nRetry-After: 1\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: " +
                            std::to_string(reply.body.size()) + "\r\n\r\n" + reply.body;
  std::array<char, 65536> unread{};
  [[maybe_unused]] const ssize_t got = ::recv(fd, unread.data(), unread.size(), MSG_DONTWAIT);
  [[maybe_unused]] const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  ::shutdown(fd, SHUT_RDWR);
  ::close(fd);
}

}  // namespace

struct Server::Impl {
  Impl(config::HttpSettings settings, std::shared_ptr<api::Service> service) : shared(std::move(settings), std::move(service)) {}

  void accept_some();
  void wait_for_connections();
  void close_listener();

  Shared shared;
  Listener listener;
  std::vector<std::unique_ptr<Worker>> workers;
  std::optional<asio::posix::stream_descriptor> accepting;  // on the first worker's thread
  std::optional<asio::steady_timer> pause;                  // when the process is out of descriptors
  std::size_t next_worker = 0;
  bool started = false, stopped = false;
  std::mutex stop_mutex;
};

void Server::Impl::wait_for_connections() {
  accepting->async_wait(asio::posix::stream_descriptor::wait_read, [this](error_code ec) {
    if (!ec) accept_some();
  });
}

void Server::Impl::accept_some() {
  for (;;) {
    sockaddr_storage from{};
    socklen_t size = sizeof from;
    const int fd = ::accept4(accepting->native_handle(), reinterpret_cast<sockaddr*>(&from), &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      if (shared.connections.count() >= shared.settings.max_connections) {
        turn_away(fd, shared.settings.max_connections);
        continue;
      }
      const int on = 1;
      if (from.ss_family != AF_UNIX) ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      shared.connections.add();
      workers[next_worker++ % workers.size()]->adopt(fd, peer_name(from));
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EAGAIN) break;
    QUIRE_LOG_WARN("http: cannot accept: {}; clients wait", socket_reason(errno));
    pause->expires_after(std::chrono::milliseconds(100));
    pause->async_wait([this](error_code ec) {
      if (!ec) wait_for_connections();
    });
    return;
  }
  wait_for_connections();
}

void Server::Impl::close_listener() {
  if (!started) {
    if (listener.fd >= 0) ::close(std::exchange(listener.fd, -1));
  } else {
    std::mutex mutex;
    std::condition_variable closed;
    bool done = false;
    asio::post(workers.front()->io, [&] {
      error_code ec;
      accepting->close(ec);
      pause->cancel();
      const std::scoped_lock lock(mutex);
      done = true;
      closed.notify_one();
    });
    std::unique_lock lock(mutex);
    closed.wait(lock, [&] { return done; });
  }
  if (!listener.socket_path.empty()) ::unlink(std::exchange(listener.socket_path, {}).c_str());
}

Server::Server(config::HttpSettings settings, std::shared_ptr<api::Service> service) : impl_(std::make_unique<Impl>(std::move(settings), std::move(service))) {
  QUIRE_CHECK(impl_->shared.service != nullptr);
}
Server::~Server() { stop(); }

Result<std::uint16_t> Server::bind() {
  QUIRE_CHECK(impl_->listener.fd < 0) << "bind() once";
  auto listener = open_listener(impl_->shared.settings);
  if (!listener.ok()) return listener.error();
  impl_->listener = std::move(listener).value();
  return impl_->listener.port;
}

const std::string& Server::address() const { return impl_->listener.address; }

void Server::start() {
  Impl& s = *impl_;
  QUIRE_CHECK(s.listener.fd >= 0 && !s.started) << "start() once, after bind()";
  for (int i = 0; i < std::max(1, s.shared.settings.io_threads); ++i) s.workers.push_back(std::make_unique<Worker>(s.shared));
  s.accepting.emplace(s.workers.front()->io, std::exchange(s.listener.fd, -1));
  s.pause.emplace(s.workers.front()->io);
  s.wait_for_connections();
  s.started = true;
  for (auto& worker : s.workers) worker->start();
}

bool Server::drain(std::chrono::milliseconds grace) {
  Impl& s = *impl_;
  const Clock::time_point deadline = Clock::now() + grace;
  const std::scoped_lock lock(s.stop_mutex);
  if (s.stopped) return true;
  s.shared.service->set_draining();
  if (!s.shared.draining.exchange(true)) s.close_listener();
  if (!s.started) return true;
  for (auto& worker : s.workers) worker->wake_sessions();
  const bool quiet = s.shared.requests.wait_for_none(deadline);
  if (!quiet) {
    QUIRE_LOG_WARN("http: {} requests did not end within the drain time and get an error", s.shared.requests.count());
    s.shared.ending = true;
    for (auto& worker : s.workers) worker->end_sessions();
    constexpr std::chrono::seconds kLastWords(1);  // to write the error; who does not read it is cut off
    (void)s.shared.requests.wait_for_none(Clock::now() + kLastWords);
  }
  for (auto& worker : s.workers) worker->kill_sessions();
  return quiet;
}

void Server::stop() {
  Impl& s = *impl_;
  drain(std::chrono::milliseconds(0));
  const std::scoped_lock lock(s.stop_mutex);
  if (std::exchange(s.stopped, true)) return;
  s.shared.pool.join();  // work in progress refers to sessions; the io threads still run
  constexpr std::chrono::seconds kCloseTime(5);
  if (s.started && !s.shared.connections.wait_for_none(Clock::now() + kCloseTime)) QUIRE_LOG_WARN("http: {} connections did not close", s.shared.connections.count());
  for (auto& worker : s.workers) worker->join();
  s.accepting.reset();
  s.pause.reset();
  s.workers.clear();
}

TextPool& Server::pool() { return impl_->shared.pool; }
int Server::open_connections() const { return impl_->shared.connections.count(); }
int Server::open_requests() const { return impl_->shared.requests.count(); }
int Server::open_streams() const { return impl_->shared.streams.count(); }

}  // namespace quire::http
