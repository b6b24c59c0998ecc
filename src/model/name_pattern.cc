// The automaton is Thompson's: every part of a pattern has one state to enter and one to leave, and joining parts adds a state or two.
#include "model/name_pattern.h"

#include <optional>
#include <utility>

#include "base/json.h"

namespace quire::model {
namespace {

constexpr std::size_t kMaxGroups = 64;  // open at the same time

Error refused(std::string_view text, const std::string& why) { return Error{ErrorCode::kUnsupported, "pattern " + shown_text(text) + ": " + why, {}}; }

template <class Test>
std::bitset<256> bytes_where(Test test) {
  std::bitset<256> out;
  for (int c = 0; c < 256; ++c)
    if (test(static_cast<unsigned char>(c))) out.set(static_cast<std::size_t>(c));
  return out;
}

bool is_digit(unsigned char c) { return c >= '0' && c <= '9'; }
bool is_letter(unsigned char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_word(unsigned char c) { return is_digit(c) || is_letter(c) || c == '_'; }
bool is_space(unsigned char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// What \X stands for; nullopt: not implemented.
std::optional<std::bitset<256>> escaped(char c) {
  switch (c) {
    case 'd': return bytes_where(is_digit);
    case 'D': return ~bytes_where(is_digit);
    case 'w': return bytes_where(is_word);
    case 'W': return ~bytes_where(is_word);
    case 's': return bytes_where(is_space);
    case 'S': return ~bytes_where(is_space);
    default: break;
  }
  const auto u = static_cast<unsigned char>(c);
  if (is_digit(u) || is_letter(u)) return std::nullopt;
  return bytes_where([u](unsigned char x) { return x == u; });
}

}  // namespace

// One run of regex() or glob().
class PatternCompiler {
 public:
  explicit PatternCompiler(std::string_view text) : text_(text) {}

  Result<NamePattern> regex() {
    frames_.emplace_back();
    while (at_ < text_.size()) QUIRE_RETURN_IF_ERROR(regex_part());
    if (frames_.size() > 1) return refused(text_, "a group is not closed");
    finish(frames_.back());
    return accept(*frames_.back().alternatives);
  }

  Result<NamePattern> glob() {
    frames_.emplace_back();
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == '*') {
        add(part(~NamePattern::ByteSet()));
        QUIRE_RETURN_IF_ERROR(repeat('*'));
      } else if (c == '?') {
        add(part(~NamePattern::ByteSet()));
      } else if (c == '[') {
        QUIRE_RETURN_IF_ERROR(set('!'));
      } else {
        add(literal(c));
      }
    }
    add(part(NamePattern::Step::kEnd));
    finish(frames_.back());
    return accept(*frames_.back().alternatives);
  }

 private:
  // Part of the automaton; `last` is a kJump without a target yet.
  struct Part {
    std::uint32_t first, last;
    bool repeatable = true;  // an assertion is not
  };
  struct Frame {
    std::optional<Part> alternatives, sequence, last;  // before the last `|`; since then; the part that a `*` would repeat
  };

  std::uint32_t state(NamePattern::Step step, std::uint32_t next = 0, std::uint32_t other = 0) {
    out_.states_.push_back({step, next, other});
    return static_cast<std::uint32_t>(out_.states_.size() - 1);
  }
  std::uint32_t open_end() { return state(NamePattern::Step::kJump); }
  Part empty() {
    const std::uint32_t end = open_end();
    return {end, end};
  }
  Part part(const NamePattern::ByteSet& bytes) {
    out_.sets_.push_back(bytes);
    const std::uint32_t end = open_end();
    return {state(NamePattern::Step::kBytes, end, static_cast<std::uint32_t>(out_.sets_.size() - 1)), end};
  }
  Part part(NamePattern::Step assertion) {
    const std::uint32_t end = open_end();
    return {state(assertion, end), end, false};
  }
  Part literal(char c) {
    const auto u = static_cast<unsigned char>(c);
    return part(bytes_where([u](unsigned char x) { return x == u; }));
  }
  Part joined(const Part& a, const Part& b) {
    out_.states_[a.last].next = b.first;
    return {a.first, b.last};
  }
  Part either(const Part& a, const Part& b) {
    const std::uint32_t end = open_end();
    out_.states_[a.last].next = end;
    out_.states_[b.last].next = end;
    return {state(NamePattern::Step::kFork, a.first, b.first), end};
  }

  // The part that came last joins the sequence before it.
  void settle(Frame& f) {
    if (f.last) f.sequence = f.sequence ? joined(*f.sequence, *f.last) : *f.last;
    f.last.reset();
  }
  void add(const Part& p) {
    settle(frames_.back());
    frames_.back().last = p;
  }
  void finish(Frame& f) {
    settle(f);
    const Part p = f.sequence ? *f.sequence : empty();
    f.alternatives = f.alternatives ? either(*f.alternatives, p) : p;
    f.sequence.reset();
  }
  Status repeat(char how) {
    std::optional<Part>& last = frames_.back().last;
    if (!last || !last->repeatable) return refused(text_, std::string("nothing to repeat before '") + how + "'");
    const std::uint32_t end = open_end(), fork = state(NamePattern::Step::kFork, last->first, end);
    out_.states_[last->last].next = how == '?' ? end : fork;
    last = Part{how == '+' ? last->first : fork, end, false};  // Python refuses to repeat a repetition too
    return {};
  }

