#include "model/token_ids.h"

#include <algorithm>
#include <boost/json/value.hpp>

namespace quire::model {

std::vector<TokenId> parse_token_ids(const boost::json::object& fields, const std::string& field, std::int64_t limit, Findings& findings) {
  constexpr std::size_t kMostIds = 1024;
  std::vector<TokenId> ids;
  const boost::json::value* value = fields.if_contains(field);
  if (value == nullptr || value->is_null()) return ids;
  const auto add = [&](const boost::json::value& one) {
    const auto id = exact_integer(one);
    if (!id || *id < 0 || *id >= limit) {
      findings.wrong(field + " holds " + shown(one) + ", which is not a token id from 0 to " + std::to_string(limit - 1));
      return;
    }
    const auto token = static_cast<TokenId>(*id);
    if (std::find(ids.begin(), ids.end(), token) == ids.end()) ids.push_back(token);
  };
  if (!value->is_array()) {
    add(*value);
    return ids;
  }
  if (value->get_array().size() > kMostIds) {
    findings.wrong(field + " lists " + std::to_string(value->get_array().size()) + " ids, at most " + std::to_string(kMostIds) + " are allowed");
    return ids;
  }
  for (const boost::json::value& one : value->get_array()) add(one);
  return ids;
}

}  // namespace quire::model
