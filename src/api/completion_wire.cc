// /v1/completions: {"object":"text_completion", "choices":[{"text", ...}]}. Null fields are always written.
#include <span>

#include "api/generation.h"
#include "api/json_out.h"
#include "api/logprobs.h"
#include "api/wire.h"

namespace quire::api {
namespace {

class CompletionWire final : public Wire {
 public:
  explicit CompletionWire(std::size_t num_choices) : places_(num_choices) {}

  std::string body(const GenerationView& generation, const std::vector<Delta>& deltas) override {
    JsonOut out;
    out.begin_object();
    write_head(out, generation, "text_completion");
    out.key("choices");
    out.begin_array();
    for (std::size_t i = 0; i < deltas.size(); ++i) write_choice(out, generation, i, deltas[i], Part::kLast);
    out.end_array();
    out.null_field("service_tier");
    out.null_field("system_fingerprint");
    out.key("usage");
    generation.write_usage(out);
    out.null_field("kv_transfer_params");
    out.end_object();
    return out.take();
  }

  void chunk(std::string& events, const GenerationView& generation, std::size_t index, const Delta& delta, Part part) override {
    JsonOut out;
    out.begin_object();
    write_head(out, generation, "text_completion");
    out.key("choices");
    out.begin_array();
    write_choice(out, generation, index, delta, part);
    out.end_array();
    out.key("usage");
    if (generation.spec().continuous_usage) generation.write_usage(out);
    else out.null();
    out.end_object();
    append_event(events, out.text());
  }

  void usage_chunk(std::string& events, const GenerationView& generation) override {
    JsonOut out;
    out.begin_object();
    write_head(out, generation, "text_completion");
    out.key("choices");
    out.begin_array();
    out.end_array();
    out.key("usage");
    generation.write_usage(out);
    out.end_object();
    append_event(events, out.text());
  }

 private:
  struct Place {
    bool begun = false;
    std::int64_t offset = 0;  // characters
  };

  void write_choice(JsonOut& out, const GenerationView& generation, std::size_t index, const Delta& delta, Part part) {
    const GenerationSpec& spec = generation.spec();
    const Choice& choice = generation.choice(index);
    const Prompt& prompt = generation.prompt_of(index);
    Place& place = places_[index];
    const bool first = !place.begun;
    place.begun = true;
    out.begin_object();
    out.field("index", index);
    out.field("text", spec.echo && first ? prompt.text + delta.text : delta.text);
    out.key("logprobs");
    if (spec.sampling.params.logprobs) write_logprobs(out, generation, index, delta, first);
    else out.null();
    write_finish(out, part == Part::kLast ? &choice : nullptr);
    write_token_ids(out, "token_ids", spec.sampling.return_token_ids ? &delta.tokens : nullptr);
    out.key("prompt_logprobs");
    if (first && spec.sampling.show_prompt_logprobs)
      write_prompt_logprobs(out, choice.prompt_logprobs(), *spec.sampling.params.prompt_logprobs, TokenText(*spec.model->tokenizer, TokenSpelling::kText));
    else out.null();
    write_token_ids(out, "prompt_token_ids", first && spec.sampling.return_token_ids ? &prompt.tokens : nullptr);
    out.end_object();
  }

  void write_logprobs(JsonOut& out, const GenerationView& generation, std::size_t index, const Delta& delta, bool first) {
    const GenerationSpec& spec = generation.spec();
    const std::vector<TokenLogprobs>& prompt_entries = generation.choice(index).prompt_logprobs();
    std::vector<ScoredToken> tokens;
    if (spec.echo && first) {
      const std::vector<TokenId>& prompt = generation.prompt_of(index).tokens;
      for (std::size_t p = 0; p < prompt.size(); ++p)
        tokens.push_back({prompt[p], p > 0 && p - 1 < prompt_entries.size() ? &prompt_entries[p - 1] : nullptr});
    }
    for (std::size_t t = 0; t < delta.tokens.size(); ++t)
      tokens.push_back({delta.tokens[t], t < delta.logprobs.size() ? &delta.logprobs[t] : nullptr});
    write_completion_logprobs(out, tokens, *spec.sampling.params.logprobs, TokenText(*spec.model->tokenizer, spec.sampling.spelling), places_[index].offset);
  }

  std::vector<Place> places_;
};

}  // namespace

std::unique_ptr<Wire> make_completion_wire(std::size_t num_choices) { return std::make_unique<CompletionWire>(num_choices); }

}  // namespace quire::api
