#include "http/client.h"

#include <array>
#include <boost/asio/connect.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <map>
#include <utility>

#include "base/check.h"
#include "http/sse_reader.h"

namespace quire::http {

namespace asio = boost::asio;
namespace beast = boost::beast;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr std::uint32_t kMaxHeadBytes = 64u << 10;

std::string request_bytes(const Target& target, const std::string& bearer, const ClientRequest& request) {
  std::string out = request.method + " " + target.base_path + request.path + " HTTP/1.1\r\nHost: " + target.authority() + "\r\nUser-Agent: quire\r\nAccept: application/json, text/event-stream\r\nConnection: close\r\n";
  if (!bearer.empty()) out += "Authorization: Bearer " + bearer + "\r\n";
  if (!request.body.empty()) out += "Content-Type: application/json\r\nContent-Length: " + std::to_string(request.body.size()) + "\r\n";
  return out + "\r\n" + request.body;
}

std::string milliseconds_text(std::chrono::milliseconds t) { return t.count() % 1000 == 0 ? std::to_string(t.count() / 1000) + " s" : std::to_string(t.count()) + " ms"; }

}  // namespace

// One request on its connection. Kept alive by its pending operations and by the client's table. What comes of it goes into `events`, which
// outlives every operation.
class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  using Clock = Client::Clock;
  Exchange(asio::io_context& io, const ClientLimits& limits, std::string bytes, Client::Id id, std::vector<ClientEvent>& events)
      : socket_(io), timer_(io), limits_(limits), bytes_(std::move(bytes)), id_(id), events_(events), sse_(limits.max_event_bytes) {
    parser_.header_limit(kMaxHeadBytes);
    parser_.body_limit(boost::none);  // take() bounds it
    parser_.eager(true);
  }

  void start(const tcp::resolver::results_type& endpoints) {
    watch(limits_.connect, "cannot connect: no answer within ");
    asio::async_connect(socket_, endpoints, [self = shared_from_this()](error_code ec, const tcp::endpoint&) {
      if (self->ended_) return;
      if (ec) return self->end("cannot connect: " + ec.message());
      self->connected();
    });
  }
  void end(std::string failure) {
    if (std::exchange(ended_, true)) return;
    outcome_.failure = std::move(failure);
    error_code ignored;
    socket_.close(ignored);
    timer_.cancel();
    events_.push_back({id_, Clock::now(), {}, std::move(outcome_)});
  }

 private:
  void connected() {
    error_code ignored;
    socket_.set_option(tcp::no_delay(true), ignored);
    heard_ = Clock::now();
    connected_ = true;
    watch(limits_.silence, "the server sent nothing for ");
    // A server may answer, and close, before it has read all: then what it says counts, not that the rest could not be sent.
    asio::async_write(socket_, asio::buffer(bytes_), [self = shared_from_this()](error_code, std::size_t) {});
    read();
  }
  // Looks again where bytes came meanwhile, so that a read costs no timer.
  void watch(std::chrono::milliseconds bound, const char* what) {
    const bool waits_for_bytes = connected_;
    timer_.expires_at((waits_for_bytes ? heard_ : Clock::now()) + bound);
    timer_.async_wait([self = shared_from_this(), bound, what, waits_for_bytes](error_code ec) {
      if (ec || self->ended_ || waits_for_bytes != self->connected_) return;
      if (waits_for_bytes && Clock::now() - self->heard_ < bound) return self->watch(bound, what);
      self->end(what + milliseconds_text(bound));
    });
  }
  void read() {
    socket_.async_read_some(asio::buffer(incoming_), [self = shared_from_this()](error_code ec, std::size_t n) {
      if (self->ended_) return;
      self->heard_ = Clock::now();
      if (ec) return self->stream_ended(ec);
      self->pending_.append(self->incoming_.data(), n);
      if (self->parse()) self->read();
    });
  }
  void stream_ended(error_code ec) {
    error_code parse_error;
    if (ec == asio::error::eof && parser_.got_some()) parser_.put_eof(parse_error);
    if (ec == asio::error::eof && !parse_error && parser_.is_done()) return end("");
    const std::string place = outcome_.status == 0 ? "before an answer" : "within the answer";
    end("the connection ended " + place + (ec == asio::error::eof ? "" : ": " + ec.message()));
  }

  // Gives the parser what has come. True when more is to be read.
  bool parse() {
    while (!pending_.empty() && !parser_.is_done()) {
      std::array<char, 16384> out;
      parser_.get().body().data = out.data();
      parser_.get().body().size = out.size();
      error_code ec;
      const std::size_t used = parser_.put(asio::buffer(pending_), ec);
      pending_.erase(0, used);
      if (ec && ec != beast::http::error::need_more && ec != beast::http::error::need_buffer) return fail("the answer is not HTTP: " + ec.message());
      if (parser_.is_header_done() && outcome_.status == 0) read_head();
      const std::size_t got = out.size() - parser_.get().body().size;
      if (got > 0 && !take({out.data(), got})) return false;
      if (used == 0 && got == 0) break;
    }
    if (!parser_.is_done()) return true;
    end("");
    return false;
  }
  void read_head() {
    outcome_.status = static_cast<int>(parser_.get().result_int());
    const auto type = parser_.get()[beast::http::field::content_type];
    is_stream_ = outcome_.status == 200 && beast::iequals(type.substr(0, type.find_first_of("; ")), "text/event-stream");
  }
  bool take(std::string_view bytes) {
    if (!is_stream_) {
      if (outcome_.body.size() + bytes.size() > limits_.max_body_bytes) return fail("the answer has more than " + std::to_string(limits_.max_body_bytes) + " bytes");
      outcome_.body += bytes;
      return true;
    }
    std::vector<std::string> found;
    const Status fed = sse_.feed(bytes, found);
    for (std::string& data : found) events_.push_back({id_, heard_, std::move(data), std::nullopt});
    return fed.ok() || fail(fed.error().message);
  }
  bool fail(std::string failure) {
    end(std::move(failure));
    return false;
  }

  tcp::socket socket_;
  asio::steady_timer timer_;
  ClientLimits limits_;
  std::string bytes_;
  Client::Id id_;
  std::vector<ClientEvent>& events_;
  SseReader sse_;
  beast::http::response_parser<beast::http::buffer_body> parser_;
  std::array<char, 16384> incoming_;
  std::string pending_;  // received, not yet parsed
  Clock::time_point heard_;
  ClientOutcome outcome_;
  bool connected_ = false, is_stream_ = false, ended_ = false;
};

