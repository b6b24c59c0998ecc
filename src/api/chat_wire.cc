// /v1/chat/completions: "chat.completion" whole, "chat.completion.chunk" in pieces. Chunks leave unset fields out.
#include "api/generation.h"
#include "api/json_out.h"
#include "api/logprobs.h"
#include "api/wire.h"

namespace quire::api {
namespace {

class ChatWire final : public Wire {
 public:
  explicit ChatWire(std::size_t num_choices) : begun_(num_choices, false) {}

  std::string body(const GenerationView& generation, const std::vector<Delta>& deltas) override {
    JsonOut out;
    out.begin_object();
    write_head(out, generation, "chat.completion");
    out.key("choices");
    out.begin_array();
    for (std::size_t i = 0; i < deltas.size(); ++i) write_choice(out, generation, i, deltas[i]);
    out.end_array();
    out.null_field("service_tier");
    out.null_field("system_fingerprint");
    out.key("usage");
    generation.write_usage(out);
    const SamplingRequest& sampling = generation.spec().sampling;
    out.key("prompt_logprobs");
    if (sampling.show_prompt_logprobs)
      write_prompt_logprobs(out, generation.choice(0).prompt_logprobs(), *sampling.params.prompt_logprobs, TokenText(*generation.spec().model->tokenizer, TokenSpelling::kText));
    else out.null();
    write_token_ids(out, "prompt_token_ids", sampling.return_token_ids ? &generation.prompt_of(0).tokens : nullptr);
    out.null_field("kv_transfer_params");
    out.end_object();
    return out.take();
  }

  void chunk(std::string& events, const GenerationView& generation, std::size_t index, const Delta& delta, Part part) override {
    if (!begun_[index]) {
      begun_[index] = true;
      write_opening(events, generation, index);
    }
    const GenerationSpec& spec = generation.spec();
    JsonOut out = begin_chunk(generation);
    out.begin_object();
    out.field("index", index);
    out.key("delta");
    out.begin_object();
    if (!delta.text.empty() || part == Part::kLast) out.field("content", delta.text);
    out.end_object();
    write_logprobs(out, spec, delta);
    if (part == Part::kLast) write_finish(out, &generation.choice(index));
    else out.null_field("finish_reason");
    if (spec.sampling.return_token_ids) write_token_ids(out, "token_ids", &delta.tokens);
    out.end_object();
    end_chunk(events, out, generation);
  }

  void usage_chunk(std::string& events, const GenerationView& generation) override {
    JsonOut out = begin_chunk(generation);
    out.end_array();
    out.key("usage");
    generation.write_usage(out);
    out.end_object();
    append_event(events, out.text());
  }

 private:
  static JsonOut begin_chunk(const GenerationView& generation) {
    JsonOut out;
    out.begin_object();
    write_head(out, generation, "chat.completion.chunk");
    out.key("choices");
    out.begin_array();
    return out;
  }
  static void end_chunk(std::string& events, JsonOut& out, const GenerationView& generation) {
    out.end_array();
    if (generation.spec().continuous_usage) {
      out.key("usage");
      generation.write_usage(out);
    }
    out.end_object();
    append_event(events, out.text());
  }

  // The role comes first and alone; with echo the last message's text follows it.
  static void write_opening(std::string& events, const GenerationView& generation, std::size_t index) {
    const GenerationSpec& spec = generation.spec();
    write_opening_delta(events, generation, index, Role::kShow, "");
    if (spec.echo && !spec.prompts.front().text.empty()) write_opening_delta(events, generation, index, Role::kLeaveOut, spec.prompts.front().text);
  }
  enum class Role : unsigned char { kLeaveOut, kShow };
  static void write_opening_delta(std::string& events, const GenerationView& generation, std::size_t index, Role role, const std::string& content) {
    const GenerationSpec& spec = generation.spec();
    JsonOut out = begin_chunk(generation);
    out.begin_object();
    out.field("index", index);
    out.key("delta");
    out.begin_object();
    if (role == Role::kShow) out.field("role", spec.role);
    out.field("content", content);
    out.end_object();
    out.null_field("logprobs");
    out.null_field("finish_reason");
    out.end_object();
    if (role == Role::kShow && spec.sampling.return_token_ids) {
      out.end_array();
      write_token_ids(out, "prompt_token_ids", &spec.prompts.front().tokens);
      out.end_object();
      append_event(events, out.text());
      return;
    }
    end_chunk(events, out, generation);
  }

  static void write_logprobs(JsonOut& out, const GenerationSpec& spec, const Delta& delta) {
    out.key("logprobs");
    if (!spec.sampling.params.logprobs) out.null();
    else write_chat_logprobs(out, delta.logprobs, *spec.sampling.params.logprobs, TokenText(*spec.model->tokenizer, spec.sampling.spelling));
  }

  static void write_choice(JsonOut& out, const GenerationView& generation, std::size_t index, const Delta& delta) {
    const GenerationSpec& spec = generation.spec();
    out.begin_object();
    out.field("index", index);
    out.key("message");
    out.begin_object();
    out.field("role", spec.role);
    out.field("content", spec.echo ? spec.prompts.front().text + delta.text : delta.text);
    for (const char* absent : {"refusal", "annotations", "audio", "function_call"}) out.null_field(absent);
    out.key("tool_calls");
    out.begin_array();
    out.end_array();
    out.null_field("reasoning_content");
    out.end_object();
    write_logprobs(out, spec, delta);
    write_finish(out, &generation.choice(index));
    write_token_ids(out, "token_ids", spec.sampling.return_token_ids ? &delta.tokens : nullptr);
    out.end_object();
  }

  std::vector<bool> begun_;
};

}  // namespace

std::unique_ptr<Wire> make_chat_wire(std::size_t num_choices) { return std::make_unique<ChatWire>(num_choices); }

}  // namespace quire::api
