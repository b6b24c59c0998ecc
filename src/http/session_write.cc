// Writing: whole answers, event streams, and the end of a connection.
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <charconv>

#include "api/response_id.h"
#include "api/text_work.h"
#include "http/session.h"
#include "http/worker.h"

namespace quire::http {

namespace asio = boost::asio;

void Session::close_socket() {
  boost::system::error_code ec;
  socket_.close(ec);  // pending operations end with an error
  peer_gone_ = true;
}

std::string Session::response_head(int status, const Headers& headers) const {
  std::string out = "HTTP/1.1 " + std::to_string(status) + " " + api::status_phrase(status) + "\r\nServer: quire\r\n";
  const auto add = [&out](const std::string& name, const std::string& value) { out += name + ": " + value + "\r\n"; };
  for (const auto& [name, value] : headers) add(name, value);
  for (const auto& [name, value] : cors_headers(shared_.settings, {head_.origin, head_.cors_method, head_.cors_headers, head_.has_cookie})) add(name, value);
  if (shared_.settings.request_id_headers) add("X-Request-Id", head_.request_id.empty() ? api::random_hex() : head_.request_id);
  if (!keep_alive_) add("Connection", "close");
  else if (head_.version < 11) add("Connection", "keep-alive");
  return out + "\r\n";
}

// The time limit runs from one piece that the client took to the next.
Session::Task<bool> Session::write_all(std::string_view bytes) {
  const std::chrono::seconds patience(shared_.settings.write_timeout_seconds);
  writing_ = true;
  while (!bytes.empty() && socket_.is_open()) {
    const unsigned serial = ++write_serial_;
    write_timer_.expires_after(patience);
    write_timer_.async_wait([self = shared_from_this(), serial](boost::system::error_code ec) {
      if (ec || serial != self->write_serial_ || !self->writing_) return;
      self->unread_ = true;
      self->close_socket();
    });
    boost::system::error_code ec;
    auto token = asio::redirect_error(asio::use_awaitable, ec);
    const auto piece = asio::buffer(bytes.data(), bytes.size());
    const std::size_t n = co_await socket_.async_write_some(piece, token);
    if (ec) peer_gone_ = true;
    if (ec) break;
    bytes_sent_ += n;
    bytes.remove_prefix(n);
  }
  writing_ = false;
  ++write_serial_;
  write_timer_.cancel();
  co_return bytes.empty();
}

Session::Task<bool> Session::send_reply(const api::Reply& reply) {
  status_ = reply.status;
  if (!parser_->is_done()) keep_alive_ = false;  // an unread body stands between this request and the next
  if (shared_.draining) keep_alive_ = false;
  Headers headers = reply.headers;
  if (!reply.body.empty()) headers.emplace_back("Content-Type", reply.content_type);
  headers.emplace_back("Content-Length", std::to_string(reply.body.size()));
  std::string bytes = response_head(reply.status, headers);
  if (!head_.is_head) bytes += reply.body;
  const bool sent = co_await write_all(bytes);
  co_return sent;
}

void Session::on_news() {
  if (writing_ && generation_->num_waiting_bytes() > kMaxWaitingBytes) {
    unread_ = true;
    generation_->cancel();
    close_socket();
  }
  notify();
}

Session::Task<void> Session::run_generation() {
  const Counted open(shared_.streams);
  generation_->on_news = [this] { on_news(); };
  const Status submitted = generation_->submit(worker_.mailbox);
  note_ = generation_->id();
  if (!submitted.ok()) {
    const api::Reply reply = api::error_reply(submitted.error());
    co_await send_reply(reply);
  } else if (generation_->streaming()) {
    co_await stream();
  } else {
    co_await collect();
  }
  if (submitted.ok() && !unread_) note_ += " " + (peer_gone_ && !generation_->finished() ? std::string("client gone") : generation_->outcome());
  generation_.reset();  // cancels what still runs
}

Session::Task<void> Session::collect() {
  while (!generation_->finished()) {
    if (peer_lost()) co_return;
    start_read();
    const Clock::time_point far = Clock::now() + std::chrono::hours(1);
    co_await wait_until(far);
  }
  api::Reply reply;
  if (generation_->reply_is_large()) {
    const std::function<void()> work = [this, &reply] {
      try {
        reply = generation_->reply();
      } catch (const std::exception& failure) {  // memory, for one
        reply = api::exception_reply(failure);
      }
    };
    co_await on_quick_lane(work);
  } else {
    reply = generation_->reply();
  }
  co_await send_reply(reply);
}

// Headers go out at admission: a client sees that it was accepted, and comment lines keep proxies awake during a long prefill.
Session::Task<void> Session::stream() {
  const bool chunked = head_.version >= 11;
  if (!chunked || shared_.draining) keep_alive_ = false;
  status_ = 200;
  Headers headers{{"Content-Type", "text/event-stream; charset=utf-8"}, {"Cache-Control", "no-cache"}};
  if (chunked) headers.emplace_back("Transfer-Encoding", "chunked");
  std::string frame = response_head(200, headers);
  bool good = co_await write_all(frame);
  Clock::time_point silent_since = Clock::now();
  while (good && !peer_lost()) {
    std::string events = generation_->take_events();
    if (events.empty() && generation_->finished()) break;
    if (events.empty()) {
      start_read();
      const Clock::time_point deadline = silent_since + std::chrono::seconds(shared_.settings.heartbeat_seconds);
      const bool news = co_await wait_until(deadline);
      if (news) continue;
      events = ": keep-alive\n\n";
    }
    frame.clear();
    if (chunked) {
      std::array<char, 16> size{};
      const auto end = std::to_chars(size.data(), size.data() + size.size(), events.size(), 16).ptr;
      frame.append(size.data(), end);
      frame += "\r\n";
    }
    frame += events;
    if (chunked) frame += "\r\n";
    good = co_await write_all(frame);
    silent_since = Clock::now();
  }
  if (!good || peer_lost()) {
    keep_alive_ = false;
    co_return;
  }
  frame = chunked ? "0\r\n\r\n" : "";
  co_await write_all(frame);
}

// Closing with unread bytes would make the kernel reset the connection and throw away an answer that the client has not read
// yet; so we say that we are done and read on for a moment.
Session::Task<void> Session::linger() {
  boost::system::error_code ec;
  if (!peer_lost()) {
    socket_.shutdown(Socket::shutdown_send, ec);
    const std::chrono::seconds patience(parser_ && !parser_->is_done() ? 5 : 1);
    const Clock::time_point deadline = Clock::now() + patience;
    bool news = true;
    while (news && !peer_lost() && !shared_.draining) {
      buffer_.consume(buffer_.size());
      start_read();
      news = co_await wait_until(deadline);
    }
  }
  close_socket();
}

}  // namespace quire::http
