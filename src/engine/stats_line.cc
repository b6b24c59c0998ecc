#include "engine/stats_line.h"

#include <spdlog/fmt/fmt.h>

namespace quire::engine {

void StatsLine::add(std::int64_t num_prompt_tokens, std::int64_t num_generated_tokens, Clock::time_point now) {
  if (!interval_start_) interval_start_ = now;
  prompt_tokens_ += num_prompt_tokens;
  generated_tokens_ += num_generated_tokens;
}

std::optional<StatsLine::Clock::time_point> StatsLine::due() const {
  if (!interval_start_ || period_ <= Clock::duration::zero()) return std::nullopt;
  return *interval_start_ + period_;
}

std::optional<std::string> StatsLine::take(const SchedulerStats& stats, std::int32_t num_running, std::int32_t num_waiting, Clock::time_point now) {
  const auto end = due();
  if (!end || now < *end) return std::nullopt;
  const double span = std::chrono::duration<double>(now - *interval_start_).count();
  const auto queries = static_cast<double>(stats.prefix_queries - prefix_queries_), hits = static_cast<double>(stats.prefix_hits - prefix_hits_);
  const std::int32_t held = stats.num_blocks_total - stats.num_blocks_free;
  std::string line =
      fmt::format("engine 0: prompt {:.1f} tokens/s, generation {:.1f} tokens/s, running {}, waiting {}, KV cache {:.1f} %, prefix hits {:.1f} %",
                  static_cast<double>(prompt_tokens_) / span, static_cast<double>(generated_tokens_) / span, num_running, num_waiting,
                  stats.num_blocks_total > 0 ? 100.0 * held / stats.num_blocks_total : 0.0, queries > 0 ? 100.0 * hits / queries : 0.0);
  prompt_tokens_ = generated_tokens_ = 0;
  prefix_queries_ = stats.prefix_queries;
  prefix_hits_ = stats.prefix_hits;
  if (num_running + num_waiting > 0)
    interval_start_ = now;
  else
    interval_start_.reset();
  return line;
}

}  // namespace quire::engine
