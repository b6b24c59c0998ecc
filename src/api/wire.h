// How one endpoint's answers look on the wire, whole and in pieces. One Wire per Generation; keeps what chunks must remember
// (text offsets, whether a choice has begun). Pure.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "api/choice.h"

namespace quire::api {

class GenerationView;
class JsonOut;

class Wire {
 public:
  virtual ~Wire() = default;
  // The whole answer; `deltas[i]` is everything of choice i.
  [[nodiscard]] virtual std::string body(const GenerationView& generation, const std::vector<Delta>& deltas) = 0;
  // Events of choice `index` for what is new; kLast when the choice has ended with it.
  enum class Part : unsigned char { kMore, kLast };
  virtual void chunk(std::string& events, const GenerationView& generation, std::size_t index, const Delta& delta, Part part) = 0;
  // The event after all choices when usage was asked for.
  virtual void usage_chunk(std::string& events, const GenerationView& generation) = 0;
};

[[nodiscard]] std::unique_ptr<Wire> make_completion_wire(std::size_t num_choices);
[[nodiscard]] std::unique_ptr<Wire> make_chat_wire(std::size_t num_choices);

// "data: <json>\n\n"
void append_event(std::string& events, const std::string& json);
// Pieces that both forms share.
void write_finish(JsonOut& out, const Choice* ended);  // finish_reason and stop_reason fields; null: it goes on
void write_token_ids(JsonOut& out, const char* field, const std::vector<TokenId>* ids);
void write_head(JsonOut& out, const GenerationView& generation, const char* object);

}  // namespace quire::api
