// From a body to a Generation: parsing, checking, tokenising. Pure and slow; runs on the tokenising pool.
#pragma once
#include <boost/json/object.hpp>
#include <memory>
#include <string>

#include "api/fields.h"
#include "api/generation.h"
#include "base/result.h"

namespace quire::api {

struct Call;

// The body as a JSON object; refuses other content types, broken JSON and everything that is not an object.
[[nodiscard]] Result<boost::json::object> read_body(const Call& call);
[[nodiscard]] FieldLimits field_limits(const Model& model, const config::ApiSettings& settings);
// The name to answer with; unknown names are kNotFound.
[[nodiscard]] Result<std::string> served_name(const boost::json::object& request, const config::ApiSettings& settings);

struct GenerationInput {
  const boost::json::object& request;
  const Call& call;
  const std::shared_ptr<const Model>& model;
  const config::ApiSettings& settings;
  std::int64_t now_unix = 0;
};
[[nodiscard]] Result<std::unique_ptr<Generation>> make_completion(const GenerationInput& input);
[[nodiscard]] Result<std::unique_ptr<Generation>> make_chat(const GenerationInput& input);

}  // namespace quire::api