  Status regex_part() {
    const char c = text_[at_++];
    switch (c) {
      case '(': return open_group();
      case ')':
        if (frames_.size() == 1) return refused(text_, "')' closes nothing");
        close_group();
        return {};
      case '|': finish(frames_.back()); return {};
      case '*':
      case '+':
      case '?':
        QUIRE_RETURN_IF_ERROR(repeat(c));
        if (at_ < text_.size() && text_[at_] == '?') ++at_;
        return {};
      case '{': return refused(text_, "counts ({2,3}) are not implemented");
      case '[': return set('^');
      case '.': add(part(bytes_where([](unsigned char x) { return x != '\n'; }))); return {};
      case '^': add(part(NamePattern::Step::kBegin)); return {};
      case '$': add(part(NamePattern::Step::kEnd)); return {};
      case '\\': {
        const auto bytes = at_ < text_.size() ? escaped(text_[at_++]) : std::nullopt;
        if (!bytes) return refused(text_, "this '\\' is not implemented (only \\d \\D \\w \\W \\s \\S and escaped punctuation)");
        add(part(*bytes));
        return {};
      }
      default: add(literal(c)); return {};
    }
  }

  Status open_group() {
    if (at_ < text_.size() && text_[at_] == '?') {
      if (!text_.substr(at_).starts_with("?:")) return refused(text_, "lookaround, flags and named groups are not implemented");
      at_ += 2;
    }
    if (frames_.size() > kMaxGroups) return refused(text_, "more than " + std::to_string(kMaxGroups) + " groups inside each other");
    frames_.emplace_back();
    return {};
  }
  void close_group() {
    finish(frames_.back());
    Part group = *frames_.back().alternatives;
    group.repeatable = true;
    frames_.pop_back();
    add(group);
  }

  // Behind '['. A ']' that comes first is a member.
  Status set(char negation) {
    NamePattern::ByteSet bytes;
    const bool negated = at_ < text_.size() && text_[at_] == negation;
    if (negated) ++at_;
    for (bool first = true;; first = false) {
      if (at_ >= text_.size()) return refused(text_, "'[' is not closed");
      char c = text_[at_++];
      if (c == ']' && !first) break;
      if (c == '\\' && negation == '^') {
        const auto known = at_ < text_.size() ? escaped(text_[at_++]) : std::nullopt;
        if (!known) return refused(text_, "this '\\' is not implemented in a set");
        // Python reads a range here; one that begins with an escape is written otherwise.
        if (at_ + 1 < text_.size() && text_[at_] == '-' && text_[at_ + 1] != ']') return refused(text_, "a range in a set begins with a plain character");
        bytes |= *known;
        continue;
      }
      char to = c;
      if (at_ + 1 < text_.size() && text_[at_] == '-' && text_[at_ + 1] != ']') {
        to = text_[at_ + 1];
        at_ += 2;
        if (to == '\\' || static_cast<unsigned char>(to) < static_cast<unsigned char>(c)) return refused(text_, "a range in a set goes from a lower to a higher character");
      }
      bytes |= bytes_where([&](unsigned char x) { return x >= static_cast<unsigned char>(c) && x <= static_cast<unsigned char>(to); });
    }
    add(part(negated ? ~bytes : bytes));
    return {};
  }

  NamePattern accept(const Part& whole) {
    out_.start_ = whole.first;
    out_.states_[whole.last].next = state(NamePattern::Step::kAccept);
    return std::move(out_);
  }

  std::string_view text_;
  std::size_t at_ = 0;
  NamePattern out_;
  std::vector<Frame> frames_;  // open groups, the whole pattern first
};

Result<NamePattern> NamePattern::regex(std::string_view text) {
  if (text.size() > kMaxBytes) return refused(text, "longer than " + std::to_string(kMaxBytes) + " bytes");
  return PatternCompiler(text).regex();
}

Result<NamePattern> NamePattern::glob(std::string_view text) {
  if (text.size() > kMaxBytes) return refused(text, "longer than " + std::to_string(kMaxBytes) + " bytes");
  return PatternCompiler(text).glob();
}

void NamePattern::follow(std::uint32_t from, std::string_view name, std::size_t at, std::vector<std::uint32_t>& reached, std::vector<bool>& seen) const {
  std::vector<std::uint32_t> open{from};
  while (!open.empty()) {
    const std::uint32_t id = open.back();
    open.pop_back();
    if (seen[id]) continue;
    seen[id] = true;
    const State& s = states_[id];
    switch (s.step) {
      case Step::kBytes:
      case Step::kAccept: reached.push_back(id); break;
      case Step::kFork:
        open.push_back(s.next);
        open.push_back(s.other);
        break;
      case Step::kJump: open.push_back(s.next); break;
      case Step::kBegin:
        if (at == 0) open.push_back(s.next);
        break;
      case Step::kEnd:
        if (at == name.size()) open.push_back(s.next);
        break;
    }
  }
}

bool NamePattern::matches(std::string_view name) const {
  std::vector<std::uint32_t> now, next;
  std::vector<bool> seen(states_.size());
  follow(start_, name, 0, now, seen);
  for (std::size_t i = 0;; ++i) {
    for (const std::uint32_t id : now)
      if (states_[id].step == Step::kAccept) return true;
    if (i == name.size() || now.empty()) return false;
    next.clear();
    seen.assign(states_.size(), false);
    for (const std::uint32_t id : now)
      if (sets_[states_[id].other][static_cast<unsigned char>(name[i])]) follow(states_[id].next, name, i + 1, next, seen);
    now.swap(next);
  }
}

}  // namespace quire::model
