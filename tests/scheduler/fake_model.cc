#include "scheduler/fake_model.h"

#include <algorithm>
#include <utility>

namespace quire::test {

namespace {
constexpr std::uint64_t kGarbage = 0xdeadbeefdeadbeefull;

std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

std::string say(const RowPlan& row, const std::string& what) {
  return "request " + std::to_string(row.request.value) + " [" + std::to_string(row.num_computed) + ", +" + std::to_string(row.num_new) +
         "): " + what;
}

int class_of(const RowPlan& row) { return row.num_computed == 0 ? 2 : row.num_new > 1 ? 1 : 0; }
}  // namespace

std::uint64_t FakeModel::extend(std::uint64_t prefix, TokenId token) const { return mix(prefix ^ mix(static_cast<std::uint64_t>(token) + 1)); }
std::uint64_t FakeModel::prefix_of(const std::vector<TokenId>& tokens) const {
  std::uint64_t h = 1;
  for (const TokenId t : tokens) h = extend(h, t);
  return h;
}
TokenId FakeModel::next(std::uint64_t prefix) const { return static_cast<TokenId>(mix(prefix ^ 77) % static_cast<std::uint64_t>(vocab)); }
bool FakeModel::fails(std::uint64_t prefix) const { return fail_every != 0 && mix(prefix ^ 99) % fail_every == 0; }
float FakeModel::score(std::uint64_t prefix, TokenId token) const { return -static_cast<float>(mix(extend(prefix, token)) % 1000) / 100.0f; }

Ending run_alone(const FakeModel& model, const SequenceSpec& spec, std::int32_t max_model_len, std::int64_t pool_tokens) {
  const SamplingParams& p = *spec.sampling;
  Ending end;
  std::uint64_t h = model.prefix_of(spec.prompt);
  while (true) {
    if (model.fails(h)) {
      end.reason = FinishReason::kError;
      return end;
    }
    const TokenId t = model.next(h);
    end.outputs.push_back(t);
    h = model.extend(h, t);
    const auto count = static_cast<std::int32_t>(end.outputs.size());
    const auto length = static_cast<std::int32_t>(spec.prompt.size()) + count;
    const bool may_stop = count > p.min_tokens;
    if (may_stop && !p.ignore_eos && std::ranges::count(p.eos_token_ids, t) > 0) {
      end.reason = FinishReason::kStop;
      return end;
    }
    if (may_stop && std::ranges::count(p.stop_token_ids, t) > 0) {
      end.reason = FinishReason::kStop;
      end.stop_token = t;
      return end;
    }
    if (count >= p.max_tokens || length >= max_model_len) {
      end.reason = FinishReason::kLength;
      return end;
    }
    if (length > pool_tokens) {
      end.reason = FinishReason::kError;
      return end;
    }
  }
}

FakeDevice::FakeDevice(const FakeModel& model, const SchedulerConfig& config)
    : model_(model), config_(config), pool_(static_cast<std::size_t>(config.num_blocks) * static_cast<std::size_t>(config.block_size), kGarbage) {}

std::size_t FakeDevice::slot(const RowState& state, std::int32_t position) const {
  const auto block = static_cast<std::size_t>(state.table.at(static_cast<std::size_t>(position / config_.block_size)).value);
  return block * static_cast<std::size_t>(config_.block_size) + static_cast<std::size_t>(position % config_.block_size);
}

std::string FakeDevice::accept(const StepPlan& plan) {
  if (plan.step_id != ++last_step_) return "step ids have a gap";
  if (queue_.size() >= static_cast<std::size_t>(config_.depth)) return "more steps in flight than the depth";
  if (plan.rows.empty()) return "a step without rows";
  std::int32_t total = 0;
  std::set<std::int32_t> rows;
  for (std::size_t i = 0; i < plan.rows.size(); ++i) {
    total += plan.rows[i].num_new;
    if (!rows.insert(plan.rows[i].row.value).second) return say(plan.rows[i], "its state row is twice in the step");
    if (i > 0 && class_of(plan.rows[i - 1]) > class_of(plan.rows[i])) return say(plan.rows[i], "rows are not ordered decode, extend, prefill");
  }
  if (total != plan.num_tokens || total > config_.max_num_batched_tokens) return "the token count is wrong or over the budget";
  if (rows.size() > static_cast<std::size_t>(config_.max_num_seqs)) return "too many rows";
  if (std::string e = accept_blocks(plan); !e.empty()) return e;
  for (const RowPlan& row : plan.rows) {
    if (std::string e = accept_row(row, plan); !e.empty()) return e;
  }
  Queued queued{.plan = plan, .rows = rows, .blocks = {}};
  for (const std::int32_t r : rows) {
    for (const BlockId b : planned_.at(r).table) queued.blocks.insert(b.value);
  }
  queue_.push_back(std::move(queued));
  return {};
}

std::string FakeDevice::accept_blocks(const StepPlan& plan) {
  std::map<std::int32_t, std::int32_t> first_fresh;  // entering rows: blocks before this one are cache hits
  for (const StateUpload& up : plan.uploads) {
    for (const Queued& q : queue_) {
      if (q.rows.contains(up.row.value)) return "state row " + std::to_string(up.row.value) + " is reused while a step in flight needs it";
    }
    planned_[up.row.value] = RowState{
        .request = up.request, .history = up.tokens, .table = {}, .num_prompt = up.num_prompt_tokens, .sampling = up.sampling, .broken = false};
    planned_length_[up.row.value] = static_cast<std::int32_t>(up.tokens.size());
    const auto row = std::ranges::find(plan.rows, up.row, &RowPlan::row);
    if (row == plan.rows.end() || row->request != up.request) return "an upload without its row";
    first_fresh[up.row.value] = row->num_computed / config_.block_size;
  }
  for (const BlockAppend& append : plan.block_appends) {
    if (append.blocks.empty()) return "an empty append";
    RowState& state = planned_.at(append.row.value);
    const auto fresh = first_fresh.contains(append.row.value) ? static_cast<std::size_t>(first_fresh[append.row.value]) : 0;
    for (std::size_t i = 0; i < append.blocks.size(); ++i) {
      const std::int32_t b = append.blocks[i].value;
      if (b < 0 || b >= config_.num_blocks) return "block " + std::to_string(b) + " does not exist";
      state.table.push_back(append.blocks[i]);
      if (i < fresh) continue;
      for (const Queued& q : queue_) {
        if (q.blocks.contains(b)) return "block " + std::to_string(b) + " is given away while a step in flight uses it";
      }
    }
  }
  return {};
}

std::string FakeDevice::accept_row(const RowPlan& row, const StepPlan& plan) {
  const auto found = planned_.find(row.row.value);
  if (found == planned_.end() || found->second.request != row.request) return say(row, "its state row holds another request");
  const RowState& state = found->second;
  std::int32_t& length = planned_length_.at(row.row.value);
  const std::int32_t end = row.num_computed + row.num_new;
  if (row.num_new < 1 || row.num_computed < 0 || end > length) return say(row, "runs outside its tokens");
  if (end >= config_.max_model_len) return say(row, "runs beyond max_model_len");
  if (row.samples != (end == length)) return say(row, "samples at the wrong place");
  if (row.samples && row.output_index != length - state.num_prompt) return say(row, "has the wrong output index");
  if (row.samples && row.output_index >= state.sampling->max_tokens) return say(row, "samples beyond max_tokens");
  if (end > static_cast<std::int32_t>(state.table.size()) * config_.block_size) return say(row, "has no block for its positions");
  const bool enters = std::ranges::find(plan.uploads, row.row, &StateUpload::row) != plan.uploads.end();
  if (enters && row.num_computed % config_.block_size != 0) return say(row, "hits a part of a block");
  std::uint64_t h = 1;
  for (std::int32_t p = 0; enters && p < row.num_computed; ++p) {
    h = model_.extend(h, state.history[static_cast<std::size_t>(p)]);
    if (pool_[slot(state, p)] != h) return say(row, "hits a cached block whose write has not retired, or another prefix");
  }
  if (row.samples) ++length;
  return {};
}

void FakeDevice::enter(const StepPlan& plan) {
  for (const StateUpload& up : plan.uploads) {
    rows_[up.row.value] = RowState{
        .request = up.request, .history = up.tokens, .table = {}, .num_prompt = up.num_prompt_tokens, .sampling = up.sampling, .broken = false};
  }
  for (const BlockAppend& append : plan.block_appends) {
    auto& table = rows_.at(append.row.value).table;
    table.insert(table.end(), append.blocks.begin(), append.blocks.end());
  }
}

std::string FakeDevice::write(const RowPlan& row, std::set<std::size_t>& written) {
  const RowState& state = rows_.at(row.row.value);
  std::uint64_t h = 1;
  for (std::int32_t p = 0; p < row.num_computed + row.num_new; ++p) {
    if (static_cast<std::size_t>(p) >= state.history.size()) return say(row, "needs a token that was never sampled");
    h = model_.extend(h, state.history[static_cast<std::size_t>(p)]);
    if (p < row.num_computed) continue;
    if (!written.insert(slot(state, p)).second) return say(row, "writes a slot that another row writes in this step");
    pool_[slot(state, p)] = h;
  }
  return {};
}

std::string FakeDevice::read_back(const RowPlan& row) const {
  const RowState& state = rows_.at(row.row.value);
  std::uint64_t h = 1;
  for (std::int32_t p = 0; !state.broken && p < row.num_computed + row.num_new; ++p) {
    h = model_.extend(h, state.history[static_cast<std::size_t>(p)]);
    if (pool_[slot(state, p)] != h) return say(row, "reads foreign keys and values at position " + std::to_string(p));
  }
  return {};
}

RowResult FakeDevice::result_of(const RowPlan& row) {
  RowState& state = rows_.at(row.row.value);
  RowResult out;
  out.request = row.request;
  std::uint64_t h = 1;
  for (std::int32_t p = 0; p < row.num_computed + row.num_new; ++p) {
    h = model_.extend(h, state.history[static_cast<std::size_t>(p)]);
    if (row.scores_prompt && p >= row.num_computed && p + 1 < state.num_prompt) {
      const TokenId t = state.history[static_cast<std::size_t>(p) + 1];
      out.prompt_logprobs.push_back(TokenLogprobs{.token = t, .logprob = model_.score(h, t), .rank = p + 1, .top = {}});
    }
  }
  if (!row.samples) return out;
  if (model_.fails(h)) {
    out.failure = Error{ErrorCode::kInternal, "logits are not finite", {}};
    out.prompt_logprobs.clear();
    state.history.push_back(0);  // the row of the next step in flight still needs some token
    return out;
  }
  out.token = model_.next(h);
  state.history.push_back(*out.token);
  return out;
}

StepResult FakeDevice::execute(std::string& error) {
  const Queued queued = std::move(queue_.front());
  queue_.erase(queue_.begin());
  const StepPlan& plan = queued.plan;
  enter(plan);
  StepResult result{.step_id = plan.step_id, .rows = {}};
  std::set<std::size_t> written;
  for (const RowPlan& row : plan.rows) {
    if (std::string e = write(row, written); !e.empty()) error = e;
  }
  for (const RowPlan& row : plan.rows) {
    if (!error.empty()) return result;
    error = read_back(row);
    result.rows.push_back(result_of(row));
  }
  return result;
}

void FakeDevice::break_oldest() {
  const Queued queued = std::move(queue_.front());
  queue_.erase(queue_.begin());
  enter(queued.plan);
  for (const RowPlan& row : queued.plan.rows) {
    RowState& state = rows_.at(row.row.value);
    for (std::int32_t p = row.num_computed; p < row.num_computed + row.num_new; ++p) pool_[slot(state, p)] = kGarbage;
    if (row.samples) state.history.push_back(0);
    state.broken = true;
  }
}

}  // namespace quire::test
