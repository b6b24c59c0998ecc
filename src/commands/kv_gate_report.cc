#include "commands/kv_gate_report.h"

#include <boost/json/array.hpp>

#include "base/text.h"
#include "commands/json_number.h"

namespace quire::commands {
namespace {

std::string cell(const std::string& text) { return left_aligned(text + " ", 11); }

std::string number(double x) { return formatted("%.2e", x); }

boost::json::object part_json(const selfcheck::KvLoss& l) { return {{"saturated", json_number(l.saturated)}, {"flushed", json_number(l.flushed)}, {"error", json_number(l.error)}, {"largest", json_number(l.largest)}}; }

}  // namespace

std::string kv_gate_text(const selfcheck::KvGate& gate) {
  if (gate.layers.empty()) return {};
  const auto part = [](const selfcheck::KvLoss& l) { return cell(number(l.saturated)) + cell(number(l.flushed)) + cell(number(l.error)) + cell(number(l.largest)); };
  std::string out = "FP8 KV cache against a 16-bit one over " + std::to_string(gate.num_tokens) + " tokens (relative errors, fractions of the numbers)\n";
  for (const char* title : {"layer", "attention", "K clipped", "K to zero", "K error", "K largest", "V clipped", "V to zero", "V error", "V largest"}) out += cell(title);
  out += "\n";
  for (std::size_t i = 0; i < gate.layers.size(); ++i) {
    const selfcheck::KvGateLayer& l = gate.layers[i];
    out += cell(std::to_string(i)) + cell(number(l.attention_error)) + part(l.keys) + part(l.values) + "\n";
  }
  return out + "limits: attention error " + number(gate.limits.attention_error) + ", clipped " + number(gate.limits.saturated) + ": " + (gate.passed() ? "passed" : "FAILED, " + gate.failure()) + "\n";
}

boost::json::object kv_gate_json(const selfcheck::KvGate& gate) {
  boost::json::array layers;
  for (const selfcheck::KvGateLayer& l : gate.layers) layers.push_back(boost::json::object{{"attention_error", json_number(l.attention_error)}, {"keys", part_json(l.keys)}, {"values", part_json(l.values)}});
  return {{"passed", gate.passed()},
          {"failure", gate.failure()},
          {"tokens", gate.num_tokens},
          {"limits", {{"attention_error", gate.limits.attention_error}, {"saturated", gate.limits.saturated}}},
          {"layers", std::move(layers)}};
}

}  // namespace quire::commands
