// Where a server of the OpenAI API is, from the URL that a user gives. Pure.
#pragma once
#include <string>
#include <string_view>

#include "base/result.h"

namespace quire::http {

struct Target {
  std::string host;       // a name or an address, without brackets
  std::string port;       // decimal, 1 to 65535
  std::string base_path;  // before "/v1/...": "" or "/gateway", no slash at its end

  // What a request's Host field holds.
  [[nodiscard]] std::string authority() const;
  [[nodiscard]] std::string url() const;
};

// "http://localhost:8000", with or without the "/v1" that OpenAI's own clients want at the end. `flag` is named by errors: no http URL,
// https (refused: this client speaks plain HTTP only), user names, query or fragment, a port out of range.
[[nodiscard]] Result<Target> parse_base_url(std::string_view url, const std::string& flag);

}  // namespace quire::http
