// Opening the listening socket: host and port, or a Unix socket path. Knows no requests.
#pragma once
#include <cstdint>
#include <string>

#include "base/result.h"
#include "config/resolved.h"

namespace quire::http {

struct Listener {
  int fd = -1;                 // listening, non-blocking; owned by whoever takes it
  std::uint16_t port = 0;
  std::string address;
  std::string socket_path;     // to remove at the end
};

// What `error` (an errno) of a new socket means. Out of descriptors: the limit and how to raise it, because no flag of ours sets it.
[[nodiscard]] std::string socket_reason(int error);

// Errors name the flag, the address and the system's reason; out of descriptors, no flag.
[[nodiscard]] Result<Listener> open_listener(const config::HttpSettings& settings);

}  // namespace quire::http
