// Constraints on the next token (JSON schema, regular expression, Lark grammar, choice), through llguidance.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "text/tokenizer.h"

namespace quire::text {

enum class ConstraintKind {
  kJsonSchema,  // source: a JSON schema
  kJsonObject,  // any JSON object; source ignored
  kRegex,       // source: a regular expression (Rust syntax) for the whole output
  kLark,        // source: a Lark grammar with a rule `start`
  kChoice,      // source: a JSON array of strings
};

// One request's constraint. One thread at a time.
class Constraint {
 public:
  ~Constraint();
  Constraint(const Constraint&) = delete;
  Constraint& operator=(const Constraint&) = delete;

  // Bit i of words[i / 32] becomes 1 for every token that may come next, 0 for every other. Shape: at least
  // ceil(vocab_size / 32) words. kTooLarge when the grammar's own limits are hit.
  [[nodiscard]] Status next_mask(std::span<std::uint32_t> words);
  // kInvalidArgument when the grammar does not allow `token` here; the state is then unchanged.
  [[nodiscard]] Status commit(TokenId token);
  // True when the output so far is complete.
  [[nodiscard]] Result<bool> is_accepting();
  // True when only the end token may follow.
  [[nodiscard]] bool is_stopped() const;

 private:
  friend class Grammars;
  struct Impl;
  explicit Constraint(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// The tokenizer's vocabulary as the grammar engine sees it; built once per model, shared by all threads.
class Grammars {
 public:
  // `eos`: the tokens that may end an accepted output; at least one.
  [[nodiscard]] static Result<std::shared_ptr<const Grammars>> create(std::shared_ptr<const Tokenizer> tokenizer, std::span<const TokenId> eos);
  ~Grammars();
  Grammars(const Grammars&) = delete;
  Grammars& operator=(const Grammars&) = delete;

  // kInvalidArgument: the grammar is wrong or uses what the engine lacks; kTooLarge: over the limits of size (256 KiB
  // of source, 200,000 symbols, 10,000 choices).
  [[nodiscard]] Result<std::unique_ptr<Constraint>> constraint(ConstraintKind kind, const std::string& source) const;

 private:
  struct Impl;
  explicit Grammars(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire::text
