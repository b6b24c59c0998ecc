#include "folder.h"

#include <boost/json/array.hpp>
#include <filesystem>

#include "base/check.h"
#include "base/files.h"
#include "base/json.h"

namespace quire::quantize::test {
namespace {

std::vector<float> floats(const boost::json::value& list) {
  std::vector<float> out;
  for (const auto& x : list.as_array()) out.push_back(static_cast<float>(x.to_number<double>()));
  return out;
}

}  // namespace

std::map<std::string, std::string> files_in(const std::string& dir) {
  std::map<std::string, std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(dir))
    if (entry.is_regular_file()) out[entry.path().filename().string()] = read_file(entry.path().string(), std::size_t{64} << 20).value();
  return out;
}

void copy_folder(const std::string& from, const std::string& to) { std::filesystem::copy(from, to, std::filesystem::copy_options::recursive); }

const boost::json::value& expected() {
  static const boost::json::value kExpected = parse_json_file(kGoldens + "/expected.json").value();
  return kExpected;
}

calibration::Ranges expected_ranges() {
  calibration::Ranges out;
  for (const auto& layer : expected().at("ranges").as_array()) {
    const auto number = [&](const char* name) { return static_cast<float>(layer.at(name).to_number<double>()); };
    out.layers.push_back({.queries = floats(layer.at("queries")),
                          .keys = floats(layer.at("keys")),
                          .values = floats(layer.at("values")),
                          .qkv_input = number("qkv_input"),
                          .o_input = number("o_input"),
                          .gate_up_input = number("gate_up_input"),
                          .down_input = number("down_input")});
  }
  out.num_tokens = std::ssize(expected().at("calibration_ids").as_array());
  out.num_windows = 1;
  return out;
}

model::ModelSpec golden_spec() { return model::read_model_spec(kGoldens + "/source").value(); }

}  // namespace quire::quantize::test
