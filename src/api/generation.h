// One /v1/completions or /v1/chat/completions request from admission to its last byte: submits its sequences, joins their
// events into choices, and writes the answer whole or as server-sent events. Made on the pool for requests, then owned by one
// session and used on that session's io thread only. Destroying it cancels what still runs. Knows no sockets.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/choice.h"
#include "api/model.h"
#include "api/prompts.h"
#include "api/reply.h"
#include "api/sampling.h"

namespace quire::api {

class JsonOut;
class Mailbox;
class Wire;

struct GenerationSpec {
  std::shared_ptr<const Model> model;
  SamplingRequest sampling;
  std::vector<Prompt> prompts;               // at least one, none empty
  std::vector<std::int32_t> max_tokens;      // one per prompt
  std::string id;                            // "cmpl-..." or "chatcmpl-..."
  std::string model_name;                    // as asked for
  std::int64_t created = 0;                  // Unix seconds
  std::string cache_namespace;
  bool stream = false, include_usage = false, continuous_usage = false;
  bool echo = false;
  bool echo_only = false;                    // max_tokens 0
  bool prompt_tokens_details = false;        // usage says how many prompt tokens were cached
  std::string role;                          // chat: of the answer
};

// What a Wire (wire.h) sees of a Generation: the request, and its choices as they are now.
class GenerationView {
 public:
  [[nodiscard]] const GenerationSpec& spec() const { return spec_; }
  [[nodiscard]] const Choice& choice(std::size_t index) const { return *choices_[index].choice; }
  [[nodiscard]] std::size_t num_choices() const { return choices_.size(); }
  [[nodiscard]] const Prompt& prompt_of(std::size_t choice_index) const;
  // {"prompt_tokens",...}; over all choices.
  void write_usage(JsonOut& out) const;

 protected:
  struct Slot {
    std::unique_ptr<Choice> choice;
    RequestId request;           // none() when it has no events to come
    bool announced_finish = false;
  };
  explicit GenerationView(GenerationSpec spec);

  GenerationSpec spec_;
  std::vector<Slot> choices_;
};

class Generation : private GenerationView {
 public:
  enum class Kind : unsigned char { kCompletion, kChat };
  Generation(Kind kind, GenerationSpec spec);
  ~Generation();
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  // Submits every sequence; all or none. Errors as engine::Engine::submit. `mailbox` outlives this.
  [[nodiscard]] Status submit(Mailbox& mailbox);
  // Runs after news arrived (Mailbox::deliver) on the mailbox's thread. Must not destroy this.
  std::function<void()> on_news;
  // The client is gone or too slow: nothing more is wanted.
  void cancel();
  // What has not ended becomes that error, for the client to read; nothing when everything has ended.
  void end_with(const Error& error);

  [[nodiscard]] const std::string& id() const { return spec_.id; }
  [[nodiscard]] bool streaming() const { return spec_.stream; }
  // Every choice has ended (or one failed).
  [[nodiscard]] bool finished() const;
  // Whole answer; only when finished and not streaming. May be slow when log-probabilities of long prompts are in it.
  [[nodiscard]] Reply reply();
  [[nodiscard]] bool reply_is_large() const;
  // Streaming: server-sent events since the last call; the last ones end with "data: [DONE]\n\n".
  [[nodiscard]] std::string take_events();
  [[nodiscard]] std::size_t num_waiting_bytes() const { return events_.size(); }
  // For the log: "stop", "length", "2 x stop, 1 x length", "error: ...".
  [[nodiscard]] std::string outcome() const;

 private:
  friend class Mailbox;
  using EndKnownBy = engine::GenerateRequest::EndKnownBy;
  [[nodiscard]] EndKnownBy end_known_by() const;
  void on_event(std::size_t index, engine::RequestEvent event);
  void flush_chunk(std::size_t index);
  void flush_all();
  void end_request(std::size_t index);
  void fail(const Error& error);
  void finish_stream();

  std::unique_ptr<Wire> wire_;
  Mailbox* mailbox_ = nullptr;
  std::string events_;
  std::optional<Error> error_;
  bool stream_ended_ = false;
};

}  // namespace quire::api
