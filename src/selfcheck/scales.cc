#include "selfcheck/scales.h"

#include <algorithm>
#include <cstdlib>

#include "base/text.h"
#include "selfcheck/tally.h"

namespace quire::selfcheck {
namespace {

using kv::Part;

// The scales that a mistake touches, in words and by part.
struct Mistake {
  const char* scales;
  const char* of_those;
  bool keys, values;
};
constexpr Mistake kParts[] = {{"the scale of K", "that of layer ", true, false}, {"the scale of V", "that of layer ", false, true}, {"the scales of K and V", "those of layer ", true, true}};

std::string number(double x) { return formatted("%.4g", x); }

class Suspects {
 public:
  Suspects(const ScalePlace& place, const std::function<bool(double, double)>& fits)
      : place_(place), fits_(fits), keys_(place.right.of(place.layer, Part::kKey, place.head)), values_(place.right.of(place.layer, Part::kValue, place.head)) {}

  // Factors first: another layer's scale may happen to be twice this one's.
  std::string find() {
    if (fits_(keys_, values_)) return {};
    fit(1.0, 1.0, [&](const Mistake& m) { return "dropped (1 instead of " + (m.keys ? number(keys_) : number(values_)) + (m.keys && m.values ? " and " + number(values_) : "") + ")"; });
    fit(2.0 * keys_, 2.0 * values_, [&](const Mistake& m) { return std::string(is_both(m) && place_.cache == DType::kFp8E4m3Fnuz ? "doubled: what FNUZ bytes read as OCP give" : "doubled"); });
    fit(0.5 * keys_, 0.5 * values_, [&](const Mistake& m) {
      return std::string(place_.cache == DType::kFp8E4m3Fnuz ? "halved: the factor 2 for FNUZ left out" : is_both(m) && place_.cache == DType::kFp8E4m3 ? "halved: what OCP bytes read as FNUZ give" : "halved");
    });
    if (found_.empty() && keys_ != values_ && fits_(values_, keys_)) return "as if the scales of K and V were swapped";
    for (const std::int32_t other : nearest_layers()) fit(place_.right.of(other, Part::kKey, place_.head), place_.right.of(other, Part::kValue, place_.head), [&](const Mistake& m) { return m.of_those + std::to_string(other); });
    return found_;
  }

 private:
  [[nodiscard]] static bool is_both(const Mistake& m) { return m.keys && m.values; }
  // Takes the first mistake that explains the numbers, with `keys` and `values` in place of the scales that it touches, and of that all the
  // parts that do: a token that sees one key alone tells nothing of K. Right scales are no mistake.
  template <class Text>
  void fit(double keys, double values, Text text) {
    if (!found_.empty()) return;
    for (const Mistake& m : kParts) {
      if ((m.keys && keys == keys_) || (m.values && values == values_) || !fits_(m.keys ? keys : keys_, m.values ? values : values_)) continue;
      found_ += (found_.empty() ? "as if " : ", or ") + std::string(m.scales) + " were " + text(m);
    }
  }
  // Others, by distance; the one after before the one before.
  [[nodiscard]] std::vector<std::int32_t> nearest_layers() const {
    std::vector<std::int32_t> out;
    for (std::int32_t l = 0; l < place_.right.num_layers; ++l)
      if (l != place_.layer) out.push_back(l);
    std::ranges::stable_sort(out, {}, [&](std::int32_t l) { return 2 * std::abs(l - place_.layer) - (l > place_.layer ? 1 : 0); });
    return out;
  }

  const ScalePlace& place_;
  const std::function<bool(double, double)>& fits_;
  double keys_, values_;
  std::string found_;
};

}  // namespace

double ScaleTable::of(std::int32_t layer, Part part, std::int32_t head) const {
  if (scales.empty()) return 1.0;
  const std::int32_t plane = (2 * layer + (part == Part::kKey ? 0 : 1)) * num_kv_heads + head;
  return static_cast<double>(scales.at(static_cast<std::size_t>(plane)));
}

std::string suspected_mistake(const ScalePlace& place, const std::function<bool(double keys, double values)>& fits) { return Suspects(place, fits).find(); }

std::vector<Verdict> compare_scales(const ScaleTable& held, const ScaleTable& right, DType cache) {
  if (right.scales.empty()) return {};
  Tally tally;
  for (std::int32_t layer = 0; layer < right.num_layers; ++layer)
    for (std::int32_t head = 0; head < right.num_kv_heads; ++head) {
      const double held_keys = held.of(layer, Part::kKey, head), held_values = held.of(layer, Part::kValue, head);
      const auto blame = [&](Tally::Line line) { line.blame(suspected_mistake({right, cache, layer, head}, [&](double keys, double values) { return keys == held_keys && values == held_values; })); };
      const auto compare = [&](Part part, double got, const char* what) {
        Tally::Line line = tally.line("KV scale", what, layer);
        if (line.add(got, right.of(layer, part, head), 0.0, [&] { return "layer " + std::to_string(layer) + ", " + what + " of head " + std::to_string(head); })) blame(line);
      };
      compare(Part::kKey, held_keys, "keys");
      compare(Part::kValue, held_values, "values");
    }
  return {tally.verdicts().begin(), tally.verdicts().end()};
}

}  // namespace quire::selfcheck
