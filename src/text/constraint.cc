// Constraints: calls across the C ABI. Owned by src/text.
#include "text/constraint.h"

#include "text/ffi_handles.h"
#include "text/tokenizer_impl.h"

namespace quire::text {
namespace {

const char* kind_name(ConstraintKind kind) {
  switch (kind) {
    case ConstraintKind::kJsonSchema: return "json_schema";
    case ConstraintKind::kJsonObject: return "json_object";
    case ConstraintKind::kRegex: return "regex";
    case ConstraintKind::kLark: return "lark";
    case ConstraintKind::kChoice: return "choice";
  }
  return "";
}

}  // namespace

struct Constraint::Impl {
  ConstraintHandle handle;
};
struct Grammars::Impl {
  GrammarsHandle handle;
};

Constraint::Constraint(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Constraint::~Constraint() = default;
Grammars::Grammars(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Grammars::~Grammars() = default;

Result<std::shared_ptr<const Grammars>> Grammars::create(std::shared_ptr<const Tokenizer> tokenizer, std::span<const TokenId> eos) {
  for (const TokenId id : eos) {
    if (id < 0) return invalid("end token id " + std::to_string(id) + " is negative");
  }
  QuireTextGrammars* handle = nullptr;
  FfiBytes error;
  const auto* ids = reinterpret_cast<const std::uint32_t*>(eos.data());
  const auto status = quire_text_grammars_new(tokenizer->impl_->handle.get(), ids, eos.size(), &handle, error.out());
  if (status != QUIRE_TEXT_OK) return ffi_error(status, error);
  auto impl = std::make_unique<Impl>();
  impl->handle.reset(handle);
  return std::shared_ptr<const Grammars>(new Grammars(std::move(impl)));
}

Result<std::unique_ptr<Constraint>> Grammars::constraint(ConstraintKind kind, const std::string& source) const {
  QuireTextConstraint* handle = nullptr;
  FfiBytes error;
  const auto status = quire_text_constraint_new(impl_->handle.get(), slice(kind_name(kind)), slice(source), &handle, error.out());
  if (status != QUIRE_TEXT_OK) return ffi_error(status, error);
  auto impl = std::make_unique<Constraint::Impl>();
  impl->handle.reset(handle);
  return std::unique_ptr<Constraint>(new Constraint(std::move(impl)));
}

Status Constraint::next_mask(std::span<std::uint32_t> words) {
  FfiBytes error;
  const auto status = quire_text_constraint_mask(impl_->handle.get(), words.data(), words.size(), error.out());
  if (status != QUIRE_TEXT_OK) return ffi_error(status, error);
  return {};
}

Status Constraint::commit(TokenId token) {
  if (token < 0) return invalid("token id " + std::to_string(token) + " is negative");
  FfiBytes error;
  const auto status = quire_text_constraint_commit(impl_->handle.get(), static_cast<std::uint32_t>(token), error.out());
  if (status != QUIRE_TEXT_OK) return ffi_error(status, error);
  return {};
}

Result<bool> Constraint::is_accepting() {
  std::int32_t accepting = 0;
  FfiBytes error;
  const auto status = quire_text_constraint_accepting(impl_->handle.get(), &accepting, error.out());
  if (status != QUIRE_TEXT_OK) return ffi_error(status, error);
  return accepting != 0;
}

bool Constraint::is_stopped() const { return quire_text_constraint_stopped(impl_->handle.get()) == 1; }

}  // namespace quire::text
