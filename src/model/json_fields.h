// Reading JSON files that a checkpoint ships: objects, typed values, and what is wrong with them. Internal to model/; knows no
// field names.
#pragma once
#include <boost/json/fwd.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace quire::model {

// Parses `text` as one JSON object without duplicate keys. `what` (a file name) starts every error (kCorrupt).
[[nodiscard]] Result<boost::json::value> parse_object(std::string_view text, const std::string& what, const JsonLimits& limits);
// The same from a file; a missing file is kNotFound.
[[nodiscard]] Result<boost::json::value> read_object(const std::string& path, const JsonLimits& limits);

// Numbers without loss: nullopt for another kind, a fraction, or out of range. 3.0 is an integer.
[[nodiscard]] std::optional<std::int64_t> exact_integer(const boost::json::value& value);
// Any JSON number, as a finite double.
[[nodiscard]] std::optional<double> finite_number(const boost::json::value& value);

// The value as JSON text, cut to about 80 characters.
[[nodiscard]] std::string shown(const boost::json::value& value);

// What is wrong with a file, collected so that a user sees everything at once.
class Findings {
 public:
  // The file contradicts itself or leaves its allowed range.
  void wrong(std::string text) { texts_.push_back(std::move(text)); }
  // Understood, but not implemented here.
  void unsupported(std::string text) {
    any_unsupported_ = true;
    texts_.push_back(std::move(text));
  }
  [[nodiscard]] bool empty() const { return texts_.empty(); }
  [[nodiscard]] const std::vector<std::string>& texts() const { return texts_; }
  // OK when empty; else one error naming `file` and at most 20 findings.
  [[nodiscard]] Status status(const std::string& file) const;

 private:
  std::vector<std::string> texts_;
  bool any_unsupported_ = false;
};

}  // namespace quire::model
