// What the code under test logs, from here to take(). One at a time: the process has one logger.
#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "base/log.h"

namespace quire::test {

class LogCapture {
 public:
  explicit LogCapture(const std::string& level = "info") : before_(spdlog::default_logger()) {
    ::testing::internal::CaptureStderr();
    EXPECT_TRUE(init_logging(level).ok());
  }
  ~LogCapture() { (void)take(); }
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;

  // The lines so far; nothing is captured any more. "" the second time.
  std::string take() {
    if (before_ == nullptr) return "";
    spdlog::set_default_logger(std::exchange(before_, nullptr));
    return ::testing::internal::GetCapturedStderr();
  }

 private:
  std::shared_ptr<spdlog::logger> before_;
};

}  // namespace quire::test
