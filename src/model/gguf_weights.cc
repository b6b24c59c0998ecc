#include "model/gguf_weights.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/log.h"
#include "gguf/blocks.h"
#include "model/finite_scan.h"
#include "model/gguf_architectures.h"
#include "model/ledger_names.h"

namespace quire::model {
namespace {

// A tensor of the file that holds a parameter.
struct Place {
  const gguf::Tensor* tensor = nullptr;
  std::int64_t alternating = 0;  // rows of a head whose halves alternate in the file; 0: rows lie as ours do
};

const GgufArchitecture& architecture_of(const ModelSpec& spec) {
  const GgufArchitecture* found = gguf_architecture_of(spec.architecture);
  QUIRE_CHECK(found != nullptr) << spec.architecture << " came from no GGUF file";
  return *found;
}

bool is_rope_projection(std::string_view parameter) { return parameter.find(".self_attn.q_proj.") != std::string_view::npos || parameter.find(".self_attn.k_proj.") != std::string_view::npos; }

// Every parameter's place; what has none is in `error`.
class Ledger {
 public:
  Ledger(const gguf::File& file, const ModelSpec& spec) : file_(file), spec_(spec), architecture_(architecture_of(spec)) {
    for (const gguf::Tensor& t : file.tensors()) by_name_.emplace(t.name, &t);
  }

  Status place_all() {
    for (const ParameterSpec& p : parameters_of(spec_)) place(p);
    std::string text;
    const auto say = [&](const std::vector<std::string>& names, const char* what) {
      if (!names.empty()) text += (text.empty() ? "" : "; ") + std::to_string(names.size()) + what + first_names(names);
    };
    say(missing_, " missing tensors: ");
    say(lying_, " tensors of another shape: ");
    say(blocks_, " vectors in blocks: ");
    if (text.empty()) return {};
    return Error{ErrorCode::kCorrupt, file_.name() + ": " + text, {}};
  }
  [[nodiscard]] std::map<std::string, Place>& places() { return places_; }
  // Names of tensors that no parameter uses.
  [[nodiscard]] std::vector<std::string> unused() const {
    std::set<std::string_view> used = {kGgufRopeFactors};
    for (const auto& [name, place] : places_) used.insert(place.tensor->name);
    std::vector<std::string> out;
    for (const gguf::Tensor& t : file_.tensors())
      if (!used.contains(t.name)) out.push_back(shown_text(t.name));
    return out;
  }

 private:
  void place(const ParameterSpec& p) {
    const std::string name = gguf_tensor_name(architecture_, p.name);
    QUIRE_CHECK(!name.empty()) << p.name << " has no name in a GGUF file of " << architecture_.name;
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) return missing_.push_back(name);
    const gguf::Tensor& t = *found->second;
    if (t.shape != p.shape) return lying_.push_back(name + " is " + shape_text(t.shape) + ", the metadata say " + shape_text(p.shape));
    if (t.shape.size() == 1 && gguf::is_quantised(t.type)) return blocks_.push_back(name + " is " + std::string(gguf::facts_of(t.type).name) + " (F32, F16 and BF16 are read)");
    const bool alternating = architecture_.qk_rows == GgufQkRows::kAlternating && is_rope_projection(p.name);
    places_[p.name] = {&t, alternating ? spec_.head_dim : 0};
  }

  const gguf::File& file_;
  const ModelSpec& spec_;
  const GgufArchitecture& architecture_;
  std::map<std::string_view, const gguf::Tensor*> by_name_;
  std::map<std::string, Place> places_;
  std::vector<std::string> missing_, lying_, blocks_;
};

// Rows of `bytes`, which lie as GgufQkRows::kAlternating says, into the model's order.
void straighten(std::span<const std::byte> bytes, std::int64_t rows, std::int64_t head_dim, std::vector<std::byte>& out) {
  const std::size_t row_bytes = bytes.size() / static_cast<std::size_t>(rows);
  const std::int64_t half = head_dim / 2;
  out.resize(bytes.size());
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t in_head = r % head_dim;
    const std::int64_t from = r - in_head + 2 * (in_head % half) + in_head / half;
    std::memcpy(out.data() + static_cast<std::size_t>(r) * row_bytes, bytes.data() + static_cast<std::size_t>(from) * row_bytes, row_bytes);
  }
}

