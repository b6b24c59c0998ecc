// From a body to a Generation: parsing and checking first, then the texts, piece by piece. Pure; knows no threads.
#pragma once
#include <boost/json/object.hpp>
#include <memory>
#include <string>

#include "api/fields.h"
#include "api/text_work.h"
#include "base/result.h"

namespace quire::api {

struct Call;

// The body as a JSON object; refuses other content types, broken JSON and everything that is not an object.
[[nodiscard]] Result<boost::json::object> read_body(const Call& call);
[[nodiscard]] FieldLimits field_limits(const Model& model, const config::ApiSettings& settings);
// The name to answer with; unknown names are kNotFound.
[[nodiscard]] Result<std::string> served_name(const boost::json::object& request, const config::ApiSettings& settings);

struct GenerationInput {
  boost::json::object request;
  std::string request_id, credential;  // of the call
  std::shared_ptr<const Model> model;
  const config::ApiSettings& settings;  // outlives what comes of this
  std::int64_t now_unix = 0;
};
// A Generation when every prompt is token ids and no list holds words; else the work that leads to one.
[[nodiscard]] Result<Opening> open_completion(GenerationInput input);
[[nodiscard]] Result<Opening> open_chat(GenerationInput input);

}  // namespace quire::api
