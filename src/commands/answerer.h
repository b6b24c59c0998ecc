// Who answers in `quire chat`: a model in this process, or a server of the OpenAI API.
#pragma once
#include <boost/json/object.hpp>
#include <memory>
#include <string>

#include "base/result.h"
#include "commands/conversation.h"
#include "commands/follow.h"
#include "commands/startup.h"
#include "http/client.h"

namespace quire::commands {

class Answerer {
 public:
  virtual ~Answerer() = default;
  [[nodiscard]] virtual const std::string& model() const = 0;
  // `request` holds "messages" and sampling fields of /v1/chat/completions. Stopped: the answer so far, finish reason "stopped". An error
  // is this question's alone: the next one can be asked.
  [[nodiscard]] virtual Result<ChatAnswer> answer(const boost::json::object& request, const Following& how) = 0;
};

// `prepared` and `loaded` outlive it. The model has a chat template.
[[nodiscard]] std::unique_ptr<Answerer> make_local_answerer(const Prepared& prepared, const LoadedModel& loaded);

// `model` "": the server's first.
[[nodiscard]] Result<std::unique_ptr<Answerer>> make_remote_answerer(const http::Target& target, const std::string& api_key, const std::string& model, const http::ClientLimits& limits);

}  // namespace quire::commands
