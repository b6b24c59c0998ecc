#include "api/text_work.h"

#include <string>

#include "base/log.h"

namespace quire::api {

std::optional<Answer> TextWork::step() {
  try {
    return next();
  } catch (const std::exception& e) {
    return exception_reply(e);
  }
}

Reply exception_reply(const std::exception& failure) {
  QUIRE_LOG_ERROR("a request failed inside the server: {}", failure.what());
  return error_reply(Error{ErrorCode::kInternal, std::string("internal error: ") + failure.what(), {}});
}

}  // namespace quire::api
