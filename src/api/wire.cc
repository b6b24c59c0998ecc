#include "api/wire.h"

#include "api/generation.h"
#include "api/json_out.h"

namespace quire::api {

void append_event(std::string& events, const std::string& json) {
  events += "data: ";
  events += json;
  events += "\n\n";
}

void write_finish(JsonOut& out, const Choice* ended) {
  if (ended == nullptr) {
    out.null_field("finish_reason");
    out.null_field("stop_reason");
    return;
  }
  out.field("finish_reason", ended->finish_reason());
  if (const auto* text = std::get_if<std::string>(&ended->stop_reason())) out.field("stop_reason", *text);
  else if (const auto* token = std::get_if<TokenId>(&ended->stop_reason())) out.field("stop_reason", *token);
  else out.null_field("stop_reason");
}

void write_token_ids(JsonOut& out, const char* field, const std::vector<TokenId>* ids) {
  out.key(field);
  if (ids == nullptr) {
    out.null();
    return;
  }
  out.begin_array();
  for (const TokenId id : *ids) out.value(id);
  out.end_array();
}

void write_head(JsonOut& out, const GenerationView& generation, const char* object) {
  out.field("id", generation.spec().id);
  out.field("object", object);
  out.field("created", generation.spec().created);
  out.field("model", generation.spec().model_name);
}

}  // namespace quire::api
