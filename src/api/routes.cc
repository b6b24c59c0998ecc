#include "api/routes.h"

#include <array>

namespace quire::api {
namespace {

using enum Action;

constexpr std::array kRoutes = {
    Route{"/", kGet, kPage, true},
    Route{"/quire/page.css", kGet, kPage, true},
    Route{"/quire/page.js", kGet, kPage, true},
    Route{"/health", kGet, kHealth, true},
    Route{"/ready", kGet, kReady, true},
    Route{"/ping", kGet | kPost, kHealth, true},
    Route{"/version", kGet, kVersion},
    Route{"/load", kGet, kLoad},
    Route{"/metrics", kGet, kMetrics},
    Route{"/v1/models", kGet, kModels},
    Route{"/quire/scales", kGet, kKvScales},
    Route{"/quire/serving", kGet, kServing},
    Route{"/v1/completions", kPost, kCompletions},
    Route{"/v1/chat/completions", kPost, kChat},
    Route{"/tokenize", kPost, kTokenize},
    Route{"/detokenize", kPost, kDetokenize},
    Route{"/tokenizer_info", kGet, kTokenizerInfo},
    Route{"/v1/responses", kPost, kOtherTask},
    Route{"/v1/embeddings", kPost, kOtherTask},
    Route{"/v1/audio/transcriptions", kPost, kOtherTask},
    Route{"/v1/audio/translations", kPost, kOtherTask},
    Route{"/pooling", kPost, kOtherTask},
    Route{"/classify", kPost, kOtherTask},
    Route{"/score", kPost, kOtherTask},
    Route{"/v1/score", kPost, kOtherTask},
    Route{"/rerank", kPost, kOtherTask},
    Route{"/v1/rerank", kPost, kOtherTask},
    Route{"/v2/rerank", kPost, kOtherTask},
};

unsigned method_bit(std::string_view method) { return method == "GET" ? kGet : method == "POST" ? kPost : 0u; }

}  // namespace

std::span<const Route> routes() { return kRoutes; }

RouteMatch find_route(std::string_view method, std::string_view path) {
  if (path == "/metrics/") path.remove_suffix(1);
  for (const Route& route : kRoutes)
    if (route.path == path) return {&route, (route.methods & method_bit(method)) != 0};
  return {};
}

std::string allowed_methods(const Route& route) {
  std::string out;
  if ((route.methods & kGet) != 0) out += "GET";
  if ((route.methods & kPost) != 0) out += out.empty() ? "POST" : ", POST";
  return out;
}

}  // namespace quire::api