struct Client::Impl {
  Target target;
  std::string bearer;
  ClientLimits limits;
  std::vector<ClientEvent> events;  // before `io`, whose operations write here
  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> guard{io.get_executor()};  // waiting goes on while nothing is open
  tcp::resolver::results_type endpoints;
  std::map<Id, std::shared_ptr<Exchange>> open;
  Id last = 0;
};

Client::Client(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Client::~Client() = default;

Result<std::unique_ptr<Client>> Client::open(const Target& target, const std::string& bearer, const ClientLimits& limits) {
  for (const char c : bearer)
    if (static_cast<unsigned char>(c) <= 0x20 || static_cast<unsigned char>(c) >= 0x7f) return invalid("the API key holds a byte that no HTTP header takes");
  auto impl = std::make_unique<Impl>();
  impl->target = target;
  impl->bearer = bearer;
  impl->limits = limits;
  error_code ec;
  tcp::resolver resolver(impl->io);
  impl->endpoints = resolver.resolve(target.host, target.port, ec);
  if (ec) return Error{ErrorCode::kUnavailable, target.url() + ": cannot find the host '" + target.host + "': " + ec.message(), {}};
  return std::unique_ptr<Client>(new Client(std::move(impl)));
}

Client::Id Client::send(const ClientRequest& request) {
  const Id id = ++impl_->last;
  auto exchange = std::make_shared<Exchange>(impl_->io, impl_->limits, request_bytes(impl_->target, impl_->bearer, request), id, impl_->events);
  impl_->open.emplace(id, exchange);
  exchange->start(impl_->endpoints);
  return id;
}

void Client::cancel(Id id) {
  if (const auto found = impl_->open.find(id); found != impl_->open.end()) found->second->end(std::string(kCancelled));
}

std::vector<ClientEvent> Client::wait(Clock::time_point until) {
  Impl& c = *impl_;
  while (c.events.empty() && c.io.run_one_until(until) > 0) c.io.poll();
  std::vector<ClientEvent> out = std::exchange(c.events, {});
  for (const ClientEvent& e : out)
    if (e.end.has_value()) c.open.erase(e.id);
  return out;
}

std::size_t Client::num_open() const { return impl_->open.size(); }

const ClientLimits& Client::limits() const { return impl_->limits; }

ClientOutcome ask(Client& client, const ClientRequest& request) {
  QUIRE_CHECK_EQ(client.num_open(), std::size_t{0});
  const auto until = Client::Clock::now() + client.limits().whole;
  const Client::Id id = client.send(request);
  std::optional<ClientOutcome> outcome;
  const auto listen = [&] {
    for (ClientEvent& e : client.wait(until))
      if (e.end.has_value() && e.id == id) outcome = std::move(e.end);
  };
  while (!outcome.has_value() && Client::Clock::now() < until) listen();
  if (outcome.has_value()) return std::move(*outcome);
  client.cancel(id);
  while (!outcome.has_value()) listen();
  if (outcome->failure == Client::kCancelled) outcome->failure = "no whole answer within " + milliseconds_text(client.limits().whole);
  return std::move(*outcome);
}

}  // namespace quire::http
