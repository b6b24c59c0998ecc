#include "commands/perplexity.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <utility>

#include "commands/event_wait.h"

namespace quire::commands {
namespace {

constexpr std::chrono::milliseconds kEventWait(1000);
constexpr std::size_t kInFlight = 8;  // requests at once: a batch, and few enough that any pool holds them one after the other

struct Answer {
  std::vector<TokenLogprobs> prompt_logprobs;
  std::vector<TokenId> tokens;
};

// Every request's answer, in order.
class Runner {
 public:
  Runner(engine::Engine& engine, const EvalProgress& progress) : engine_(engine), progress_(progress) {}

  Result<std::vector<Answer>> run(std::vector<engine::GenerateRequest> requests) {
    answers_.resize(requests.size());
    std::size_t next = 0, done = 0;
    EventWait wait(engine_, *events_);
    while (done < requests.size()) {
      for (; next < requests.size() && running_.size() < kInFlight; ++next) {
        const auto id = engine_.submit(std::move(requests[next]), engine::SeedSource::kRequest, events_);
        if (!id.ok()) return id.error();
        running_.emplace(id->value, next);
      }
      auto came = wait.next(kEventWait);
      if (!came.ok()) return came.error();
      for (engine::AddressedEvent& e : came.value()) {
        const auto ended = take(e);
        if (!ended.ok()) return ended.error();
        if (!ended.value()) continue;
        progress_(static_cast<std::int64_t>(++done), static_cast<std::int64_t>(requests.size()));
      }
    }
    return std::move(answers_);
  }

 private:
  // True: that was the request's last event.
  Result<bool> take(engine::AddressedEvent& e) {
    const auto found = running_.find(e.id.value);
    QUIRE_CHECK(found != running_.end());
    Answer& answer = answers_[found->second];
    if (auto* scored = std::get_if<engine::PromptLogprobsEvent>(&e.event)) answer.prompt_logprobs = std::move(scored->entries);
    if (const auto* token = std::get_if<engine::TokenEvent>(&e.event)) answer.tokens.push_back(token->token);
    const auto* finish = std::get_if<engine::FinishEvent>(&e.event);
    if (finish == nullptr) return false;
    if (finish->error.has_value()) return *finish->error;
    running_.erase(found);
    return true;
  }

  engine::Engine& engine_;
  const EvalProgress& progress_;
  std::shared_ptr<engine::EventQueue> events_ = std::make_shared<engine::EventQueue>();
  std::map<std::uint64_t, std::size_t> running_;  // request to its place
  std::vector<Answer> answers_;
};

engine::GenerateRequest greedy(std::vector<TokenId> prompt, std::int32_t max_tokens) {
  engine::GenerateRequest request{.prompt = std::move(prompt), .client_id = "eval"};
  request.sampling.temperature = 0.0;
  request.sampling.max_tokens = max_tokens;
  request.sampling.ignore_eos = true;
  return request;
}

}  // namespace

Status check_windows(std::int64_t num_tokens, std::int32_t window) {
  constexpr std::int32_t kLeast = 4;  // one token of context, one scored
  const auto longest = [](std::int64_t tokens) { return "--max-model-len " + std::to_string(tokens + 1); };
  if (window < kLeast) return invalid("windows of " + std::to_string(window) + " tokens score nothing: at least " + longest(kLeast) + " is needed");
  if (num_tokens >= window) return {};
  const std::string has = "the text has " + std::to_string(num_tokens) + (num_tokens == 1 ? " token" : " tokens") + ", and one window has " + std::to_string(window) + ": at least " + std::to_string(window) + " tokens are needed";
  return invalid(num_tokens < kLeast ? has : has + " (" + longest(num_tokens) + " makes a window of " + std::to_string(num_tokens) + ")");
}

Result<Perplexity> perplexity(engine::Engine& engine, std::span<const TokenId> text, const PerplexityOptions& options, const EvalProgress& progress) {
  QUIRE_RETURN_IF_ERROR(check_windows(std::ssize(text), options.window));
  Perplexity out;
  out.window = options.window;
  std::int64_t windows = std::ssize(text) / out.window;
  if (options.max_windows > 0) windows = std::min<std::int64_t>(windows, options.max_windows);
  std::vector<engine::GenerateRequest> requests;
  for (std::int64_t w = 0; w < windows; ++w) {
    const auto first = text.begin() + w * out.window;
    std::vector<TokenId> prompt(first, first + out.window);
    if (options.bos.has_value()) prompt.front() = *options.bos;
    requests.push_back(greedy(std::move(prompt), 1));
    requests.back().sampling.prompt_logprobs = 0;
  }
  const auto answers = Runner(engine, progress).run(std::move(requests));
  if (!answers.ok()) return answers.error();
  double sum = 0.0, squares = 0.0;
  for (const Answer& a : answers.value()) {
    QUIRE_CHECK_EQ(std::ssize(a.prompt_logprobs), std::int64_t{out.window} - 1);
    double window_sum = 0.0;
    // Entry i describes token i + 1.
    for (auto i = static_cast<std::size_t>(out.window / 2); i < a.prompt_logprobs.size(); ++i) {
      const double nll = -static_cast<double>(a.prompt_logprobs[i].logprob);
      window_sum += nll;
      squares += nll * nll;
      ++out.num_scored;
    }
    sum += window_sum;
    out.window_nll.push_back(window_sum / static_cast<double>(std::ssize(a.prompt_logprobs) - out.window / 2));
  }
  out.num_windows = windows;
  const auto n = static_cast<double>(out.num_scored);
  const double mean = sum / n;
  out.perplexity = std::exp(mean);
  if (out.num_scored > 1) out.standard_error = out.perplexity * std::sqrt(std::max(0.0, squares / n - mean * mean) / (n - 1.0));
  return out;
}

Result<std::vector<std::vector<TokenId>>> continuations(engine::Engine& engine, std::span<const TokenId> text, const ContinuationOptions& options, const EvalProgress& progress) {
  const std::int64_t prompt = std::min<std::int64_t>(options.prompt_tokens, std::ssize(text));
  std::vector<engine::GenerateRequest> requests;
  for (std::int32_t i = 0; i < options.count; ++i) {
    const auto first = text.begin() + (std::ssize(text) - prompt) * i / std::max(options.count - 1, 1);
    requests.push_back(greedy(std::vector<TokenId>(first, first + prompt), options.max_tokens));
  }
  auto answers = Runner(engine, progress).run(std::move(requests));
  if (!answers.ok()) return answers.error();
  std::vector<std::vector<TokenId>> out;
  for (Answer& a : answers.value()) out.push_back(std::move(a.tokens));
  return out;
}

std::int64_t common_prefix(std::span<const TokenId> a, std::span<const TokenId> b) { return std::ranges::mismatch(a, b).in1 - a.begin(); }

}  // namespace quire::commands