DType plain_dtype(gguf::TensorType type) { return type == gguf::TensorType::kF32 ? DType::kF32 : type == gguf::TensorType::kF16 ? DType::kF16 : DType::kBF16; }

class GgufSource final : public WeightSource {
 public:
  GgufSource(gguf::File file, std::map<std::string, Place> places, std::vector<std::string> ignored) : file_(std::move(file)), places_(std::move(places)), ignored_(std::move(ignored)) {}

  Result<Raw> read(const ParameterSpec& parameter) override {
    const auto found = places_.find(parameter.name);
    QUIRE_CHECK(found != places_.end()) << parameter.name << " was not part of the ledger";
    const Raw raw = numbers(found->second);
    if (const auto bad = first_non_finite(raw.dtype, raw.bytes)) {
      const gguf::Tensor& t = *found->second.tensor;
      return Error{ErrorCode::kCorrupt, file_.name() + ": tensor " + shown_text(t.name) + " of shape " + shape_text(t.shape) + " holds NaN or infinity, first at element " + std::to_string(*bad) + " of " + parameter.name, {}};
    }
    return raw;
  }
  Result<Blocks> read_blocks(const ParameterSpec& parameter) override {
    const auto found = places_.find(parameter.name);
    QUIRE_CHECK(found != places_.end() && gguf::is_quantised(found->second.tensor->type)) << parameter.name << " is in no blocks";
    return Blocks{found->second.tensor->type, rows(found->second, buffers())};
  }
  std::vector<std::string> ignored_tensors() const override { return ignored_; }

 private:
  // What a thread's last answer lies in.
  struct Buffers {
    std::vector<std::byte> rows;
    std::vector<float> floats;
  };

  Raw numbers(const Place& place) {
    const gguf::Tensor& t = *place.tensor;
    const bool blocks = gguf::is_quantised(t.type);
    if (!blocks && place.alternating == 0) return {plain_dtype(t.type), t.bytes};
    Buffers& mine = buffers();
    const std::span<const std::byte> bytes = rows(place, mine);
    if (!blocks) return {plain_dtype(t.type), bytes};
    mine.floats.resize(static_cast<std::size_t>(t.shape.front() * t.shape.back()));
    gguf::dequantise(t.type, bytes, mine.floats);
    return {DType::kF32, std::as_bytes(std::span(mine.floats))};
  }
  // As the file holds them, in the model's order.
  static std::span<const std::byte> rows(const Place& place, Buffers& mine) {
    const gguf::Tensor& t = *place.tensor;
    if (place.alternating == 0) return t.bytes;
    straighten(t.bytes, t.shape.front(), place.alternating, mine.rows);
    return mine.rows;
  }
  Buffers& buffers() {
    const std::scoped_lock lock(mutex_);
    return buffers_[std::this_thread::get_id()];  // a map's values stay where they are
  }

  gguf::File file_;
  std::map<std::string, Place> places_;
  std::vector<std::string> ignored_;
  std::mutex mutex_;
  std::map<std::thread::id, Buffers> buffers_;
};

}  // namespace

Status check_gguf_tensors(const gguf::File& file, const ModelSpec& spec) { return Ledger(file, spec).place_all(); }

Result<std::unique_ptr<WeightSource>> open_gguf_weights(const std::string& path, const ModelSpec& spec, const WeightRules& rules) {
  auto file = gguf::File::open(path);
  if (!file.ok()) return file.error();
  Ledger ledger(file.value(), spec);
  QUIRE_RETURN_IF_ERROR(ledger.place_all());
  std::vector<std::string> unused = ledger.unused();
  if (!unused.empty()) {
    const std::string text = path + ": " + std::to_string(unused.size()) + " tensors that " + spec.architecture + " does not use: " + first_names(unused);
    if (rules.unused == UnusedTensors::kRefused) return Error{ErrorCode::kUnsupported, text + "; '--relaxed unused-tensors' serves without them", {}};
    QUIRE_LOG_WARN("{} (ignored: --relaxed unused-tensors)", text);
  }
  // Tensors lie in a vector, whose elements stay where they are when the file moves.
  return std::unique_ptr<WeightSource>(std::make_unique<GgufSource>(std::move(file).value(), std::move(ledger.places()), std::move(unused)));
}

}  // namespace quire::model
