// One connection: reads requests, asks the service, writes answers. Lives on one worker's thread; kept alive by its own pending
// operations. A read is always pending while an answer is being made, so that a client who leaves is noticed at once.
#pragma once
#include <array>
#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "api/service.h"
#include "http/access.h"
#include "http/shared.h"

namespace quire::http {

class Worker;

class Session : public std::enable_shared_from_this<Session> {
 public:
  using Clock = std::chrono::steady_clock;
  using Socket = boost::asio::generic::stream_protocol::socket;

  // Shared::connections already counts this one.
  Session(Worker& worker, Socket socket, std::string peer);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void start();
  // Wakes the coroutine: something it may wait for has changed.
  void notify();
  // What is being answered ends with an error that says why (Shared::ending is set).
  void end();
  // Cuts the connection.
  void kill();

 private:
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  template <class T>
  using Task = boost::asio::awaitable<T>;

  // What the head of one request says.
  struct Head {
    std::string method, path;
    std::string origin, content_type, authorization, request_id, cors_method, cors_headers;
    bool has_cookie = false, is_head = false, wants_continue = false, host_is_good = false;
    unsigned version = 11;
  };
  static constexpr int kClosed = -1;  // instead of an HTTP status: nobody is there

  // session.cc: one request after another.
  Task<void> run();
  Task<void> answer_one();
  [[nodiscard]] std::optional<api::Reply> check_access();
  Task<void> respond(api::RouteMatch match);
  Task<void> on_quick_lane(std::function<void()> work);
  Task<void> on_text_lane(api::TextWork& work, std::optional<api::Answer>& answer);
  Task<void> wait_for_pool();
  static void leave_pool(std::shared_ptr<Session> self);
  void log_access(double seconds) const;

  // session_read.cc: bytes to requests. 0, kClosed or an HTTP status.
  Task<int> read_head();
  Task<int> read_body();
  int parse_some();
  void read_fields();
  void start_read();
  Task<bool> wait_until(Clock::time_point deadline);  // false: the time is over

  // session_write.cc: answers to bytes. False: the client is gone.
  Task<bool> send_reply(const api::Reply& reply);
  Task<bool> write_all(std::string_view bytes);
  Task<void> run_generation();
  Task<void> collect();
  Task<void> stream();
  Task<void> linger();
  void on_news();
  [[nodiscard]] std::string response_head(int status, const Headers& headers) const;
  void close_socket();
  [[nodiscard]] bool peer_lost() const { return peer_gone_ || killed_; }

  Worker& worker_;
  Shared& shared_;
  Socket socket_;
  const std::string peer_;
  boost::asio::steady_timer wake_timer_, write_timer_;
  std::array<char, 8192> incoming_;       // where the pending read writes
  boost::beast::flat_buffer buffer_;      // read, not yet parsed
  std::optional<Parser> parser_;
  Head head_;
  api::RouteMatch route_;
  std::unique_ptr<api::Generation> generation_;
  std::optional<BodyLease> lease_;        // while the body is in memory

  bool reading_ = false, writing_ = false, notified_ = false, pool_done_ = false;
  bool keep_alive_ = true, first_request_ = true;
  // Read by the pool as well: work for nobody is not begun.
  std::atomic<bool> peer_gone_ = false;   // end of stream or an error on the socket
  std::atomic<bool> killed_ = false;      // cut by us
  unsigned write_serial_ = 0;
  Clock::time_point request_begin_;

  // For the access log.
  int status_ = 0;
  std::size_t bytes_sent_ = 0;
  bool unread_ = false;                   // the client took nothing for the write time limit, or let too much of a stream wait
  std::string note_;                      // a generation's id and end, or that nobody was there
};

}  // namespace quire::http
