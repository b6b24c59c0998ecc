#include "commands/serve_driver.h"

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <chrono>
#include <deque>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/json.h"
#include "base/log.h"
#include "commands/progress.h"

namespace quire::commands {
namespace {

namespace json = boost::json;
using Clock = http::Client::Clock;

constexpr std::int64_t kProbeWords = 8, kLongProbeWords = 136;
constexpr std::chrono::seconds kProgressPeriod(5);
constexpr const char* kNotSent = "not sent: an earlier turn of its conversation failed";

json::object question_body(const ServeQuestion& question, std::int64_t max_tokens) {
  json::object out{{"model", question.model}, {"max_tokens", max_tokens}};
  if (question.temperature.has_value()) out["temperature"] = *question.temperature;
  if (question.ignore_eos) out["ignore_eos"] = true;
  return out;
}

// A conversation so far, in the form that the route takes.
class Dialogue {
 public:
  explicit Dialogue(OpenAiRoute route) : route_(route) {}
  void ask(const std::string& text) { add("user", text); }
  void answer(const std::string& text) { add("assistant", text); }
  void put_into(json::object& body) const {
    if (route_ == OpenAiRoute::kChat) body["messages"] = messages_;
    else body["prompt"] = text_;
  }

 private:
  void add(const char* role, const std::string& text) {
    if (route_ == OpenAiRoute::kChat) messages_.push_back(json::object{{"role", role}, {"content", text}});
    else text_ += (text_.empty() || role[0] == 'a' ? "" : "\n") + text;
  }

  OpenAiRoute route_;
  json::array messages_;
  std::string text_;
};

class Driver {
 public:
  Driver(http::Client& client, const ServeQuestion& question, const std::vector<LoadConversation>& load) : client_(client), question_(question), load_(load) {
    for (const LoadConversation& c : load) {
      states_.push_back({Dialogue(question.route), 0, total_, {}, {}});
      total_ += c.turns.size();
    }
    records_.resize(total_);
  }

  std::vector<RequestRecord> run() {
    started_ = told_ = Clock::now();
    while (done_ < total_) {
      arrive();
      for (const http::ClientEvent& e : client_.wait(next_look())) {
        const auto asked = asked_.find(e.id);
        QUIRE_CHECK(asked != asked_.end()) << "an answer to nothing";
        const std::size_t conversation = asked->second;
        if (!e.end.has_value()) {
          take_event(conversation, e.data, e.arrived);
        } else {
          asked_.erase(asked);
          end_turn(conversation, *e.end);
        }
      }
      tell();
    }
    return std::move(records_);
  }

 private:
  struct State {
    Dialogue dialogue;
    std::size_t turn = 0;
    std::size_t first_record = 0;
    std::string answer;         // of the running turn, so far
    std::string finish_reason;  // of the running turn; "[DONE]" where a server sends no other
  };

  [[nodiscard]] double now() const { return std::chrono::duration<double>(Clock::now() - started_).count(); }
  RequestRecord& record(std::size_t conversation) { return records_[states_[conversation].first_record + states_[conversation].turn]; }

