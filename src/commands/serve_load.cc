#include "commands/serve_load.h"

#include <algorithm>
#include <boost/json/object.hpp>
#include <cmath>
#include <iterator>
#include <numbers>
#include <string_view>

#include "base/check.h"
#include "base/files.h"
#include "base/json.h"

namespace quire::commands {
namespace {

constexpr std::size_t kMaxDatasetBytes = 1u << 30;

// Short words that byte-pair vocabularies hold whole, with the space before them.
constexpr std::string_view kWords[] = {"the", "of", "and", "to", "in", "a", "is", "that", "for", "it", "was", "on", "are", "as", "with", "at", "be", "this", "from", "or", "have", "an", "by", "not", "but", "what",
                                       "all", "were", "we", "when", "your", "can", "said", "there", "use", "each", "which", "she", "do", "how", "their", "if", "will", "up", "other", "about", "out", "many", "then", "them", "these", "so",
                                       "some", "her", "would", "make", "like", "him", "into", "time", "has", "look", "two", "more", "write", "go", "see", "number", "no", "way", "could", "people", "my", "than", "first", "water", "been", "call"};

// Streams of one seed: a change of one draw leaves the others alone.
enum class Stream : std::uint64_t { kArrivals = 1, kLengths = 2, kTexts = 3, kPrefix = 4 };
LoadRandom stream_of(std::uint64_t seed, Stream stream) {
  LoadRandom random(seed);
  return LoadRandom(random.next() ^ (static_cast<std::uint64_t>(stream) * 0xd1342543de82ef95ull));
}

}  // namespace

std::uint64_t LoadRandom::next() {
  std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

double LoadRandom::uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

std::int64_t LoadRandom::between(std::int64_t low, std::int64_t high) {
  QUIRE_CHECK_LE(low, high);
  const auto span = static_cast<double>(high - low + 1);
  return std::min(high, low + static_cast<std::int64_t>(uniform() * span));
}

double LoadRandom::normal() {  // Box and Muller
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
  return radius * std::cos(2.0 * std::numbers::pi * uniform());
}

double LoadRandom::gamma(double shape) {  // Marsaglia and Tsang, 2000; below 1 by their remark
  QUIRE_CHECK(shape > 0.0) << shape;
  if (shape < 1.0) {
    const double below = gamma(shape + 1.0);
    return below * std::pow(1.0 - uniform(), 1.0 / shape);
  }
  const double d = shape - 1.0 / 3.0, c = 1.0 / std::sqrt(9.0 * d);
  for (;;) {
    const double x = normal(), v = std::pow(1.0 + c * x, 3.0);
    if (v <= 0.0) continue;
    if (std::log(1.0 - uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}

std::int64_t length_spread(std::int64_t length, double range_ratio) { return static_cast<std::int64_t>(std::floor(static_cast<double>(length) * range_ratio)); }

std::int64_t draw_length(LoadRandom& random, std::int64_t length, double range_ratio) {
  const std::int64_t spread = length_spread(length, range_ratio);
  return std::max<std::int64_t>(1, random.between(length - spread, length + spread));
}

std::int64_t WordRate::words_for(std::int64_t tokens) const {
  return std::max<std::int64_t>(1, std::llround((static_cast<double>(tokens) - fixed_tokens) / tokens_per_word));
}

Result<std::vector<DatasetPrompt>> read_dataset(const std::string& path) {
  const auto text = read_file(path, kMaxDatasetBytes);
  if (!text.ok()) return Error{text.error().code, "--dataset: " + text.error().message, "--dataset"};
  std::vector<DatasetPrompt> out;
  std::string_view rest = text.value();
  for (std::size_t number = 1; !rest.empty(); ++number) {
    const std::size_t end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const auto wrong = [&](const std::string& why) { return invalid("--dataset: " + path + ":" + std::to_string(number) + ": " + why, "--dataset"); };
    const auto parsed = parse_json(line);
    if (!parsed.ok()) return wrong(parsed.error().message);
    const boost::json::object* fields = parsed->if_object();
    const boost::json::value* prompt = fields == nullptr ? nullptr : fields->if_contains("prompt");
    if (prompt == nullptr || !prompt->is_string() || prompt->get_string().empty()) return wrong("must be an object with \"prompt\", a text that is not empty");
    DatasetPrompt one{std::string(prompt->get_string()), std::nullopt};
    if (const boost::json::value* tokens = fields->if_contains("output_tokens")) {
      if (!tokens->is_int64() || tokens->get_int64() < 1) return wrong("\"output_tokens\" must be an integer of at least 1");
      one.output_tokens = tokens->get_int64();
    }
    out.push_back(std::move(one));
  }
  if (out.empty()) return invalid("--dataset: " + path + ": it holds no prompt", "--dataset");
  return out;
}

std::vector<double> arrival_seconds(const LoadRequest& request) {
  std::vector<double> out(static_cast<std::size_t>(request.num_prompts), 0.0);
  if (!request.request_rate.has_value()) return out;
  LoadRandom random = stream_of(request.seed, Stream::kArrivals);
  const double scale = 1.0 / (*request.request_rate * request.burstiness);
  for (std::size_t i = 1; i < out.size(); ++i) out[i] = out[i - 1] + random.gamma(request.burstiness) * scale;
  return out;
}

std::string random_words(LoadRandom& random, std::int64_t num_words) {
  std::string out;
  for (std::int64_t i = 0; i < num_words; ++i) {
    if (i > 0) out += ' ';
    out += kWords[random.between(0, static_cast<std::int64_t>(std::size(kWords)) - 1)];
  }
  return out;
}

std::vector<LoadConversation> make_load(const LoadRequest& request, const WordRate& rate, const std::vector<DatasetPrompt>& dataset) {
  LoadRandom lengths = stream_of(request.seed, Stream::kLengths), words = stream_of(request.seed, Stream::kTexts), shared = stream_of(request.seed, Stream::kPrefix);
  const std::string prefix = request.prefix_len > 0 ? random_words(shared, WordRate{rate.tokens_per_word, 0.0}.words_for(request.prefix_len)) + " " : "";
  std::vector<LoadConversation> out;
  std::size_t next_line = 0;
  for (const double start : arrival_seconds(request)) {
    LoadConversation conversation{.start_seconds = start, .turns = {}};
    for (std::int64_t t = 0; t < request.turns; ++t) {
      LoadTurn turn;
      turn.output_len = draw_length(lengths, request.output_len, request.range_ratio);
      if (dataset.empty()) {
        turn.text = random_words(words, rate.words_for(draw_length(lengths, request.input_len, request.range_ratio)));
      } else {
        const DatasetPrompt& line = dataset[next_line++ % dataset.size()];
        turn.text = line.prompt;
        turn.output_len = line.output_tokens.value_or(turn.output_len);
      }
      if (t == 0) turn.text = prefix + turn.text;
      conversation.turns.push_back(std::move(turn));
    }
    out.push_back(std::move(conversation));
  }
  return out;
}

}  // namespace quire::commands
