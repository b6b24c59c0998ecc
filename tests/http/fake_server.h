// A server that answers each connection with the pieces it is told to, with pauses between them, whatever is asked. For clients.
#pragma once
#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace quire::http::test {

struct ServerPiece {
  std::string bytes;
  std::chrono::milliseconds before{0};  // pause before it is sent
};
enum class AtEnd { kClose, kStayOpen };  // kStayOpen: until the client goes
struct ServerAnswer {
  std::vector<ServerPiece> pieces;
  AtEnd at_end = AtEnd::kClose;
};

class FakeServer {
 public:
  // `answer` is called for each connection with the whole request (head and body), from that connection's thread.
  explicit FakeServer(std::function<ServerAnswer(const std::string& request)> answer);
  ~FakeServer();
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;

  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  [[nodiscard]] std::vector<std::string> requests() const;  // so far
  [[nodiscard]] int clients_gone() const { return clients_gone_; }  // connections that the client closed while kStayOpen waited

 private:
  void accept_loop();
  void serve(int fd);

  std::function<ServerAnswer(const std::string&)> answer_;
  int listener_ = -1, port_ = 0;
  std::atomic<bool> stop_{false};
  std::atomic<int> clients_gone_{0};
  mutable std::mutex mutex_;
  std::vector<std::string> requests_;
  std::vector<std::thread> connections_;
  std::thread acceptor_;
};

[[nodiscard]] std::string json_answer(const std::string& body, const std::string& status = "200 OK");
// The head of an event stream in chunks, one chunk of it, and its end.
[[nodiscard]] std::string stream_head();
[[nodiscard]] std::string chunk(const std::string& bytes);
[[nodiscard]] std::string stream_end();
[[nodiscard]] std::string event(const std::string& data);  // "data: ...\n\n"

}  // namespace quire::http::test