  // When there is something to do though no server said anything.
  [[nodiscard]] Clock::time_point next_look() const {
    const Clock::time_point progress = told_ + kProgressPeriod;
    if (arrived_ == load_.size()) return progress;
    return std::min(progress, started_ + std::chrono::ceil<Clock::duration>(std::chrono::duration<double>(load_[arrived_].start_seconds)));
  }
  // Lets in what is due.
  void arrive() {
    while (arrived_ < load_.size() && load_[arrived_].start_seconds <= now()) {
      record(arrived_).due = load_[arrived_].start_seconds;
      waiting_.push_back(arrived_++);
    }
    fill();
  }
  void fill() {
    while (!waiting_.empty() && (question_.max_concurrency == 0 || running_ < question_.max_concurrency)) {
      const std::size_t conversation = waiting_.front();
      waiting_.pop_front();
      ++running_;
      send_turn(conversation);
    }
  }
  void send_turn(std::size_t conversation) {
    State& s = states_[conversation];
    const LoadTurn& turn = load_[conversation].turns[s.turn];
    s.dialogue.ask(turn.text);
    json::object body = question_body(question_, turn.output_len);
    s.dialogue.put_into(body);
    body["stream"] = true;
    body["stream_options"] = json::object{{"include_usage", true}};
    s.answer.clear();
    s.finish_reason.clear();
    const http::ClientRequest request{.path = std::string(route_path(question_.route)), .body = json::serialize(body)};
    record(conversation).sent = now();
    asked_.emplace(client_.send(request), conversation);
  }
  void take_event(std::size_t conversation, std::string_view data, Clock::time_point arrived) {
    State& s = states_[conversation];
    RequestRecord& r = record(conversation);
    const auto event = read_stream_event(data);
    if (!event.ok()) {
      if (r.failure.empty()) r.failure = event.error().message;
      return;
    }
    if (event->has_text()) r.pieces.push_back(std::chrono::duration<double>(arrived - started_).count());
    s.answer += event->text;
    if (!event->finish_reason.empty()) s.finish_reason = event->finish_reason;
    if (event->done && s.finish_reason.empty()) s.finish_reason = "[DONE]";
    if (event->usage.has_value()) {
      if (event->usage->prompt_tokens) r.input_tokens = event->usage->prompt_tokens;
      if (event->usage->completion_tokens) r.output_tokens = event->usage->completion_tokens;
    }
  }
  void end_turn(std::size_t conversation, const http::ClientOutcome& outcome) {
    State& s = states_[conversation];
    RequestRecord& r = record(conversation);
    r.ended = now();
    ++done_;
    if (r.failure.empty()) r.failure = failure_of(outcome);
    if (r.failure.empty() && s.finish_reason.empty()) r.failure = "the stream ended without a finish_reason or [DONE]";
    if (!r.failure.empty()) ++failed_;
    const std::size_t num_turns = load_[conversation].turns.size();
    if (r.failure.empty() && s.turn + 1 < num_turns) {
      s.dialogue.answer(s.answer);
      ++s.turn;
      record(conversation).due = r.ended;
      return send_turn(conversation);
    }
    for (++s.turn; s.turn < num_turns; ++s.turn, ++done_, ++failed_) {
      RequestRecord& lost = record(conversation);
      lost.due = lost.sent = lost.ended = r.ended;
      lost.failure = kNotSent;
    }
    --running_;
    fill();
  }
  void tell() {
    if (Clock::now() - told_ < kProgressPeriod) return;
    told_ = Clock::now();
    QUIRE_LOG_INFO("{} {} of {} requests ended, {} failed; {} conversations running, {} waiting", progress_bar(static_cast<std::int64_t>(done_ * 100 / total_)), done_, total_, failed_, running_, waiting_.size());
  }

  http::Client& client_;
  const ServeQuestion& question_;
  const std::vector<LoadConversation>& load_;
  std::vector<State> states_;
  std::vector<RequestRecord> records_;
  std::deque<std::size_t> waiting_;  // conversations that are due
  std::map<http::Client::Id, std::size_t> asked_;  // the conversation of each open request
  Clock::time_point started_, told_;
  std::size_t total_ = 0, done_ = 0, failed_ = 0, arrived_ = 0;
  std::int64_t running_ = 0;
};

// Tokens that the server makes of `text`; nullopt: it does not say.
Result<std::optional<std::int64_t>> prompt_tokens(http::Client& client, const ServeQuestion& question, const std::string& text) {
  Dialogue dialogue(question.route);
  dialogue.ask(text);
  json::object body = question_body(question, 1);
  dialogue.put_into(body);
  const http::ClientOutcome outcome = http::ask(client, {.path = std::string(route_path(question.route)), .body = json::serialize(body)});
  if (const std::string failure = failure_of(outcome); !failure.empty()) return Error{ErrorCode::kUnavailable, "--base-url: the server does not answer a first question: " + failure, "--base-url"};
  const auto parsed = parse_json(outcome.body, {.duplicate_keys = JsonLimits::DuplicateKeys::kKeepLast});
  if (!parsed.ok() || !parsed->is_object()) return Error{ErrorCode::kUnavailable, "--base-url: the server's answer to a first question is no JSON object", "--base-url"};
  return read_usage(parsed->get_object()).prompt_tokens;
}

}  // namespace

Result<WordRate> measure_words(http::Client& client, const ServeQuestion& question, std::int64_t up_to) {
  const std::int64_t many = std::clamp(up_to, 2 * kProbeWords, kLongProbeWords);
  LoadRandom random(0);
  const auto few_tokens = prompt_tokens(client, question, random_words(random, kProbeWords));
  if (!few_tokens.ok()) return few_tokens.error();
  const auto many_tokens = prompt_tokens(client, question, random_words(random, many));
  if (!many_tokens.ok()) return many_tokens.error();
  if (!few_tokens.value() || !many_tokens.value() || *many_tokens.value() <= *few_tokens.value()) {
    QUIRE_LOG_WARN("the server does not tell how many tokens a prompt has; prompts are made with one word for each token");
    return WordRate{};
  }
  WordRate rate;
  rate.tokens_per_word = static_cast<double>(*many_tokens.value() - *few_tokens.value()) / static_cast<double>(many - kProbeWords);
  rate.fixed_tokens = std::max(0.0, static_cast<double>(*few_tokens.value()) - rate.tokens_per_word * static_cast<double>(kProbeWords));
  return rate;
}

std::vector<RequestRecord> drive(http::Client& client, const ServeQuestion& question, const std::vector<LoadConversation>& load) { return Driver(client, question, load).run(); }

}  // namespace quire::commands
