#include "http/sse_reader.h"

#include <utility>

namespace quire::http {

Status SseReader::feed(std::string_view bytes, std::vector<std::string>& events) {
  while (!bytes.empty()) {
    if (after_cr_ && bytes.front() == '\n') bytes.remove_prefix(1);  // the second half of a line end that was split
    after_cr_ = false;
    const std::size_t end = bytes.find_first_of("\r\n");
    line_ += bytes.substr(0, end);
    if (line_.size() + data_.size() > max_event_bytes_) return Error{ErrorCode::kTooLarge, "a server-sent event has more than " + std::to_string(max_event_bytes_) + " bytes", {}};
    if (end == std::string_view::npos) return {};
    after_cr_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    end_line(events);
  }
  return {};
}

void SseReader::end_line(std::vector<std::string>& events) {
  const std::string line = std::exchange(line_, {});
  if (line.empty()) {
    if (std::exchange(has_data_, false)) events.push_back(std::exchange(data_, {}));
    return;
  }
  const std::size_t colon = line.find(':');
  if (std::string_view(line).substr(0, colon) != "data") return;
  std::string_view value = colon == std::string::npos ? std::string_view() : std::string_view(line).substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (has_data_) data_ += '\n';
  data_ += value;
  has_data_ = true;
}

}  // namespace quire::http
