#include "selfcheck/agree.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace quire::selfcheck {
namespace {

using reference::Matrix;

constexpr const char* kCheck = "same bits as eager";

// The first rows, as many as the smaller has.
bool same_rows(const Matrix& a, const Matrix& b) {
  const auto n = static_cast<std::size_t>(std::min(a.rows, b.rows) * a.cols);
  return a.cols == b.cols && std::memcmp(a.values.data(), b.values.data(), n * sizeof(double)) == 0;
}

const LayerSnapshot* watched(const StepSnapshot& s, std::int32_t layer) {
  const auto found = std::find_if(s.layers.begin(), s.layers.end(), [layer](const LayerSnapshot& l) { return l.layer == layer; });
  return found == s.layers.end() ? nullptr : &*found;
}

// Both steps wrote the same tokens into the same blocks.
class Comparison {
 public:
  Comparison(const StepFacts& f, const StepSnapshot& eager, Tally& tally) : f_(f), eager_(eager), tally_(tally) {}

  // Keys and values of a layer come from what the layer before put out.
  void cells(std::int32_t layer) {
    const auto& mine = f_.step.cells[static_cast<std::size_t>(layer)];
    const auto& theirs = eager_.cells[static_cast<std::size_t>(layer)];
    if (mine == theirs) return;
    const std::size_t bytes = bytes_of(f_.cells.block_layout());
    for (std::size_t i = 0; i < f_.step.own.size(); ++i) {
      const BlockValues got = f_.cells.read(std::span(mine).subspan(i * bytes, bytes)), want = f_.cells.read(std::span(theirs).subspan(i * bytes, bytes));
      block(layer, f_.step.own[i].block, got.keys, want.keys, "key");
      block(layer, f_.step.own[i].block, got.values, want.values, "value");
    }
  }
  void attention(const LayerSnapshot& mine) {
    if (const LayerSnapshot* theirs = watched(eager_, mine.layer); theirs != nullptr) tokens(mine.layer, mine.attended, theirs->attended, "attention of layer " + std::to_string(mine.layer));
  }
  void head() {
    const std::int32_t last = f_.cells.num_layers() - 1;
    tokens(last, f_.step.projected, eager_.projected, "last layer's output");
    tokens(last, f_.step.hidden, eager_.hidden, "last hidden state");
    for (std::int64_t r = 0; r < f_.step.logits.rows; ++r)
      elements(r, f_.step.logits, eager_.logits, tally_.line(kCheck, row_class_name(f_.batch.rows[static_cast<std::size_t>(r)].row_class), last), "row " + std::to_string(r) + ", logit ");
  }

 private:
  void block(std::int32_t layer, std::int32_t block, const std::vector<double>& got, const std::vector<double>& want, const char* part) {
    const kv::KvLayout& one = f_.cells.block_layout();
    for (std::int64_t t = 0; t < f_.num_tokens(); ++t) {
      const std::int64_t slot = f_.step.slots[static_cast<std::size_t>(t)];
      if (slot / one.block_size != block) continue;
      Tally::Line line = tally_.line(kCheck, class_of(f_.batch, t), layer > 0 ? layer - 1 : kNoLayer);
      for (std::int32_t head = 0; head < one.num_kv_heads; ++head)
        for (std::int32_t d = 0; d < one.head_dim; ++d) {
          const auto at = static_cast<std::size_t>((std::int64_t{head} * one.block_size + slot % one.block_size) * one.head_dim + d);
          line.add(got[at], want[at], 0.0, [&] {
            const std::string from = layer > 0 ? "after the attention of layer " + std::to_string(layer - 1) + ": " : "before any attention: ";
            return from + part + " of " + f_.element_name(layer, t, head, d);
          });
        }
    }
  }
  void tokens(std::int32_t layer, const Matrix& got, const Matrix& want, const std::string& what) {
    for (std::int64_t t = 0; t < std::min(f_.num_tokens(), std::min(got.rows, want.rows)); ++t)
      elements(t, got, want, tally_.line(kCheck, class_of(f_.batch, t), layer), what + ": " + place_of(f_.batch, t) + ", column ");
  }
  static void elements(std::int64_t row, const Matrix& got, const Matrix& want, Tally::Line line, const std::string& name) {
    for (std::int64_t c = 0; c < got.cols; ++c) line.add(got.at(row, c), want.at(row, c), 0.0, [&] { return name + std::to_string(c); });
  }

  const StepFacts& f_;
  const StepSnapshot& eager_;
  Tally& tally_;
};

}  // namespace

bool same_bits(const StepSnapshot& a, const StepSnapshot& b) {
  if (a.slots != b.slots || a.cells != b.cells || a.tokens != b.tokens || a.foreign_bytes != b.foreign_bytes) return false;
  for (const LayerSnapshot& mine : a.layers) {
    const LayerSnapshot* theirs = watched(b, mine.layer);
    if (theirs != nullptr && !(same_rows(mine.qkv, theirs->qkv) && same_rows(mine.q, theirs->q) && same_rows(mine.attended, theirs->attended))) return false;
  }
  return same_rows(a.residual, b.residual) && same_rows(a.hidden, b.hidden) && same_rows(a.gate_up, b.gate_up) && same_rows(a.activated, b.activated) && same_rows(a.projected, b.projected) &&
         same_rows(a.gathered, b.gathered) && same_rows(a.logits, b.logits);
}

void audit_agreement(const StepFacts& f, const StepSnapshot& eager, Tally& tally) {
  for (const BatchRow& row : f.batch.rows) tally.line(kCheck, row_class_name(row.row_class)).add_equal("keys and values of every layer, attention, logits");
  if (same_bits(f.step, eager)) return;
  Comparison compare(f, eager, tally);
  for (std::int32_t layer = 0; layer < f.cells.num_layers(); ++layer) {
    compare.cells(layer);
    if (const LayerSnapshot* mine = watched(f.step, layer); mine != nullptr) compare.attention(*mine);
  }
  compare.head();
}

}  // namespace quire::selfcheck
