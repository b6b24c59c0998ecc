#include "engine/inbox.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"

namespace quire::engine {
namespace {

constexpr int kMaxResets = 16;  // callers that gave up waiting must not fill the inbox

// splitmix64's finaliser: neighbouring ids give unrelated seeds.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

void Inbox::start() {
  const std::scoped_lock lock(mutex_);
  QUIRE_CHECK(board_.state() == EngineStatus::State::kStarting) << "the engine starts once";
  board_.set_state(EngineStatus::State::kReady);
}

Status Inbox::check_open() const {
  using State = EngineStatus::State;
  switch (board_.state()) {
    case State::kReady: return {};
    case State::kStarting: return Error{ErrorCode::kUnavailable, "the engine is starting; try again later", {}};
    case State::kDraining: return Error{ErrorCode::kUnavailable, "the server is shutting down and takes no new requests", {}};
    case State::kStopped: return Error{ErrorCode::kUnavailable, "the engine has stopped", {}};
    case State::kFailed: return Error{ErrorCode::kUnavailable, "the engine has failed: " + failure_, {}};
  }
  return {};
}

Result<RequestId> Inbox::submit(GenerateRequest request, std::optional<std::uint64_t> seed_base, std::shared_ptr<EventQueue> events) {
  const std::scoped_lock lock(mutex_);
  QUIRE_RETURN_IF_ERROR(check_open());
  if (open_.size() >= max_queue_) {
    const std::string limit = std::to_string(max_queue_);
    return Error{ErrorCode::kResourceExhausted, "the queue is full: " + limit + " sequences are waiting or running and the limit is " + limit + " (--max-queue); try again later", {}};
  }
  const RequestId id{next_id_++};
  if (seed_base) request.sampling.seed = mix(mix(*seed_base) ^ id.value);
  open_.emplace(id, false);
  num_open_.fetch_add(1);
  commands_.emplace_back(SubmitCommand{id, std::move(request), std::move(events), Clock::now()});
  commands_cv_.notify_one();
  return id;
}

void Inbox::end(RequestId id, FinishReason reason) {
  const std::scoped_lock lock(mutex_);
  const auto entry = open_.find(id);
  if (entry == open_.end() ? unsettled_.erase(id) == 0 : std::exchange(entry->second, true)) return;
  commands_.emplace_back(EndCommand{id, reason});
  commands_cv_.notify_one();
}

void Inbox::settle(RequestId id) {
  const std::scoped_lock lock(mutex_);
  if (unsettled_.erase(id) == 0) return;
  commands_.emplace_back(EndCommand{id, FinishReason::kLength});
  commands_cv_.notify_one();
}

bool Inbox::reset_prefix_cache(std::shared_ptr<std::promise<bool>> done) {
  const std::scoped_lock lock(mutex_);
  const auto state = board_.state();
  if (exited_ || (state != EngineStatus::State::kReady && state != EngineStatus::State::kDraining)) return false;
  if (num_resets_ >= kMaxResets) return false;
  ++num_resets_;
  commands_.emplace_back(ResetPrefixCacheCommand{std::move(done)});
  commands_cv_.notify_one();
  return true;
}

bool Inbox::close(Clock::time_point deadline) {
  const std::scoped_lock lock(mutex_);
  if (board_.state() == EngineStatus::State::kStarting) {
    board_.set_state(EngineStatus::State::kStopped);
    return false;
  }
  if (!stop_deadline_ && board_.state() == EngineStatus::State::kStopped) return false;  // was never started
  stop_deadline_ = std::min(stop_deadline_.value_or(deadline), deadline);
  if (board_.state() == EngineStatus::State::kReady) board_.set_state(EngineStatus::State::kDraining);
  commands_cv_.notify_one();
  exited_cv_.notify_all();
  return true;
}

bool Inbox::wait_exit(Clock::duration extra) {
  std::unique_lock lock(mutex_);
  QUIRE_CHECK(stop_deadline_.has_value()) << "wait_exit() before close()";
  const Clock::time_point called = Clock::now();
  const auto until = [&] { return std::max(called, *stop_deadline_) + extra; };  // another caller may shorten the deadline meanwhile
  while (!exited_ && Clock::now() < until()) exited_cv_.wait_until(lock, until());
  return exited_;
}

std::string Inbox::failure() const {
  const std::scoped_lock lock(mutex_);
  return failure_;
}

std::vector<Command> Inbox::EngineSide::take(std::size_t max) {
  const std::scoped_lock lock(inbox_.mutex_);
  const auto end = inbox_.commands_.begin() + static_cast<std::ptrdiff_t>(std::min(max, inbox_.commands_.size()));
  std::vector<Command> out(std::make_move_iterator(inbox_.commands_.begin()), std::make_move_iterator(end));
  inbox_.commands_.erase(inbox_.commands_.begin(), end);
  for (const Command& command : out) inbox_.num_resets_ -= std::holds_alternative<ResetPrefixCacheCommand>(command) ? 1 : 0;
  return out;
}

void Inbox::EngineSide::release(const std::vector<EndedRequest>& ended) {
  if (ended.empty()) return;
  const std::scoped_lock lock(inbox_.mutex_);
  for (const EndedRequest& request : ended) {
    const auto entry = inbox_.open_.find(request.id);
    QUIRE_CHECK(entry != inbox_.open_.end()) << "request " << request.id.value << " ended twice";
    // Where an end is on its way already, it settles the other.
    if (request.settled == Settled::kNo && !entry->second) inbox_.unsettled_.insert(request.id);
    inbox_.open_.erase(entry);
  }
  inbox_.num_open_.fetch_sub(static_cast<std::int32_t>(ended.size()));
}

void Inbox::EngineSide::wait(std::optional<Clock::time_point> until) {
  std::unique_lock lock(inbox_.mutex_);
  const auto awake = [this] { return !inbox_.commands_.empty() || inbox_.stop_deadline_.has_value(); };
  if (until)
    inbox_.commands_cv_.wait_until(lock, *until, awake);
  else
    inbox_.commands_cv_.wait(lock, awake);
}

bool Inbox::EngineSide::should_exit(Clock::time_point now) const {
  const std::scoped_lock lock(inbox_.mutex_);
  return inbox_.stop_deadline_ && (inbox_.open_.empty() || now >= *inbox_.stop_deadline_);
}

void Inbox::EngineSide::set_failed(std::string why) {
  const std::scoped_lock lock(inbox_.mutex_);
  inbox_.failure_ = std::move(why);
  inbox_.board_.set_state(EngineStatus::State::kFailed);
}

void Inbox::EngineSide::set_exited() {
  const std::scoped_lock lock(inbox_.mutex_);
  inbox_.exited_ = true;
  if (inbox_.board_.state() != EngineStatus::State::kFailed) inbox_.board_.set_state(EngineStatus::State::kStopped);
  inbox_.exited_cv_.notify_all();
}

}  // namespace quire::engine
