#include "http/listen.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

namespace quire::http {
namespace {

constexpr int kBacklog = 1024;

class OwnedFd {
 public:
  explicit OwnedFd(int fd) : fd_(fd) {}
  ~OwnedFd() { if (fd_ >= 0) ::close(fd_); }
  OwnedFd(const OwnedFd&) = delete;
  OwnedFd& operator=(const OwnedFd&) = delete;
  [[nodiscard]] int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

bool out_of_descriptors(int error) { return error == EMFILE || error == ENFILE; }

// What the system says, and which flag it is about: an address that is not this machine's is the host's fault, all else the port's.
Error refusal() {
  const int error = errno;
  if (out_of_descriptors(error)) return Error{ErrorCode::kResourceExhausted, socket_reason(error), {}};
  const bool address = error == EADDRNOTAVAIL || error == EAFNOSUPPORT;
  const std::string remedy = error == EADDRINUSE ? "; choose another --port, or 0 for any free one" : "";
  return Error{ErrorCode::kIo, socket_reason(error) + remedy, address ? "--host" : "--port"};
}

Result<int> listen_on(const addrinfo& at) {
  OwnedFd fd(::socket(at.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd.get() < 0) return refusal();
  const int on = 1, off = 0;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (at.ai_family == AF_INET6) ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (::bind(fd.get(), at.ai_addr, at.ai_addrlen) != 0 || ::listen(fd.get(), kBacklog) != 0) return refusal();
  return fd.release();
}

std::uint16_t port_of(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return 0;
  if (storage.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port);
  return ntohs(reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
}

Result<Listener> listen_tcp(const config::HttpSettings& settings) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  const std::string port = std::to_string(settings.port);
  const std::string shown_host = settings.host.empty() ? "all interfaces" : settings.host;
  Error last{ErrorCode::kIo, "no address", "--host"};
  // All interfaces: one IPv6 socket takes both families; machines without IPv6 get IPv4 alone.
  const std::vector<std::string> hosts = settings.host.empty() ? std::vector<std::string>{"::", "0.0.0.0"} : std::vector<std::string>{settings.host};
  for (const std::string& host : hosts) {
    addrinfo* found = nullptr;
    if (const int rc = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found); rc != 0) {
      last = Error{ErrorCode::kIo, ::gai_strerror(rc), "--host"};
      continue;
    }
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(found, &::freeaddrinfo);
    for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
      auto fd = listen_on(*at);
      if (!fd.ok()) {
        last = fd.error();
        continue;
      }
      Listener out;
      out.fd = fd.value();
      out.port = port_of(out.fd);
      const std::string name = settings.host.empty() ? "0.0.0.0" : settings.host;
      out.address = "http://" + (name.find(':') == std::string::npos ? name : "[" + name + "]") + ":" + std::to_string(out.port);
      return out;
    }
  }
  const bool by_port = settings.host.empty() && !last.param.empty();
  return Error{last.code, "cannot listen on port " + port + " of " + shown_host + ": " + last.message, by_port ? "--port" : last.param};
}

// A socket file that nobody listens on any more is left over from a killed server.
bool is_stale_socket(const sockaddr_un& at) {
  struct stat status{};
  if (::stat(at.sun_path, &status) != 0 || !S_ISSOCK(status.st_mode)) return false;
  const OwnedFd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0 && errno == ECONNREFUSED;
}

Result<Listener> listen_unix(const std::string& path) {
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  if (path.size() >= sizeof at.sun_path)
    return invalid("the path has " + std::to_string(path.size()) + " bytes; a Unix socket's path has at most " + std::to_string(sizeof at.sun_path - 1), "--uds");
  std::memcpy(at.sun_path, path.c_str(), path.size() + 1);
  if (is_stale_socket(at)) ::unlink(path.c_str());
  OwnedFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd.get() < 0 || ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0 || ::listen(fd.get(), kBacklog) != 0)
  {
    const int error = errno;
    return Error{out_of_descriptors(error) ? ErrorCode::kResourceExhausted : ErrorCode::kIo, "cannot listen on " + path + ": " + socket_reason(error), out_of_descriptors(error) ? "" : "--uds"};
  }
  Listener out;
  out.fd = fd.release();
  out.address = "unix:" + path;
  out.socket_path = path;
  return out;
}

}  // namespace

std::string socket_reason(int error) {
  const std::string text = std::strerror(error);
  if (error == ENFILE) return text + "; the limit is the system's (sysctl fs.file-max)";
  rlimit limit{};
  if (error != EMFILE || ::getrlimit(RLIMIT_NOFILE, &limit) != 0) return text;
  return text + "; this process may have " + std::to_string(limit.rlim_cur) + " (ulimit -n)";
}

Result<Listener> open_listener(const config::HttpSettings& settings) { return settings.uds.empty() ? listen_tcp(settings) : listen_unix(settings.uds); }

}  // namespace quire::http
