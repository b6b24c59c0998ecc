// A request of the API as this process's own engine takes it, read by the API's rules. Shared by the commands that answer here.
#pragma once
#include <boost/json/object.hpp>
#include <vector>

#include "api/model.h"
#include "api/sampling.h"
#include "base/ids.h"
#include "base/result.h"
#include "config/resolved.h"

namespace quire::commands {

struct LocalRequest {
  std::vector<TokenId> prompt;
  api::SamplingRequest sampling;  // its max_tokens is settled by api::fit_max_tokens
};

// `fields` of /v1/chat/completions where they hold "messages", else of /v1/completions with one prompt. With messages the model has a chat
// template. Errors as the API has them.
[[nodiscard]] Result<LocalRequest> read_request(const boost::json::object& fields, const api::Model& model, const config::ApiSettings& settings);

}  // namespace quire::commands
