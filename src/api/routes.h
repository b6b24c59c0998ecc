// The table of routes: path, methods, what answers it, and whether a key is needed. Pure.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace quire::api {

enum class Action : std::uint8_t { kHealth, kReady, kVersion, kLoad, kMetrics, kModels, kKvScales, kServing, kPage, kCompletions, kChat, kTokenize, kDetokenize, kTokenizerInfo, kOtherTask };
enum Method : unsigned { kGet = 1, kPost = 2 };

struct Route {
  std::string_view path;
  unsigned methods = 0;  // Method bits
  Action action = Action::kHealth;
  bool open = false;     // answers without a key
  // A body is read and worked on: on the pool for requests, never on an io thread.
  [[nodiscard]] bool slow() const { return (methods & kPost) != 0 && action != Action::kHealth; }
};

[[nodiscard]] std::span<const Route> routes();

struct RouteMatch {
  const Route* route = nullptr;   // null: no such path
  bool method_allowed = false;
};
// `path` without query. A final slash is ignored for /metrics alone.
[[nodiscard]] RouteMatch find_route(std::string_view method, std::string_view path);
// "GET, POST", for the Allow header.
[[nodiscard]] std::string allowed_methods(const Route& route);

}  // namespace quire::api
