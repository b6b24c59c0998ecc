// A memory plan for people and programs.
#include <algorithm>
#include <boost/json/array.hpp>

#include "base/text.h"
#include "commands/memory_plan.h"

namespace quire::commands {
namespace {

struct Columns {
  std::size_t name = 0, bytes = 0, size = 0;
};

std::string row(const Columns& w, const std::string& name, std::size_t bytes, const std::string& why) {
  return left_aligned(name, w.name) + "  " + right_aligned(std::to_string(bytes), w.bytes) + "  " + right_aligned(mebibytes(bytes), w.size) + (why.empty() ? "" : "  " + why) + "\n";
}

}  // namespace

std::string mebibytes(std::size_t bytes) { return formatted("%.1f MiB", static_cast<double>(bytes) / (1 << 20)); }

std::string plan_text(const MemoryPlan& p) {
  Columns w{.name = std::string_view("available").size(), .bytes = std::string_view("bytes").size(), .size = 0};
  const auto widen = [&](const std::string& name, std::size_t bytes) {
    w.name = std::max(w.name, name.size());
    w.bytes = std::max(w.bytes, std::to_string(bytes).size());
    w.size = std::max(w.size, mebibytes(bytes).size());
  };
  for (const MemoryItem& item : p.items) widen(item.name, item.bytes);
  widen("total", p.total_bytes());
  widen("available", static_cast<std::size_t>(p.available_bytes));
  std::string out = "memory plan of " + p.model + " on " + p.device + ", attention " + p.backend + ", graph mode " + p.graph_mode + "\n";
  for (std::size_t i = 0; i < p.items.size(); ++i) out += row(w, p.items[i].name, p.items[i].bytes, p.follows[i]);
  out += row(w, "total", p.total_bytes(), "");
  if (p.available_bytes > 0) out += row(w, "available", static_cast<std::size_t>(p.available_bytes), "free on this machine now");
  out += "longest context: " + std::to_string(p.longest_context) + " tokens for one request (--max-model-len); the KV pool holds " + std::to_string(p.pool_tokens) + "\n";
  out += "largest batch: " + std::to_string(p.largest_batch) + " requests of " + std::to_string(p.max_model_len) + " tokens at once\n";
  return out + (p.fits() ? "fits\n" : "does not fit: " + p.advice + "\n");
}

boost::json::object plan_json(const MemoryPlan& p) {
  boost::json::array items;
  for (std::size_t i = 0; i < p.items.size(); ++i) items.push_back(boost::json::object{{"item", p.items[i].name}, {"bytes", p.items[i].bytes}, {"follows_from", p.follows[i]}});
  boost::json::object out{{"model", p.model}, {"device", p.device}, {"attention_backend", p.backend}, {"graph_mode", p.graph_mode}, {"items", std::move(items)}, {"total_bytes", p.total_bytes()}};
  out["available_bytes"] = p.available_bytes > 0 ? boost::json::value(p.available_bytes) : boost::json::value(nullptr);
  out["fits"] = p.fits();
  out["advice"] = p.fits() ? boost::json::value(nullptr) : boost::json::value(p.advice);
  out["longest_context_tokens"] = p.longest_context;
  out["kv_pool_tokens"] = p.pool_tokens;
  out["largest_batch"] = {{"requests", p.largest_batch}, {"tokens_each", p.max_model_len}};
  return out;
}

}  // namespace quire::commands
