#include "http/session.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <exception>
#include <utility>

#include "base/log.h"
#include "http/worker.h"

namespace quire::http {

namespace asio = boost::asio;

namespace {

Error ended_error() { return Error{ErrorCode::kUnavailable, "The server is shutting down and the request did not end in the time that was left (--shutdown-timeout)", {}}; }

}  // namespace

Session::Session(Worker& worker, Socket socket, std::string peer)
    : worker_(worker), shared_(worker.shared), socket_(std::move(socket)), peer_(std::move(peer)), wake_timer_(worker.io), write_timer_(worker.io) {
  worker_.sessions_.insert(this);
}

Session::~Session() {
  worker_.sessions_.erase(this);
  shared_.connections.remove();
}

void Session::start() {
  auto self = shared_from_this();
  asio::co_spawn(
      worker_.io, [self]() { return self->run(); },
      [self](std::exception_ptr failure) {
        if (!failure) return;
        try {
          std::rethrow_exception(failure);
        } catch (const std::exception& e) {
          QUIRE_LOG_ERROR("http: connection of {} failed: {}", self->peer_, e.what());
        }
        self->generation_.reset();
        self->close_socket();
      });
}

void Session::notify() {
  notified_ = true;
  wake_timer_.cancel();
}

void Session::end() {
  if (generation_) generation_->end_with(ended_error());
  notify();
}

void Session::kill() {
  killed_ = true;
  close_socket();
  notify();
}

Session::Task<void> Session::run() {
  while (keep_alive_ && !peer_lost()) {
    const int status = co_await read_head();
    first_request_ = false;
    if (status == kClosed) break;
    const Counted open(shared_.requests);
    status_ = 0;
    bytes_sent_ = 0;
    unread_ = false;
    note_.clear();
    route_ = {};
    if (status == 0) {
      read_fields();
      keep_alive_ = parser_->keep_alive();
      co_await answer_one();
      lease_.reset();
    } else {
      head_ = Head{};
      keep_alive_ = false;
      const api::Reply reply = api::http_error(status, status == 431 ? "The request's head is over the limit of " + std::to_string(kMaxHeaderBytes) + " bytes" : "");
      co_await send_reply(reply);
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - request_begin_).count();
    shared_.service->count_http(head_.method, route_.route, status_, seconds);
    if (shared_.settings.access_log) log_access(seconds);
  }
  co_await linger();
}

void Session::log_access(double seconds) const {
  if (head_.method.empty()) QUIRE_LOG_INFO("{} (broken request) {} {:.3f} s", peer_, status_, seconds);
  else QUIRE_LOG_INFO("{} \"{} {}\" {} {} bytes {:.3f} s{}{}{}", peer_, loggable(head_.method), loggable(head_.path), status_ == 0 ? "-" : std::to_string(status_), bytes_sent_, seconds,
                      note_.empty() ? "" : " ", note_, unread_ ? " client does not read" : "");
}

// Whoever may not ask, and CORS preflights, are answered before any body is read.
std::optional<api::Reply> Session::check_access() {
  if (!head_.host_is_good) {
    keep_alive_ = false;  // whoever wrote this may mean something else by the next bytes, too
    return api::http_error(400, "A request needs exactly one Host header with a host and perhaps a port in it (RFC 9112, 3.2)");
  }
  if (head_.method == "OPTIONS" && !head_.origin.empty() && !head_.cors_method.empty()) {
    Preflight preflight = cors_preflight(shared_.settings, {head_.origin, head_.cors_method, head_.cors_headers, head_.has_cookie});
    api::Reply reply;
    reply.status = preflight.allowed ? 200 : 400;
    reply.content_type = "text/plain; charset=utf-8";
    reply.body = std::move(preflight.text);
    reply.headers = std::move(preflight.headers);
    head_.origin.clear();  // the answer's CORS fields are complete
    return reply;
  }
  const bool open = head_.method == "OPTIONS" || (route_.route != nullptr && route_.route->open);
  if (!shared_.settings.api_keys.empty() && !open && find_key(head_.authorization, shared_.settings.api_keys) < 0) {
    api::Reply reply;
    reply.status = 401;
    reply.body = R"({"error":"Unauthorized"})";
    reply.headers.emplace_back("WWW-Authenticate", "Bearer");
    return reply;
  }
  if (route_.route == nullptr) return api::http_error(404);
  if (route_.method_allowed) return std::nullopt;
  api::Reply reply = api::http_error(405);
  reply.headers.emplace_back("Allow", api::allowed_methods(*route_.route));
  return reply;
}

Session::Task<void> Session::answer_one() {
  route_ = api::find_route(head_.method, head_.path);
  const std::optional<api::Reply> refused = check_access();
  if (refused) {
    co_await send_reply(*refused);
    co_return;
  }
  lease_.emplace(shared_);
  const int status = co_await read_body();
  if (status == kClosed) {
    note_ = "client gone";
    co_return;
  }
  if (status != 0) {
    std::string text;
    if (status == 413) text = "The request body is over the limit of " + std::to_string(shared_.settings.max_body_bytes) + " bytes";
    if (status == 503) text = shared_.ending ? ended_error().message : "Too many large requests are being read; try again later";
    if (status == 408) text = "The request body did not arrive in time";
    const api::Reply reply = api::http_error(status, text);
    co_await send_reply(reply);
    co_return;
  }
  co_await respond(route_);
}

// On a pool's thread: its reference moves back whole, because a session may end on its own thread only.
void Session::leave_pool(std::shared_ptr<Session> self) {
  Worker& worker = self->worker_;
  asio::post(worker.io, [self = std::move(self)] {
    self->pool_done_ = true;
    self->notify();
  });
}

// A read stays pending: a client who leaves is noticed, and what it still had in the pool is dropped.
Session::Task<void> Session::wait_for_pool() {
  while (!pool_done_) {
    start_read();
    const Clock::time_point far = Clock::now() + std::chrono::hours(1);
    co_await wait_until(far);
  }
}

Session::Task<void> Session::on_quick_lane(std::function<void()> work) {
  pool_done_ = false;
  const bool taken = shared_.pool.post_quick([self = shared_from_this(), &work]() mutable {
    if (!self->peer_lost()) work();
    leave_pool(std::move(self));
  });
  if (taken) co_await wait_for_pool();
  else killed_ = true;  // the server stops
}

Session::Task<void> Session::on_text_lane(api::TextWork& work, std::optional<api::Answer>& answer) {
  pool_done_ = false;
  const bool taken = shared_.pool.post_text([self = shared_from_this(), &work, &answer]() mutable {
    const bool wanted = !self->peer_lost() && !self->shared_.ending;
    if (wanted) answer = work.step();
    if (wanted && !answer) return TextPool::After::kMore;
    leave_pool(std::move(self));
    return TextPool::After::kDone;
  });
  if (taken) co_await wait_for_pool();
  else killed_ = true;
}

Session::Task<void> Session::respond(api::RouteMatch match) {
  api::Call call;
  call.route = match.route;
  call.content_type = head_.content_type;
  call.request_id = head_.request_id;
  call.body = std::move(parser_->get().body());
  if (shared_.settings.server_load_tracking) call.server_load = shared_.streams.count();
  if (!shared_.settings.api_keys.empty()) call.credential = "key" + std::to_string(find_key(head_.authorization, shared_.settings.api_keys));
  api::Opening opening;
  if (match.route->slow()) {
    const std::function<void()> work = [this, &call, &opening] { opening = shared_.service->open(call); };
    co_await on_quick_lane(work);
  } else {
    opening = shared_.service->open(call);
  }
  call.body = std::string();
  std::optional<api::Answer> answer;
  if (auto* text = std::get_if<std::unique_ptr<api::TextWork>>(&opening)) {
    if (!peer_lost()) co_await on_text_lane(**text, answer);
  } else if (auto* generation = std::get_if<std::unique_ptr<api::Generation>>(&opening)) {
    answer = std::move(*generation);
  } else {
    answer = std::move(std::get<api::Reply>(opening));
  }
  opening = api::Reply{};  // a generation may run for minutes and needs the request no more
  lease_.reset();
  if (!peer_lost() && shared_.ending && (!answer || !std::holds_alternative<api::Reply>(*answer))) answer = api::error_reply(ended_error());
  if (peer_lost() || !answer) {
    note_ = "client gone";
    co_return;
  }
  if (auto* generation = std::get_if<std::unique_ptr<api::Generation>>(&*answer)) {
    generation_ = std::move(*generation);
    co_await run_generation();
    co_return;
  }
  const api::Reply& reply = std::get<api::Reply>(*answer);
  co_await send_reply(reply);
}

}  // namespace quire::http
