// Reading: limits and time limits of heads and bodies.
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/http/error.hpp>

#include "http/session.h"
#include "http/worker.h"

namespace quire::http {

namespace asio = boost::asio;
namespace beast = boost::beast;

void Session::start_read() {
  if (reading_ || peer_gone_ || buffer_.size() >= kMaxPipelinedBytes) return;
  reading_ = true;
  socket_.async_read_some(asio::buffer(incoming_), [self = shared_from_this()](boost::system::error_code ec, std::size_t n) {
    self->reading_ = false;
    if (ec) {
      self->peer_gone_ = true;
    } else {
      const auto space = self->buffer_.prepare(n);
      self->buffer_.commit(asio::buffer_copy(space, asio::buffer(self->incoming_, n)));
    }
    self->notify();
  });
}

Session::Task<bool> Session::wait_until(Clock::time_point deadline) {
  if (!notified_) {
    wake_timer_.expires_at(deadline);
    boost::system::error_code ec;
    auto token = asio::redirect_error(asio::use_awaitable, ec);
    co_await wake_timer_.async_wait(token);
  }
  const bool news = notified_;
  notified_ = false;
  co_return news;
}

// Gives the parser what is there. 0: fine so far.
int Session::parse_some() {
  if (buffer_.size() == 0) return 0;
  beast::error_code ec;
  const std::size_t used = parser_->put(buffer_.data(), ec);
  buffer_.consume(used);
  if (!ec || ec == beast::http::error::need_more) return 0;
  if (ec == beast::http::error::header_limit) return 431;
  if (ec == beast::http::error::bad_version) return 505;
  return 400;
}

Session::Task<int> Session::read_head() {
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(kMaxHeaderBytes));
  parser_->body_limit(boost::none);  // read_body checks, and says what the limit is
  parser_->eager(false);
  const std::chrono::seconds head_time(shared_.settings.header_timeout_seconds);
  bool begun = false;
  Clock::time_point deadline = Clock::now() + (first_request_ ? head_time : std::chrono::seconds(shared_.settings.keep_alive_seconds));
  for (;;) {
    if (buffer_.size() > 0) {
      if (!begun) request_begin_ = Clock::now();
      if (!begun) deadline = request_begin_ + head_time;
      begun = true;
      if (const int status = parse_some(); status != 0) co_return status;
      if (parser_->is_header_done()) co_return 0;
      if (buffer_.size() >= kMaxHeaderBytes) co_return 431;
    }
    if (peer_lost() || (shared_.draining && !begun)) co_return kClosed;
    start_read();
    const bool news = co_await wait_until(deadline);
    if (!news) co_return begun ? 408 : kClosed;
  }
}

Session::Task<int> Session::read_body() {
  // A body may take the head's time and then a second for each 16 KiB: slower clients only hold memory.
  constexpr std::size_t kLowestRate = 16 << 10;
  const auto limit = static_cast<std::uint64_t>(shared_.settings.max_body_bytes);
  const auto length = parser_->content_length();
  if (length && *length > limit) co_return 413;
  if (length && !lease_->grow_to(static_cast<std::int64_t>(*length))) co_return 503;
  if (parser_->is_done()) co_return 0;
  if (head_.wants_continue) {
    const std::string_view go_on = "HTTP/1.1 100 Continue\r\n\r\n";
    const bool sent = co_await write_all(go_on);
    if (!sent) co_return kClosed;
  }
  parser_->eager(true);
  const Clock::time_point begin = Clock::now();
  for (;;) {
    const std::size_t had = buffer_.size();
    if (const int status = parse_some(); status != 0) co_return status;
    const std::uint64_t received = parser_->get().body().size();
    if (received > limit) co_return 413;
    if (!lease_->grow_to(static_cast<std::int64_t>(received))) co_return 503;
    if (parser_->is_done()) co_return 0;
    if (had >= kMaxPipelinedBytes && buffer_.size() == had) co_return 400;  // a chunk header without end
    if (peer_lost()) co_return kClosed;
    if (shared_.ending) co_return 503;
    if (buffer_.size() > 0 && buffer_.size() < had) continue;  // progress: more may be parsed at once
    start_read();
    const Clock::time_point deadline = begin + std::chrono::seconds(shared_.settings.header_timeout_seconds + static_cast<int>(received / kLowestRate));
    const bool news = co_await wait_until(deadline);
    if (!news) co_return 408;
  }
}

void Session::read_fields() {
  using beast::http::field;
  const auto& request = parser_->get();
  head_ = Head{};
  head_.method = std::string(request.method_string());
  head_.is_head = head_.method == "HEAD";
  head_.version = request.version();
  std::string_view path(request.target().data(), request.target().size());
  path = path.substr(0, path.find_first_of("?#"));
  const std::string& root = shared_.settings.root_path;
  if (!root.empty() && path.starts_with(root)) path.remove_prefix(root.size());
  head_.path = path;
  const auto text = [&request](field name) {
    const auto value = request[name];
    return std::string(value.data(), value.size());
  };
  head_.origin = text(field::origin);
  head_.content_type = text(field::content_type);
  head_.authorization = text(field::authorization);
  head_.cors_method = text(field::access_control_request_method);
  head_.cors_headers = text(field::access_control_request_headers);
  const std::size_t num_hosts = request.count(field::host);
  head_.host_is_good = num_hosts <= 1 && is_host(text(field::host)) && (num_hosts == 1 || head_.version < 11);
  head_.has_cookie = request.count(field::cookie) > 0;
  head_.wants_continue = beast::iequals(request[field::expect], "100-continue");
  const auto id = request["X-Request-Id"];
  head_.request_id.assign(id.data(), id.size());
}

}  // namespace quire::http
