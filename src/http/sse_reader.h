// Server-sent events out of bytes that come in any pieces. Knows no socket and no JSON. Only `data` matters to the OpenAI API: other
// fields and comments are passed over, as the standard says of unknown ones.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire::http {

class SseReader {
 public:
  explicit SseReader(std::size_t max_event_bytes) : max_event_bytes_(max_event_bytes) {}
  // Adds the data of each event that `bytes` complete to `events`, lines joined by '\n'. Error: an event over the limit (kTooLarge); nothing
  // can be fed after it.
  [[nodiscard]] Status feed(std::string_view bytes, std::vector<std::string>& events);

 private:
  void end_line(std::vector<std::string>& events);

  std::size_t max_event_bytes_;
  std::string line_, data_;
  bool has_data_ = false, after_cr_ = false;
};

}  // namespace quire::http
