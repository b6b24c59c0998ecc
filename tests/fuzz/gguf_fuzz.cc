// Any bytes as a GGUF file: parsing ends in an error, or every tensor lies in the file, no two share a byte, and all that is made of the
// file (floats, a tokenizer.json, a tokenizer_config.json, a config.json, a ledger of its tensors) can be made.
#include <vector>

#include "base/check.h"
#include "base/json.h"
#include "fuzz/target.h"
#include "gguf/blocks.h"
#include "gguf/file.h"
#include "model/generation_fields.h"
#include "model/gguf_config.h"
#include "model/gguf_weights.h"
#include "model/kept_blocks.h"
#include "text/gguf_tokenizer.h"

namespace quire::fuzz {
namespace {

void check_json(const Result<std::string>& text) {
  if (text.ok()) {
    QUIRE_CHECK(parse_json(text.value(), {.max_bytes = std::size_t{1} << 30}).ok()) << text.value().substr(0, 1000);
  } else {
    QUIRE_CHECK(!text.error().message.empty());
  }
}

void check_model(const gguf::File& file) {
  const auto spec = model::gguf_model_spec(file);
  if (!spec.ok()) {
    QUIRE_CHECK(!spec.error().message.empty());
    return;
  }
  QUIRE_CHECK(spec->gguf.has_value());
  const Status ledger = model::check_gguf_tensors(file, spec.value());
  QUIRE_CHECK(ledger.ok() || !ledger.error().message.empty());
  const auto kept = model::kept_blocks(spec.value(), model::GgufWeights::kBlocks);
  QUIRE_CHECK(!spec->gguf->blocks.empty() || (kept.kept.empty() && kept.dequantised.empty())) << kept.kept;
}

}  // namespace

void fuzz_gguf(Input input) {
  const auto bytes = std::as_bytes(input);
  const auto file = gguf::File::parse(bytes, "input");
  if (!file.ok()) {
    QUIRE_CHECK(!file.error().message.empty());
    return;
  }
  QUIRE_CHECK_LE(file->data_offset(), bytes.size());
  const std::byte* covered = bytes.data() + file->data_offset();
  for (const auto& tensor : file->tensors()) {
    QUIRE_CHECK(tensor.bytes.data() >= covered && tensor.bytes.data() + tensor.bytes.size() <= bytes.data() + bytes.size()) << tensor.name;
    covered = tensor.bytes.data() + tensor.bytes.size();
    std::int64_t elements = 1;
    for (const std::int64_t length : tensor.shape) elements *= length;
    std::vector<float> values(static_cast<std::size_t>(elements));
    gguf::dequantise(tensor.type, tensor.bytes, values);
  }
  check_json(text::gguf_tokenizer_json(file.value()));
  check_json(text::gguf_tokenizer_config_json(file.value()));
  check_json(model::gguf_config_json(file.value()));
  for (const std::string& wrong : model::read_generation_fields(model::gguf_sampling(file.value()), 1 << 20).wrong) QUIRE_CHECK(!wrong.empty());
  check_model(file.value());
}

}  // namespace quire::fuzz
