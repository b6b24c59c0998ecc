#include "api/generation.h"

#include <algorithm>
#include <map>
#include <utility>

#include "api/json_out.h"
#include "api/mailbox.h"
#include "api/wire.h"
#include "base/check.h"
#include "engine/engine.h"

namespace quire::api {
namespace {

ChoiceSpec choice_spec(const GenerationSpec& spec) {
  ChoiceSpec out;
  out.tokenizer = spec.model->tokenizer;
  out.stops = spec.sampling.stops;
  out.include_stop = spec.sampling.include_stop;
  out.special_tokens = spec.sampling.special_tokens;
  out.min_tokens = spec.sampling.params.min_tokens;
  out.end_tokens = spec.sampling.params.eos_token_ids;
  out.end_tokens.insert(out.end_tokens.end(), spec.sampling.params.stop_token_ids.begin(), spec.sampling.params.stop_token_ids.end());
  out.discard_output = spec.echo_only;
  return out;
}

}  // namespace

GenerationView::GenerationView(GenerationSpec spec) : spec_(std::move(spec)) {
  const auto n = static_cast<std::size_t>(spec_.sampling.n);
  QUIRE_CHECK(!spec_.prompts.empty() && spec_.max_tokens.size() == spec_.prompts.size());
  const ChoiceSpec each = choice_spec(spec_);
  choices_.resize(spec_.prompts.size() * n);
  for (std::size_t i = 0; i < choices_.size(); ++i) choices_[i].choice = std::make_unique<Choice>(each, spec_.prompts[i / n].tokens);
}

Generation::Generation(Kind kind, GenerationSpec spec)
    : GenerationView(std::move(spec)), wire_(kind == Kind::kCompletion ? make_completion_wire(num_choices()) : make_chat_wire(num_choices())) {}

Generation::~Generation() { cancel(); }

const Prompt& GenerationView::prompt_of(std::size_t choice_index) const { return spec_.prompts[choice_index / static_cast<std::size_t>(spec_.sampling.n)]; }

Status Generation::submit(Mailbox& mailbox) {
  mailbox_ = &mailbox;
  const auto n = static_cast<std::size_t>(spec_.sampling.n);
  std::shared_ptr<engine::SampleGroup> samples;
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    engine::GenerateRequest request;
    if (n > 1 && i % n == 0) samples = std::make_shared<engine::SampleGroup>(spec_.sampling.n);
    request.samples = samples;
    request.prompt = spec_.prompts[i / n].tokens;
    request.sampling = spec_.sampling.params;
    if (spec_.echo_only) {  // the one token is dropped, so it may be any, and no end token
      request.sampling.ignore_eos = true;
      request.sampling.stop_token_ids.clear();
    }
    request.end_known_by = end_known_by();
    request.sampling.seed += i % n;  // vLLM's children: seed, seed + 1, ...
    request.sampling.max_tokens = spec_.max_tokens[i / n];
    if (spec_.echo && request.sampling.logprobs && !request.sampling.prompt_logprobs) request.sampling.prompt_logprobs = request.sampling.logprobs;
    request.priority = spec_.sampling.priority;
    request.cache_namespace = spec_.cache_namespace;
    request.client_id = spec_.id + "-" + std::to_string(i);
    auto id = spec_.model->engine->submit(std::move(request), spec_.sampling.seed_given ? engine::SeedSource::kRequest : engine::SeedSource::kEngine, mailbox.queue_);
    if (!id.ok()) {
      cancel();
      return id.error();
    }
    choices_[i].request = id.value();
    mailbox.routes_.emplace(id.value(), Mailbox::Route{this, i});
  }
  return {};
}

Generation::EndKnownBy Generation::end_known_by() const { return spec_.sampling.stops.empty() || spec_.echo_only ? EndKnownBy::kEngine : EndKnownBy::kCaller; }

void Generation::end_request(std::size_t index) {
  if (choices_[index].request.is_none()) return;
  mailbox_->routes_.erase(choices_[index].request);
  choices_[index].request = RequestId::none();
}

void Generation::cancel() {
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    if (choices_[i].request.is_none()) continue;
    spec_.model->engine->cancel(choices_[i].request);
    end_request(i);
  }
}

