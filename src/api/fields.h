// The table of request fields: for every field of every endpoint its type, its range, and what becomes of it. One pass over
// a request checks all of it, so that nothing behind this room ever sees an unchecked value. Pure; knows no threads.
#pragma once
#include <boost/json/object.hpp>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "text/tokenizer.h"

namespace quire::api {

enum Endpoint : unsigned { kCompletions = 1, kChat = 2, kTokenize = 4, kDetokenize = 8 };

enum class FieldType : std::uint8_t { kBool, kInteger, kNumber, kString, kStrings, kIntegers, kObject, kArray, kAny };

enum class Fate : std::uint8_t {
  kUsed,      // honoured
  kNoEffect,  // accepted; changes nothing in an answer of this server
  kNotBuilt,  // refused, with `text` as the reason, unless the value asks for nothing
};

// The one value, beside null, of a field that is not built which asks for nothing. An empty object is such a value only where no
// empty object means something: {} is a whole JSON schema.
enum class Nothing : std::uint8_t { kNullAlone, kFalse, kZero, kEmptyList, kEmptyObject, kNoneWord };

// Limits that are known only when the model is.
enum class Cap : std::uint8_t { kNone, kMaxN, kMaxLogprobs, kMaxStops };

struct FieldRule {
  std::string_view name;
  unsigned endpoints = 0;  // Endpoint bits
  FieldType type = FieldType::kAny;
  Fate fate = Fate::kUsed;
  std::string_view text{};  // allowed values in words, or why it is refused
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_open = false;    // low itself is not allowed
  Cap cap = Cap::kNone;     // upper limit instead of `high` (kMaxStops: of the list's length)
  Nothing nothing = Nothing::kNullAlone;  // kNotBuilt alone
};

struct FieldLimits {
  std::int32_t max_n = 0;
  std::int32_t max_logprobs = 0;  // -1: the vocabulary
  std::int32_t max_stops = 0;
  std::int32_t vocab_size = 0;
};

inline constexpr std::size_t kMaxStopBytes = 1024;   // one stop string
inline constexpr std::size_t kMaxBadWords = 1024;
inline constexpr std::size_t kMaxBadWordBytes = 1024;
inline constexpr std::size_t kMaxTokenList = 65536;  // stop_token_ids, allowed_token_ids, logit_bias

[[nodiscard]] std::span<const FieldRule> field_rules();

// Checks every field of `request` that `endpoint` knows. Errors name the field, its value and what is allowed; an unknown
// field is logged at debug level and ignored, as vLLM does.
[[nodiscard]] Status check_fields(const boost::json::object& request, Endpoint endpoint, const FieldLimits& limits);

// Readers for checked requests: null counts as absent.
[[nodiscard]] const boost::json::value* find_field(const boost::json::object& request, std::string_view name);
[[nodiscard]] std::optional<bool> read_bool(const boost::json::object& request, std::string_view name);
[[nodiscard]] std::optional<std::int64_t> read_integer(const boost::json::object& request, std::string_view name);
[[nodiscard]] std::optional<double> read_number(const boost::json::object& request, std::string_view name);
[[nodiscard]] std::optional<std::string> read_string(const boost::json::object& request, std::string_view name);
// A string or a list of strings.
[[nodiscard]] std::vector<std::string> read_strings(const boost::json::object& request, std::string_view name);

// Where in a request a value stands, for messages: "stop", "stop[1]", "prompt[2][5]".
struct Place {
  std::string_view field;
  std::optional<std::size_t> index{}, inner{};
  [[nodiscard]] std::string text() const;
};
// A token id below `vocab_size`. Errors name the place, the value and the range.
[[nodiscard]] Result<TokenId> read_token_id(const boost::json::value& value, const Place& place, std::int32_t vocab_size);

// The field add_special_tokens; `absent` where it is not given.
[[nodiscard]] text::AddSpecialTokens read_add_special_tokens(const boost::json::object& request, text::AddSpecialTokens absent);

// An integer in any JSON spelling (3, 3.0); nullopt for everything else, outside int64, and above 2^53 with a fraction or exponent.
[[nodiscard]] std::optional<std::int64_t> as_integer(const boost::json::value& value);
// Any finite number.
[[nodiscard]] std::optional<double> as_number(const boost::json::value& value);
// `value` as JSON text, cut to a length that fits an error message.
[[nodiscard]] std::string shown(const boost::json::value& value);

}  // namespace quire::api
