#include "quantize/json_text.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

namespace quire::quantize {
namespace {

namespace json = boost::json;

void write(std::string& out, const json::value& value, std::size_t level) {
  const std::string line = "\n" + std::string(2 * (level + 1), ' '), last = "\n" + std::string(2 * level, ' ');
  const char* separator = "";
  if (const json::object* object = value.if_object(); object != nullptr && !object->empty()) {
    out += '{';
    for (const auto& entry : *object) {
      out += separator + line + json::serialize(json::value(entry.key())) + ": ";
      write(out, entry.value(), level + 1);
      separator = ",";
    }
    out += last + "}";
  } else if (const json::array* array = value.if_array(); array != nullptr && !array->empty()) {
    out += '[';
    for (const json::value& element : *array) {
      out += separator + line;
      write(out, element, level + 1);
      separator = ",";
    }
    out += last + "]";
  } else {
    out += json::serialize(value);
  }
}

}  // namespace

std::string pretty_json(const json::value& value) {
  std::string out;
  write(out, value, 0);
  return out + "\n";
}

}  // namespace quire::quantize
