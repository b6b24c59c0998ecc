#include "http/worker.h"

#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <vector>

#include "base/check.h"
#include "base/log.h"
#include "http/session.h"

namespace quire::http {

namespace asio = boost::asio;

// The descriptor is duplicated: asio closes what it is given, and the queue owns its own.
Worker::Worker(Shared& s) : shared(s), guard_(io.get_executor()), wake_(io, ::dup(mailbox.wake_fd())) {}
Worker::~Worker() { join(); }

void Worker::start() {
  watch_mailbox();
  thread_ = std::thread([this] {
    for (;;) {
      try {
        io.run();
        return;
      } catch (const std::exception& e) {  // one connection's failure must not end the thread of the others
        QUIRE_LOG_ERROR("http: {}", e.what());
      }
    }
  });
}

void Worker::watch_mailbox() {
  wake_.async_wait(asio::posix::stream_descriptor::wait_read, [this](boost::system::error_code ec) {
    if (ec) return;
    mailbox.deliver();
    watch_mailbox();
  });
}

void Worker::adopt(int fd, std::string peer) {
  asio::post(io, [this, fd, peer = std::move(peer)]() mutable {
    sockaddr_storage name{};
    socklen_t size = sizeof name;
    ::getsockname(fd, reinterpret_cast<sockaddr*>(&name), &size);
    asio::generic::stream_protocol::socket socket(io);
    boost::system::error_code ec;
    socket.assign(asio::generic::stream_protocol(name.ss_family, 0), fd, ec);
    if (ec) {
      ::close(fd);
      shared.connections.remove();
      return;
    }
    std::make_shared<Session>(*this, std::move(socket), std::move(peer))->start();
  });
}

void Worker::wake_sessions() {
  asio::post(io, [this] {
    for (Session* session : sessions_) session->notify();
  });
}

void Worker::end_sessions() {
  asio::post(io, [this] {
    for (Session* session : sessions_) session->end();
  });
}

void Worker::kill_sessions() {
  asio::post(io, [this] {
    for (Session* session : std::vector<Session*>(sessions_.begin(), sessions_.end())) session->kill();
  });
}

void Worker::join() {
  if (!thread_.joinable()) return;
  guard_.reset();
  io.stop();
  thread_.join();
}

}  // namespace quire::http
