#include "fuzz/mutator.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/check.h"

namespace quire::fuzz {
namespace {

// The escaped text of `line` from the quote at `at` to the next bare one, which must be its last character.
Result<std::string> quoted(std::string_view line, std::size_t at) {
  std::string out;
  for (std::size_t i = at + 1; i < line.size(); ++i) {
    if (line[i] == '"') return i + 1 == line.size() ? Result<std::string>(std::move(out)) : invalid("text after the word: " + std::string(line));
    if (line[i] != '\\') {
      out += line[i];
      continue;
    }
    const std::string_view escape = line.substr(i + 1, 3);
    unsigned value = 0;
    if (escape.starts_with('\\') || escape.starts_with('"')) {
      out += escape[0];
      i += 1;
    } else if (escape.size() == 3 && escape[0] == 'x' && std::from_chars(escape.data() + 1, escape.data() + 3, value, 16).ptr == escape.data() + 3) {
      out += static_cast<char>(value);
      i += 3;
    } else {
      return invalid("unknown escape: " + std::string(line));
    }
  }
  return invalid("the word has no end: " + std::string(line));
}

}  // namespace

Result<std::vector<std::string>> parse_dictionary(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.front() == '#') continue;
    const std::size_t quote = line.find('"');
    if (quote == std::string_view::npos || (quote > 0 && line[quote - 1] != '=')) return invalid("not a word: " + std::string(line));
    auto word = quoted(line, quote);
    if (!word.ok()) return word.error();
    if (word->empty()) return invalid("an empty word: " + std::string(line));
    words.push_back(std::move(word).value());
  }
  return words;
}

Mutator::Mutator(std::uint64_t seed, std::vector<std::string> corpus, std::vector<std::string> dictionary, std::size_t max_bytes)
    : random_(seed), corpus_(std::move(corpus)), dictionary_(std::move(dictionary)), max_bytes_(max_bytes) {
  QUIRE_CHECK(!corpus_.empty() && max_bytes_ > 0);
}

// Where integers end, or any number, as decimal text or as bytes.
std::string Mutator::number() {
  static constexpr std::uint64_t kEnds[] = {0, 1, 2, 127, 128, 255, 256, 32767, 65535, 65536, 2147483647, 2147483648, 4294967295, 4294967296, 9223372036854775807u, 9223372036854775808u, 18446744073709551615u};
  const std::uint64_t value = below(2) == 0 ? kEnds[below(std::size(kEnds))] : random_() >> below(64);
  switch (below(4)) {
    case 0: return std::to_string(value);
    case 1: return "-" + std::to_string(value);
    case 2: return std::to_string(value) + "e" + std::to_string(below(400));
    default: {
      std::string bytes(std::size_t{1} << below(4), '\0');
      for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(value >> (8 * i));
      return bytes;
    }
  }
}

void Mutator::change(std::string& text) {
  const std::size_t at = below(text.size() + 1), length = 1 + below(std::min<std::size_t>(text.size() - at, 1u << below(8)));
  switch (below(8)) {
    case 0: if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << below(8))); break;
    case 1: if (at < text.size()) text[at] = static_cast<char>(random_()); break;
    case 2: text.erase(at, length); break;
    case 3: text.insert(at, text.substr(at, length)); break;
    case 4: text.resize(at); break;
    case 5: text.insert(at, dictionary_.empty() ? number() : any(dictionary_)); break;
    case 6: text.replace(at, length, below(2) == 0 || dictionary_.empty() ? number() : any(dictionary_)); break;
    default: {
      const std::string& other = any(corpus_);
      text = text.substr(0, at) + other.substr(below(other.size() + 1));
    }
  }
}

std::string Mutator::next() {
  std::string text = any(corpus_);
  for (std::size_t changes = 1 + below(4); changes > 0; --changes) change(text);
  if (text.size() > max_bytes_) text.resize(max_bytes_);
  return text;
}

}  // namespace quire::fuzz
