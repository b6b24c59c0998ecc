// The slow part of a request: its texts, one at a time, so that whoever runs it can take turns between requests and stop between two
// texts. Lives on one thread at a time; knows no threads itself.
#pragma once
#include <exception>
#include <memory>
#include <optional>
#include <variant>

#include "api/generation.h"
#include "api/reply.h"

namespace quire::api {

// For a Generation the caller submits, waits and writes.
using Answer = std::variant<Reply, std::unique_ptr<Generation>>;

class TextWork {
 public:
  virtual ~TextWork() = default;
  // One piece: a prompt, a chat, a request's bad words. The answer, when it was the last. Never throws.
  [[nodiscard]] std::optional<Answer> step();

 private:
  [[nodiscard]] virtual std::optional<Answer> next() = 0;
};

// What a request came to without reading any text: its answer, or the text that is left to read.
using Opening = std::variant<Reply, std::unique_ptr<Generation>, std::unique_ptr<TextWork>>;

// What the JSON library and allocation throw becomes an answer; nothing may reach a thread of the server.
[[nodiscard]] Reply exception_reply(const std::exception& failure);

}  // namespace quire::api
