// A small HTTP client for servers of the OpenAI API: plain HTTP/1.1, one connection for each request, event streams handed on as they
// arrive with the time at which they did. One thread, the caller's; knows no field of any body.
//
//   auto client = Client::open(target, api_key, {});   // resolves the name
//   const auto id = client->send({...});
//   for (const ClientEvent& e : client->wait(deadline)) ...   // nothing happens outside wait()
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "http/target.h"

namespace quire::http {

struct ClientLimits {
  std::chrono::milliseconds connect{10'000};   // to connect
  std::chrono::milliseconds silence{600'000};  // without a byte from the server
  std::chrono::milliseconds whole{600'000};    // ask(): until the whole answer is there, however it drips
  std::size_t max_event_bytes = 1u << 20;      // one server-sent event
  std::size_t max_body_bytes = 1u << 20;       // an answer that is no event stream
};

struct ClientRequest {
  std::string method = "POST";
  std::string path;  // after the target's base path: "/v1/completions"
  std::string body;  // JSON; "": none
};

// How a request ended.
struct ClientOutcome {
  int status = 0;       // of the answer; 0: there was no whole head
  std::string failure;  // why the answer is not whole: "cannot connect: Connection refused"; "": it is
  std::string body;     // of an answer that is no event stream; of one that failed, what had come
  [[nodiscard]] bool ok() const { return failure.empty() && status >= 200 && status < 300; }
};

// What came of a request: events of a stream with status 200, then exactly one end.
struct ClientEvent {
  std::uint64_t id = 0;
  std::chrono::steady_clock::time_point arrived;  // when its last byte was read
  std::string data;                               // of a server-sent event
  std::optional<ClientOutcome> end;               // set: no event, the request has ended
};

class Client {
 public:
  using Clock = std::chrono::steady_clock;
  using Id = std::uint64_t;

  // Errors name the target: its name cannot be resolved. `bearer` is sent as a key when it is not empty.
  [[nodiscard]] static Result<std::unique_ptr<Client>> open(const Target& target, const std::string& bearer, const ClientLimits& limits);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  Id send(const ClientRequest& request);
  // Closes the connection: the request ends with the failure kCancelled, after what had come of it. An id that has ended is ignored.
  void cancel(Id id);
  static constexpr std::string_view kCancelled = "cancelled";
  // Works until something has come of any request, then gives all that has, in order; or nothing, at `until`. Without an open request it
  // only waits.
  [[nodiscard]] std::vector<ClientEvent> wait(Clock::time_point until);
  [[nodiscard]] std::size_t num_open() const;  // whose end has not been given yet
  [[nodiscard]] const ClientLimits& limits() const;

 private:
  struct Impl;
  explicit Client(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// One request and its whole answer, which takes at most the limits' `whole`. Events of a stream are thrown away. Nothing else may be open.
[[nodiscard]] ClientOutcome ask(Client& client, const ClientRequest& request);

}  // namespace quire::http
