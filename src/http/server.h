// The HTTP server: sockets, limits, streaming. Owns its threads and connections; answers come from api::Service. Knows no
// model words.
//
//   Server server(settings, service);
//   auto port = server.bind();      // before the engine is made: a taken port fails early
//   server.start();                 // /health and /ready answer 503 with the progress until Service::attach
//   ...
//   server.drain(grace);            // no new connections or generations; running ones end, then the rest is cut
//   server.stop();                  // joins every thread
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "config/resolved.h"

namespace quire::api {
class Service;
}

namespace quire::http {

class TextPool;

class Server {
 public:
  Server(config::HttpSettings settings, std::shared_ptr<api::Service> service);
  ~Server();  // stop()
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Listens on host and port (0: any free one) or the Unix socket. The port that was taken, 0 for a Unix socket.
  [[nodiscard]] Result<std::uint16_t> bind();
  // "http://127.0.0.1:8000" or "unix:/path"; empty before bind().
  [[nodiscard]] const std::string& address() const;
  // Starts the io threads (those for requests wait already). Once, after bind().
  void start();

  // Stops accepting, closes idle connections, refuses new generations (503) and waits until open requests have ended. True when all
  // did within `grace`; what is left then gets an error (503, or an error event in a stream) and within another second is cut off.
  bool drain(std::chrono::milliseconds grace);
  // Cuts every connection, joins the threads. Idempotent.
  void stop();

  // Where requests are read; lives as long as this. Jobs of the caller's take their turns with them.
  [[nodiscard]] TextPool& pool();

  [[nodiscard]] int open_connections() const;
  [[nodiscard]] int open_requests() const;  // being read, worked on or answered
  [[nodiscard]] int open_streams() const;   // generations not yet answered in full

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire::http
