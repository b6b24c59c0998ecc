// A client that sends the bytes it is told to and reads answers with a time limit; nothing about it is polite.
#pragma once
#include <map>
#include <string>
#include <string_view>

#include "kit/slowdown.h"

namespace quire::http::test {

struct Answer {
  int status = 0;                             // 0: the connection ended before a whole head
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                           // chunks joined
  bool complete = false;
};

class RawClient {
 public:
  explicit RawClient(int port);               // 127.0.0.1
  explicit RawClient(const std::string& unix_path);
  ~RawClient();
  RawClient(RawClient&& other) noexcept;
  RawClient& operator=(RawClient&&) = delete;
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  // False when the server has closed.
  bool send(std::string_view bytes);
  // One whole answer, or what came within `timeout_ms`.
  [[nodiscard]] Answer read_answer(int timeout_ms = 10000 * quire::test::kSlowdown);
  // Reads until `text` was seen in the raw bytes; false when the time is over or the connection ends.
  [[nodiscard]] bool read_until(std::string_view text, int timeout_ms = 10000 * quire::test::kSlowdown);
  // True when the server closes within the time.
  [[nodiscard]] bool closed_within(int timeout_ms);
  void shrink_receive_buffer();
  void close();
  [[nodiscard]] const std::string& raw() const { return raw_; }

 private:
  bool read_some(int timeout_ms);
  int fd_ = -1;
  bool ended_ = false;
  std::string raw_;  // received, not yet returned as an answer
};

[[nodiscard]] std::string get(std::string_view path, std::string_view extra_headers = "");
[[nodiscard]] std::string post(std::string_view path, std::string_view body, std::string_view extra_headers = "");

}  // namespace quire::http::test
