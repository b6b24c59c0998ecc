// C++ owners for what the C ABI of ffi/quire_text.h gives out, and its statuses as Errors. Private to src/text.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "text/ffi/quire_text.h"

namespace quire::text {

template <auto kFree>
struct FreeWith {
  template <class T>
  void operator()(T* handle) const { kFree(handle); }
};
using TokenizerHandle = std::unique_ptr<QuireTextTokenizer, FreeWith<quire_text_tokenizer_free>>;
using TemplateHandle = std::unique_ptr<QuireTextTemplate, FreeWith<quire_text_template_free>>;
using GrammarsHandle = std::unique_ptr<QuireTextGrammars, FreeWith<quire_text_grammars_free>>;
using ConstraintHandle = std::unique_ptr<QuireTextConstraint, FreeWith<quire_text_constraint_free>>;

// A buffer that the crate filled.
class FfiBytes {
 public:
  FfiBytes() = default;
  FfiBytes(const FfiBytes&) = delete;
  FfiBytes& operator=(const FfiBytes&) = delete;
  ~FfiBytes() { quire_text_bytes_free(raw_); }
  [[nodiscard]] QuireTextBytes* out() { return &raw_; }
  [[nodiscard]] std::string str() const { return {reinterpret_cast<const char*>(raw_.data), raw_.len}; }

 private:
  QuireTextBytes raw_{};
};

class FfiIds {
 public:
  FfiIds() = default;
  FfiIds(const FfiIds&) = delete;
  FfiIds& operator=(const FfiIds&) = delete;
  ~FfiIds() { quire_text_ids_free(raw_); }
  [[nodiscard]] QuireTextIds* out() { return &raw_; }
  // The crate refuses vocabularies whose ids do not fit TokenId.
  [[nodiscard]] std::vector<TokenId> ids() const { return {raw_.data, raw_.data + raw_.len}; }

 private:
  QuireTextIds raw_{};
};

[[nodiscard]] inline QuireTextSlice slice(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

[[nodiscard]] inline Error ffi_error(std::int32_t status, const FfiBytes& words, std::string param = {}) {
  ErrorCode code = ErrorCode::kInternal;
  switch (status) {
    case QUIRE_TEXT_INVALID: code = ErrorCode::kInvalidArgument; break;
    case QUIRE_TEXT_CORRUPT: code = ErrorCode::kCorrupt; break;
    case QUIRE_TEXT_NOT_FOUND: code = ErrorCode::kNotFound; break;
    case QUIRE_TEXT_TOO_LARGE: code = ErrorCode::kTooLarge; break;
    default: break;
  }
  return Error{code, words.str(), std::move(param)};
}

}  // namespace quire::text
