// Routes that answer from the tokenizer and the settings alone. Pure.
#pragma once
#include <boost/json/object.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "api/model.h"
#include "api/reply.h"
#include "api/text_work.h"
#include "base/result.h"
#include "config/resolved.h"

namespace quire::api {

// Checked; the text is left to read. `settings` outlives what comes of this.
[[nodiscard]] Result<Opening> open_tokenize(boost::json::object request, std::shared_ptr<const Model> model, const config::ApiSettings& settings);
// Ids read and checked: at most kMaxDetokenizedTokens, as one answer is made in one piece.
inline constexpr std::size_t kMaxDetokenizedTokens = 1 << 20;
[[nodiscard]] Result<Opening> open_detokenize(const boost::json::object& request, std::shared_ptr<const Model> model, const config::ApiSettings& settings);
[[nodiscard]] Result<Reply> tokenizer_info(const Model& model, const config::ApiSettings& settings);
[[nodiscard]] Reply list_models(const Model& model, const config::ApiSettings& settings, std::int64_t created);

}  // namespace quire::api
