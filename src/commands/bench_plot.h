// A bar chart as an SVG document of its own: no script, no outside font or file, readable on light and dark. Shared by all benches; knows
// nothing of what the numbers are.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace quire::commands {

struct ChartBar {
  std::optional<double> value;  // at least 0; nullopt: no bar, only the note
  std::string note;             // beside the bar
};

struct ChartGroup {
  std::string label;
  std::vector<ChartBar> bars;  // one for each series
};

// Groups below each other that share an axis.
struct ChartPanel {
  std::string axis;  // what is measured, with its unit
  std::vector<ChartGroup> groups;
  double reference = 0.0;  // a line at this value; 0: none
  std::string reference_label;
};

struct BarChart {
  std::string title, subtitle;
  std::vector<std::string> series;
  std::vector<ChartPanel> panels;
};

[[nodiscard]] std::string svg_text(const BarChart& chart);

// The step between ticks of an axis up to `largest`: 1, 2 or 5 times a power of ten, four to ten of them.
[[nodiscard]] double tick_step(double largest);

}  // namespace quire::commands
