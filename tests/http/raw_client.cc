#include "http/raw_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace quire::http::test {
namespace {

using Clock = std::chrono::steady_clock;

int left_ms(Clock::time_point deadline) {
  return static_cast<int>(std::max<std::int64_t>(0, std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count()));
}

// The body of `raw` from `at`; complete when all of it is there. Returns the place after it.
std::size_t parse_body(const std::string& raw, std::size_t at, Answer& answer, bool ended) {
  if (answer.status == 100) {
    answer.complete = true;
    return at;
  }
  const auto length = answer.headers.find("content-length");
  if (length != answer.headers.end()) {
    const std::size_t size = std::stoul(length->second);
    answer.body = raw.substr(at, size);
    answer.complete = answer.body.size() == size;
    return at + answer.body.size();
  }
  if (answer.headers.contains("transfer-encoding")) {
    for (;;) {
      const std::size_t line = raw.find("\r\n", at);
      if (line == std::string::npos) return at;
      const std::size_t size = std::stoul(raw.substr(at, line - at), nullptr, 16);
      if (raw.size() < line + 2 + size + 2) return at;
      QUIRE_CHECK(raw.compare(line + 2 + size, 2, "\r\n") == 0) << "a chunk is longer than it says";
      answer.body += raw.substr(line + 2, size);
      at = line + 2 + size + 2;
      if (size == 0) {
        answer.complete = true;
        return at;
      }
    }
  }
  answer.body = raw.substr(at);
  answer.complete = ended;
  return raw.size();
}

}  // namespace

RawClient::RawClient(int port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(static_cast<std::uint16_t>(port));
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd_, reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) ended_ = true;
}

RawClient::RawClient(const std::string& unix_path) : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  std::memcpy(at.sun_path, unix_path.c_str(), std::min(unix_path.size() + 1, sizeof at.sun_path));
  if (::connect(fd_, reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) ended_ = true;
}

RawClient::RawClient(RawClient&& other) noexcept : fd_(std::exchange(other.fd_, -1)), ended_(other.ended_), raw_(std::move(other.raw_)) {}
RawClient::~RawClient() { close(); }

void RawClient::close() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  ended_ = true;
}

void RawClient::shrink_receive_buffer() {
  const int small = 2048;
  ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
}

bool RawClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

bool RawClient::read_some(int timeout_ms) {
  if (ended_) return false;
  pollfd p{fd_, POLLIN, 0};
  if (::poll(&p, 1, timeout_ms) != 1) return false;
  std::array<char, 65536> bytes{};
  const ssize_t n = ::recv(fd_, bytes.data(), bytes.size(), 0);
  if (n <= 0) ended_ = true;
  else raw_.append(bytes.data(), static_cast<std::size_t>(n));
  return n > 0;
}

bool RawClient::read_until(std::string_view text, int timeout_ms) {
  const auto deadline = Clock::now() + std::chrono::milliseconds(timeout_ms);
  while (raw_.find(text) == std::string::npos)
    if (!read_some(left_ms(deadline))) return false;
  return true;
}

bool RawClient::closed_within(int timeout_ms) {
  const auto deadline = Clock::now() + std::chrono::milliseconds(timeout_ms);
  while (read_some(left_ms(deadline))) {
  }
  return ended_;
}

Answer RawClient::read_answer(int timeout_ms) {
  const auto deadline = Clock::now() + std::chrono::milliseconds(timeout_ms);
  for (;;) {
    Answer answer;
    const std::size_t head_end = raw_.find("\r\n\r\n");
    if (head_end != std::string::npos) {
      answer.status = std::stoi(raw_.substr(raw_.find(' ') + 1, 3));
      for (std::size_t at = raw_.find("\r\n") + 2; at < head_end;) {
        const std::size_t end = std::min(raw_.find("\r\n", at), head_end);
        const std::string line = raw_.substr(at, end - at);
        std::string name = line.substr(0, line.find(':'));
        for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
        answer.headers[name] = line.substr(std::min(line.size(), line.find(':') + 2));
        at = end + 2;
      }
      const std::size_t end = parse_body(raw_, head_end + 4, answer, ended_);
      if (answer.complete) {
        raw_.erase(0, end);
        return answer;
      }
    }
    if (!read_some(left_ms(deadline)) && (!ended_ || answer.status == 0 || answer.complete || head_end == std::string::npos || answer.headers.contains("content-length") ||
                                          answer.headers.contains("transfer-encoding")))
      return answer;
  }
}

std::string get(std::string_view path, std::string_view extra_headers) {
  return "GET " + std::string(path) + " HTTP/1.1\r\nHost: test\r\n" + std::string(extra_headers) + "\r\n";
}

std::string post(std::string_view path, std::string_view body, std::string_view extra_headers) {
  return "POST " + std::string(path) + " HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" + std::string(extra_headers) +
         "\r\n" + std::string(body);
}

}  // namespace quire::http::test
