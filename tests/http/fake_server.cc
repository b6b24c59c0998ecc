#include "http/fake_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdio>

#include "base/check.h"

namespace quire::http::test {
namespace {

constexpr int kPollMs = 10;

// True when the request is whole: its head, and as much body as that says.
bool is_whole(const std::string& request) {
  const std::size_t head = request.find("\r\n\r\n");
  if (head == std::string::npos) return false;
  const std::size_t length = request.find("Content-Length: ");
  const std::size_t body = length == std::string::npos || length > head ? 0 : std::stoul(request.substr(length + 16));
  return request.size() >= head + 4 + body;
}

}  // namespace

FakeServer::FakeServer(std::function<ServerAnswer(const std::string& request)> answer) : answer_(std::move(answer)) {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  QUIRE_CHECK_EQ(::bind(listener_, reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
  QUIRE_CHECK_EQ(::listen(listener_, 128), 0);
  socklen_t size = sizeof at;
  QUIRE_CHECK_EQ(::getsockname(listener_, reinterpret_cast<sockaddr*>(&at), &size), 0);
  port_ = ntohs(at.sin_port);
  acceptor_ = std::thread([this] { accept_loop(); });
}

FakeServer::~FakeServer() {
  stop_ = true;
  acceptor_.join();
  for (std::thread& t : connections_) t.join();
  ::close(listener_);
}

std::vector<std::string> FakeServer::requests() const {
  const std::scoped_lock lock(mutex_);
  return requests_;
}

void FakeServer::accept_loop() {
  while (!stop_) {
    pollfd wait{listener_, POLLIN, 0};
    if (::poll(&wait, 1, kPollMs) <= 0) continue;
    const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd >= 0) connections_.emplace_back([this, fd] { serve(fd); });
  }
}

void FakeServer::serve(int fd) {
  std::string request;
  std::array<char, 65536> bytes;
  while (!stop_ && !is_whole(request)) {
    pollfd wait{fd, POLLIN, 0};
    if (::poll(&wait, 1, kPollMs) <= 0) continue;
    const ssize_t got = ::recv(fd, bytes.data(), bytes.size(), 0);
    if (got <= 0) break;
    request.append(bytes.data(), static_cast<std::size_t>(got));
  }
  {
    const std::scoped_lock lock(mutex_);
    requests_.push_back(request);
  }
  const ServerAnswer answer = answer_(request);
  for (const ServerPiece& piece : answer.pieces) {
    std::this_thread::sleep_for(piece.before);
    if (::send(fd, piece.bytes.data(), piece.bytes.size(), MSG_NOSIGNAL) < 0) break;
  }
  while (answer.at_end == AtEnd::kStayOpen && !stop_) {
    pollfd wait{fd, POLLIN, 0};
    if (::poll(&wait, 1, kPollMs) > 0 && ::recv(fd, bytes.data(), bytes.size(), 0) <= 0) {
      ++clients_gone_;
      break;
    }
  }
  ::close(fd);
}

std::string json_answer(const std::string& body, const std::string& status) {
  return "HTTP/1.1 " + status + "\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

std::string stream_head() { return "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"; }

std::string chunk(const std::string& bytes) {
  char size[32];
  std::snprintf(size, sizeof size, "%zx\r\n", bytes.size());
  return size + bytes + "\r\n";
}

std::string stream_end() { return "0\r\n\r\n"; }

std::string event(const std::string& data) { return "data: " + data + "\n\n"; }

}  // namespace quire::http::test
