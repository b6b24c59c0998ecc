// The sampler on the CPU: one row of logits a unit. Portable scalar code on purpose: the same token on every machine.
#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "ops/cpu_kernels.h"
#include "ops/sample.h"
#include "ops/sampling_math.h"

namespace quire::ops {
namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();

// Per-thread memory, grown once to the vocabulary.
struct Scratch {
  std::vector<float> z;                // processed logits
  std::vector<std::uint64_t> weight;   // fixed-point probabilities
  std::vector<std::int32_t> count;     // occurrences among outputs; zero between rows
  std::vector<std::uint8_t> seen;      // in prompt or outputs; zero between rows
  std::vector<std::int32_t> order;     // candidate ids
};

// (logit, id) pairs ordered best first; equal logits by lower id.
struct Better {
  const float* z;
  bool operator()(std::int32_t a, std::int32_t b) const { return z[a] != z[b] ? z[a] > z[b] : a < b; }
};

struct Row {
  const SamplingState& s;
  const std::int32_t* bias_ids;
  const std::int32_t* bias_values;
  const std::int32_t* allowed;
  const std::int32_t* end;
  const std::int32_t* bad;
  const std::int32_t* history;   // tokens before the one to choose
  std::int32_t length;           // how many
};

Row row_of(const SampleParams& p, const LogitsRow& r) {
  const SamplingState& s = p.states[r.state_row];
  const std::int32_t* l = p.lists + std::int64_t{r.state_row} * kMaxSamplingListEntries;
  const std::int32_t *values = l + s.num_bias, *allowed = values + s.num_bias, *end = allowed + s.num_allowed, *bad = end + s.num_end;
  return Row{s, l, values, allowed, end, bad, p.history + r.state_row * p.history_stride, r.position};
}

void mask_bad_words(const Row& r, float* z) {
  const std::int32_t* word = r.bad;
  for (std::int32_t i = 0; i < r.s.num_bad_words; ++i, word += 1 + word[0]) {
    const std::int32_t prefix = word[0] - 1;
    const std::int32_t outputs = r.length - r.s.num_prompt_tokens;
    if (prefix > outputs) continue;  // vLLM compares with generated tokens alone
    if (std::equal(word + 1, word + 1 + prefix, r.history + r.length - prefix)) z[word[1 + prefix]] = kMasked;
  }
}

void apply_penalties(const Row& r, float* z, Scratch& scratch) {
  for (std::int32_t i = 0; i < r.length; ++i) scratch.seen[static_cast<std::size_t>(r.history[i])] = 1;
  for (std::int32_t i = r.s.num_prompt_tokens; i < r.length; ++i) ++scratch.count[static_cast<std::size_t>(r.history[i])];
  for (std::int32_t i = 0; i < r.length; ++i) {
    const auto id = static_cast<std::size_t>(r.history[i]);
    if (scratch.seen[id] == 0) continue;  // already done
    scratch.seen[id] = 0;
    if (r.s.repetition_penalty != 1.0f) z[id] = z[id] > 0.0f ? z[id] / r.s.repetition_penalty : z[id] * r.s.repetition_penalty;
    if (scratch.count[id] == 0) continue;
    const float frequency = r.s.frequency_penalty * static_cast<float>(scratch.count[id]);
    z[id] = z[id] - frequency;
    z[id] = z[id] - r.s.presence_penalty;
    scratch.count[id] = 0;
  }
}

// Everything before temperature: what vLLM applies to greedy requests too.
void process_logits(const Row& r, const float* logits, std::int64_t vocab, std::int32_t output_index, Scratch& scratch) {
  float* z = scratch.z.data();
  if (r.s.num_allowed == 0) {
    std::copy(logits, logits + vocab, z);
  } else {
    std::fill(z, z + vocab, kMasked);
    for (std::int32_t i = 0; i < r.s.num_allowed; ++i) z[r.allowed[i]] = logits[r.allowed[i]];
  }
  mask_bad_words(r, z);
  if (output_index < r.s.min_tokens)
    for (std::int32_t i = 0; i < r.s.num_end; ++i) z[r.end[i]] = kMasked;
  for (std::int32_t i = 0; i < r.s.num_bias; ++i) z[r.bias_ids[i]] = z[r.bias_ids[i]] + std::bit_cast<float>(r.bias_values[i]);
  if (r.s.repetition_penalty != 1.0f || r.s.frequency_penalty != 0.0f || r.s.presence_penalty != 0.0f) apply_penalties(r, z, scratch);
}

// The first of the largest; no NaN among them. Sixteen running maxima, so that a compiler makes vectors of them: the maximum is the same in any order.
std::int32_t argmax(const float* z, std::int64_t n) {
  constexpr std::int64_t kLanes = 16;
  if (n < kLanes) return static_cast<std::int32_t>(std::max_element(z, z + n) - z);
  float most[kLanes];
  std::copy(z, z + kLanes, most);
  std::int64_t i = kLanes;
  for (; i + kLanes <= n; i += kLanes)
    for (std::int64_t j = 0; j < kLanes; ++j) most[j] = most[j] < z[i + j] ? z[i + j] : most[j];
  float best = *std::max_element(most, most + kLanes);
  for (; i < n; ++i) best = best < z[i] ? z[i] : best;
  return static_cast<std::int32_t>(std::find(z, z + n, best) - z);
}

bool all_finite_or_masked(const float* z, std::int64_t n) {
  std::uint32_t bad = 0;
  for (std::int64_t i = 0; i < n; ++i) bad |= static_cast<std::uint32_t>(!(z[i] < std::numeric_limits<float>::infinity()));
  return bad == 0;
}

// The worst candidate that top-k and top-p keep, or none() when both are off. Candidates are the ids in `order`, all with weight > 0.
std::int32_t last_kept(const SamplingState& s, const Scratch& scratch, std::vector<std::int32_t>& order) {
  const Better better{scratch.z.data()};
  auto kept = static_cast<std::ptrdiff_t>(order.size());
  if (s.top_k > 0 && s.top_k < kept) {
    kept = s.top_k;
    std::nth_element(order.begin(), order.begin() + kept - 1, order.end(), better);
  }
  if (s.top_p >= 1.0) return kept == static_cast<std::ptrdiff_t>(order.size()) ? -1 : order[static_cast<std::size_t>(kept - 1)];
  std::uint64_t total = 0;
  for (std::ptrdiff_t i = 0; i < kept; ++i) total += scratch.weight[static_cast<std::size_t>(order[static_cast<std::size_t>(i)])];
  const double enough = s.top_p * static_cast<double>(total);
  std::uint64_t sum = 0;
  std::ptrdiff_t sorted = 0;
  for (std::ptrdiff_t i = 0; i < kept; ++i) {
    if (i == sorted) {  // sort only as far as the nucleus reaches
      sorted = std::min(kept, std::max<std::ptrdiff_t>(64, 8 * sorted));
      std::partial_sort(order.begin() + i, order.begin() + sorted, order.begin() + kept, better);
    }
    sum += scratch.weight[static_cast<std::size_t>(order[static_cast<std::size_t>(i)])];
    if (static_cast<double>(sum) >= enough) return order[static_cast<std::size_t>(i)];
  }
  return order[static_cast<std::size_t>(kept - 1)];
}

std::int32_t draw(const Row& r, std::int64_t vocab, std::int32_t output_index, Scratch& scratch) {
  const float* z = scratch.z.data();
  const double top = z[argmax(z, vocab)];
  const double least = r.s.min_p * std::bit_cast<double>(std::uint64_t{1023 + kWeightBits} << 52);
  const double temperature = r.s.temperature;
  std::uint64_t* weight = scratch.weight.data();
  for (std::int64_t i = 0; i < vocab; ++i) weight[i] = exp_weight((static_cast<double>(z[i]) - top) / temperature);
  if (least > 0.0)
    for (std::int64_t i = 0; i < vocab; ++i)
      if (static_cast<double>(weight[i]) < least) weight[i] = 0;
  std::uint64_t total = std::accumulate(weight, weight + vocab, std::uint64_t{0});
  std::int32_t last = -1;
  if (r.s.top_k > 0 || r.s.top_p < 1.0) {
    scratch.order.clear();
    for (std::int64_t i = 0; i < vocab; ++i)
      if (weight[i] != 0) scratch.order.push_back(static_cast<std::int32_t>(i));
    last = last_kept(r.s, scratch, scratch.order);
  }
  const Better better{z};
  if (last >= 0) {
    total = 0;
    for (std::int64_t i = 0; i < vocab; ++i) {
      if (better(last, static_cast<std::int32_t>(i))) scratch.weight[static_cast<std::size_t>(i)] = 0;
      total += scratch.weight[static_cast<std::size_t>(i)];
    }
  }
  const std::uint64_t target = scale_to(uniform_bits(r.s.seed, static_cast<std::uint32_t>(output_index)), total);
  std::uint64_t sum = 0;
  for (std::int64_t i = 0; i < vocab; ++i) {
    sum += scratch.weight[static_cast<std::size_t>(i)];
    if (sum > target) return static_cast<std::int32_t>(i);
  }
  return argmax(z, vocab);  // not reached: target < total
}

// Log-probability and rank of `token` under raw logits, and the `num_top` best.
void write_logprobs(const SampleParams& p, std::int64_t row, std::int32_t token, std::int32_t num_top, Scratch& scratch) {
  const float* logits = p.logits + row * p.vocab;
  const double top = logits[argmax(logits, p.vocab)];
  std::uint64_t total = 0;
  for (std::int64_t i = 0; i < p.vocab; ++i) total += exp_weight(static_cast<double>(logits[i]) - top);
  const double log_total = log_weight(total);
  const auto logprob = [&](std::int32_t id) { return static_cast<float>((static_cast<double>(logits[id]) - top) - log_total); };
  const Better better{logits};
  LogitsResult& result = p.results[row];
  result.logprob = logprob(token);
  result.rank = 1;
  for (std::int64_t i = 0; i < p.vocab; ++i) result.rank += better(static_cast<std::int32_t>(i), token) ? 1 : 0;
  const std::int64_t n = std::min<std::int64_t>({num_top, p.top_stride, p.vocab});
  if (n <= 0) return;
  scratch.order.resize(static_cast<std::size_t>(p.vocab));
  std::iota(scratch.order.begin(), scratch.order.end(), 0);
  std::partial_sort(scratch.order.begin(), scratch.order.begin() + n, scratch.order.end(), better);
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int32_t id = scratch.order[static_cast<std::size_t>(i)];
    p.top_ids[row * p.top_stride + i] = id;
    p.top_logprobs[row * p.top_stride + i] = logprob(id);
  }
}

