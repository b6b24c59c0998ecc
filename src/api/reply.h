// A finished HTTP answer and the one place where errors become OpenAI's error shape. Plain values; knows no sockets.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace quire::api {

struct Reply {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;  // beyond Content-Type and Content-Length
};

[[nodiscard]] Reply json_reply(std::string body);

// HTTP status and error type of an error; see docs/CONTRACTS.md, "Fields".
[[nodiscard]] int http_status(ErrorCode code);
[[nodiscard]] const char* error_type(ErrorCode code);

// {"error":{"message","type","param","code"}}; code is the HTTP status.
[[nodiscard]] std::string error_body(int status, const std::string& type, const std::string& message, const std::string& param);
// With Retry-After where coming back later helps (429, 503).
[[nodiscard]] Reply error_reply(const Error& error);
// Errors that belong to HTTP itself: unknown route, wrong method, broken request. `message` empty: the status' own phrase.
[[nodiscard]] Reply http_error(int status, const std::string& message = {});
[[nodiscard]] const char* status_phrase(int status);

}  // namespace quire::api