void Generation::on_event(std::size_t index, engine::RequestEvent event) {
  Choice& choice = *choices_[index].choice;
  if (auto* token = std::get_if<engine::TokenEvent>(&event)) {
    flush_chunk(index);  // one event per token, however many tokens one delivery brings
    if (choice.on_token(*token) == Choice::After::kGoOn) return;
    spec_.model->engine->finish(choices_[index].request);
    if (!spec_.prompt_tokens_details) end_request(index);  // else the last event still brings the count of cached tokens
    return;
  }
  if (auto* prompt = std::get_if<engine::PromptLogprobsEvent>(&event)) {
    choice.on_prompt_logprobs(std::move(*prompt));
    return;
  }
  const auto& finish = std::get<engine::FinishEvent>(event);
  choice.on_finish(finish);
  if (finish.reason == FinishReason::kLength && end_known_by() == EndKnownBy::kCaller) {
    if (choice.finish_reason() == "stop") spec_.model->engine->finish(choices_[index].request);
    else spec_.model->engine->settle(choices_[index].request);
  }
  end_request(index);
  if (choice.error()) fail(*choice.error());
}

void Generation::fail(const Error& error) {
  if (!error_) error_ = error;
  cancel();
}

void Generation::end_with(const Error& error) {
  if (finished()) return;
  fail(error);
  flush_all();
}

bool Generation::finished() const {
  return error_.has_value() ||
         std::ranges::all_of(choices_, [](const Slot& slot) { return slot.choice->finished() && slot.request.is_none(); });
}

void Generation::flush_chunk(std::size_t index) {
  if (!spec_.stream || error_) return;
  Slot& slot = choices_[index];
  if (slot.announced_finish) return;
  const bool final = slot.choice->finished() && slot.request.is_none();
  if (!final && slot.choice->pending().text.empty()) return;  // tokens without text go out with the text they lead to
  slot.announced_finish = final;
  wire_->chunk(events_, *this, index, slot.choice->take(), final ? Wire::Part::kLast : Wire::Part::kMore);
}

void Generation::flush_all() {
  if (!spec_.stream || stream_ended_) return;
  for (std::size_t i = 0; i < choices_.size(); ++i) flush_chunk(i);
  if (finished()) finish_stream();
}

void Generation::finish_stream() {
  stream_ended_ = true;
  if (error_) append_event(events_, error_body(http_status(error_->code), error_type(error_->code), error_->message, error_->param));
  else if (spec_.include_usage) wire_->usage_chunk(events_, *this);
  events_ += "data: [DONE]\n\n";
}

std::string Generation::take_events() { return std::exchange(events_, {}); }

Reply Generation::reply() {
  QUIRE_CHECK(finished() && !spec_.stream);
  if (error_) return error_reply(*error_);
  std::vector<Delta> deltas;
  deltas.reserve(choices_.size());
  for (Slot& slot : choices_) deltas.push_back(slot.choice->take());
  return json_reply(wire_->body(*this, deltas));
}

bool Generation::reply_is_large() const {
  constexpr std::size_t kLargeEntries = 4096;  // some milliseconds of writing
  if (!spec_.sampling.params.logprobs && !spec_.sampling.params.prompt_logprobs) return false;
  std::size_t entries = 0;
  const auto width = static_cast<std::size_t>(1 + std::max(spec_.sampling.params.logprobs.value_or(0), spec_.sampling.params.prompt_logprobs.value_or(0)));
  for (const Slot& slot : choices_) entries += (slot.choice->prompt_logprobs().size() + slot.choice->pending().logprobs.size()) * width;
  return entries > kLargeEntries;
}

void GenerationView::write_usage(JsonOut& out) const {
  std::int64_t prompt_tokens = 0, completion_tokens = 0, cached_tokens = 0;
  for (const Prompt& prompt : spec_.prompts) prompt_tokens += static_cast<std::int64_t>(prompt.tokens.size());
  for (const Slot& slot : choices_) completion_tokens += slot.choice->num_tokens();
  for (std::size_t i = 0; i < choices_.size(); i += static_cast<std::size_t>(spec_.sampling.n)) cached_tokens += choices_[i].choice->num_cached_tokens();
  out.begin_object();
  out.field("prompt_tokens", prompt_tokens);
  out.field("total_tokens", prompt_tokens + completion_tokens);
  out.field("completion_tokens", completion_tokens);
  out.key("prompt_tokens_details");
  if (spec_.prompt_tokens_details) {
    out.begin_object();
    out.field("cached_tokens", cached_tokens);
    out.end_object();
  } else {
    out.null();
  }
  out.end_object();
}

std::string Generation::outcome() const {
  if (error_) return "error: " + error_->message;
  std::map<std::string, int> counts;
  for (const Slot& slot : choices_) ++counts[slot.choice->finished() ? slot.choice->finish_reason() : "unfinished"];
  if (choices_.size() == 1) return counts.begin()->first;
  std::string text;
  for (const auto& [reason, count] : counts) text += (text.empty() ? "" : ", ") + std::to_string(count) + " x " + reason;
  return text;
}

}  // namespace quire::api