void sample_row(const SampleParams& p, std::int64_t row, Scratch& scratch) {
  const LogitsRow& use = p.rows[row];
  LogitsResult& result = p.results[row];
  result = LogitsResult{};
  if (use.state_row < 0) return;
  const float* logits = p.logits + row * p.vocab;
  if (!all_finite_or_masked(logits, p.vocab)) result.failed = LogitsFailure::kNotFinite;
  const Row r = row_of(p, use);
  std::int32_t num_top = r.s.num_prompt_logprobs;
  std::int32_t& slot = p.history[use.state_row * p.history_stride + use.position];
  if (result.failed == LogitsFailure::kNone && use.use == LogitsUse::kSample) {
    num_top = r.s.num_logprobs;
    process_logits(r, logits, p.vocab, use.output_index, scratch);
    const std::int32_t best = argmax(scratch.z.data(), p.vocab);
    if (scratch.z[static_cast<std::size_t>(best)] == kMasked) result.failed = LogitsFailure::kEveryMasked;
    slot = r.s.temperature == 0.0 || result.failed != LogitsFailure::kNone ? best : draw(r, p.vocab, use.output_index, scratch);
  } else if (result.failed != LogitsFailure::kNone && use.use == LogitsUse::kSample) {
    slot = 0;  // a later step may already read it; its row is dropped when this failure is applied
  }
  result.token = slot;
  if (num_top >= 0 && result.failed == LogitsFailure::kNone) write_logprobs(p, row, slot, num_top, scratch);
}

}  // namespace

void cpu_sample(const void* params, std::int64_t begin, std::int64_t end) {
  const auto& p = *static_cast<const SampleParams*>(params);
  thread_local Scratch scratch;
  const auto vocab = static_cast<std::size_t>(p.vocab);
  if (scratch.z.size() < vocab) {
    scratch.z.resize(vocab);
    scratch.weight.resize(vocab);
    scratch.count.assign(vocab, 0);
    scratch.seen.assign(vocab, 0);
    scratch.order.reserve(vocab);
  }
  for (std::int64_t row = begin; row < end; ++row) sample_row(p, row, scratch);
}

}  // namespace quire::ops
