// The sampler: a pure function of (float32 logits, parameters, Philox(seed, output index)), with the same token on every device for the
// same logits (docs/NUMERICS.md, "The sampler"). Everything that could depend on an order of additions is summed in 64-bit integers.
//
// Order of work: allowed ids, bad words, end tokens masked before min_tokens, logit bias, repetition, frequency and presence
// penalties; then greedy (highest logit, ties to the lower id), or temperature, min-p, top-k, top-p and one draw.
// Log-probabilities are those of the raw logits (vLLM's raw_logprobs).
#pragma once
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "device/device.h"
#include "scheduler/sampling_params.h"

namespace quire::ops {

// Lists of one request (bias, allowed ids, bad words, end tokens) as one int32 array on the device:
//   [bias ids: num_bias][bias values, float bits: num_bias][allowed: num_allowed][end tokens: num_end][bad words: for each its length, ids]

// Sampling state of one request, uploaded once when its sequence enters the batch.
struct SamplingState {
  double temperature, top_p, min_p;
  float repetition_penalty, presence_penalty, frequency_penalty;
  std::int32_t top_k;
  std::uint64_t seed;
  std::int32_t num_prompt_tokens, min_tokens;
  std::int32_t num_bias, num_allowed, num_end, num_bad_words, num_bad_entries;  // bad entries: int32s of the bad-word part
  std::int32_t num_logprobs;         // -1: none wanted; else the number of top entries
  std::int32_t num_prompt_logprobs;  // likewise
};

// Encodes parameters; biases are clamped to [-100, 100]. Refuses (kInvalidArgument, naming the limit) lists that do not fit
// kMaxSamplingListEntries.
[[nodiscard]] Result<SamplingState> encode_sampling(const SamplingParams& params, std::int32_t num_prompt_tokens, std::vector<std::int32_t>& lists);

enum class LogitsUse : std::int32_t {
  kSample = 0,  // choose a token, append it to the history at `position`
  kScore = 1,   // log-probability of the known token history[position]
};

// What is done with one row of logits.
struct LogitsRow {
  std::int32_t state_row;     // -1: padding, nothing is done
  std::int32_t position;      // of the token that these logits predict
  std::int32_t output_index;  // kSample: Philox counter
  LogitsUse use;
};

// Why a row has no token of the model's choice.
enum class LogitsFailure : std::int32_t {
  kNone,
  kNotFinite,    // the row holds a NaN or +infinity
  kEveryMasked,  // the lists leave no token to choose
};

struct LogitsResult {
  std::int32_t token;   // chosen or scored
  std::int32_t rank;    // 1: the argmax; 0 when no log-probability was wanted
  float logprob;
  LogitsFailure failed;  // but for kNone the token is not the model's choice
};

struct SampleParams {
  const float* logits;            // [rows, vocab]
  const LogitsRow* rows;          // [rows]
  const SamplingState* states;    // [state rows]
  const std::int32_t* lists;      // [state rows, kMaxSamplingListEntries]
  std::int32_t* history;          // [state rows, history_stride]
  LogitsResult* results;          // [rows]
  std::int32_t* top_ids;          // [rows, top_stride]
  float* top_logprobs;            // [rows, top_stride]
  std::int64_t history_stride, vocab, top_stride;
};

void sample(device::Stream& stream, const SampleParams& params, std::int64_t num_rows);

}  // namespace quire::ops
