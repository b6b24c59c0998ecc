#include "golden/golden_files.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <memory>

#include "base/json.h"
#include "model/checkpoint.h"
#include "reference/rounding.h"

namespace quire::golden {
namespace {

namespace bj = boost::json;

bj::value parse(const std::string& path) {
  auto parsed = parse_json_file(path);
  QUIRE_CHECK(parsed.ok()) << parsed.error().to_string();
  return std::move(parsed).value();
}

std::vector<TokenId> tokens_of(const bj::value& v) {
  std::vector<TokenId> out;
  for (const auto& token : v.as_array()) out.push_back(token.to_number<TokenId>());
  return out;
}

std::vector<double> numbers_of(const bj::value& v) {
  std::vector<double> out;
  for (const auto& number : v.as_array()) out.push_back(number.to_number<double>());
  return out;
}

std::vector<ScoredPrompt> scored_of(const bj::value& v) {
  std::vector<ScoredPrompt> out;
  for (const auto& entry : v.as_array()) {
    ScoredPrompt& prompt = out.emplace_back();
    prompt.ids = tokens_of(entry.at("ids"));
    prompt.next = numbers_of(entry.at("next"));
    QUIRE_CHECK_EQ(prompt.next.size() + 1, prompt.ids.size());
    for (const auto& [position, scores] : entry.at("top").as_object()) {
      auto& top = prompt.top[std::stoll(std::string(position))];
      for (const auto& pair : scores.as_array()) top.push_back({pair.at(0).to_number<TokenId>(), pair.at(1).to_number<double>()});
    }
  }
  QUIRE_CHECK(!out.empty());
  return out;
}

}  // namespace

std::vector<ScoredPrompt> read_scored(const std::string& path, const std::string& dtype) { return scored_of(parse(path).at(dtype).at("scored")); }

std::vector<Continuation> read_continuations(const std::string& path, const std::string& dtype) {
  const bj::value document = parse(path);
  std::vector<Continuation> out;
  for (const auto& prompt : document.at("greedy_prompts").as_array()) out.push_back({tokens_of(prompt), {}, {}});
  const auto& greedy = document.at(dtype).at("greedy").as_array();
  QUIRE_CHECK_EQ(greedy.size(), out.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i].tokens = tokens_of(greedy[i].at("tokens"));
    out[i].gaps = numbers_of(greedy[i].at("gaps"));
    QUIRE_CHECK_EQ(out[i].tokens.size(), out[i].gaps.size());
  }
  return out;
}

SmallModelGolden read_small_model(const std::string& path) {
  const bj::value document = parse(path);
  return {document.at("max_model_len").to_number<std::int64_t>(), scored_of(document.at("scored"))};
}

LoadedModel load_reference(const std::string& model_dir, const reference::LlamaOptions& options, const std::function<void(model::ModelSpec&)>& change) {
  auto spec = model::read_model_spec(model_dir);
  QUIRE_CHECK(spec.ok()) << spec.error().to_string();
  auto source = model::open_checkpoint_weights(model_dir, spec.value(), {});
  QUIRE_CHECK(source.ok()) << source.error().to_string();
  if (change) change(spec.value());
  std::map<std::string, model::ParameterSpec> parameters;
  for (auto& p : model::parameters_of(spec.value())) parameters.emplace(p.name, p);
  const auto load = [&](const std::string& name) {
    const model::ParameterSpec& parameter = parameters.at(name);
    const auto raw = source.value()->read(parameter);
    QUIRE_CHECK(raw.ok()) << raw.error().to_string();
    const auto [dtype, bytes] = raw.value();
    const std::size_t width = dtype_bytes(dtype);
    std::vector<double> values;
    for (std::size_t i = 0; i < bytes.size(); i += width) {
      std::uint32_t bits = 0;
      for (std::size_t b = width; b-- > 0;) bits = bits << 8 | std::to_integer<std::uint32_t>(bytes[i + b]);
      values.push_back(reference::decode(dtype, bits));
    }
    const bool is_vector = parameter.shape.size() == 1;
    return reference::Matrix(is_vector ? 1 : parameter.shape[0], parameter.shape.back(), std::move(values));
  };
  return {spec.value(), reference::LlamaReference(spec.value(), load, options)};
}

}  // namespace quire::golden
