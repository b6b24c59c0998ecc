// A bar chart as an SVG document of its own: no script, no outside font or file, readable on light and dark. Shared by benches and eval;
// knows nothing of what the numbers are.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace quire::commands {

struct ChartBar {
  std::optional<double> value;  // at least 0; nullopt: no bar, only the note
  std::string note;             // beside the bar
};

struct ChartGroup {
  std::string label;
  std::vector<ChartBar> bars;  // one for each series of the panel
};

// Groups below each other that share an axis.
struct ChartPanel {
  std::string axis;  // what is measured, with its unit
  std::vector<ChartGroup> groups;
  double reference = 0.0;  // a line at this value; 0: none
  std::string reference_label;
  std::size_t first_series = 0, num_series = 0;  // of the chart's, those that the panel shows; num_series 0: all from the first on
};

struct BarChart {
  std::string title, subtitle;
  std::vector<std::string> series;
  std::vector<ChartPanel> panels;
};

[[nodiscard]] std::string svg_text(const BarChart& chart);
// Before anything is measured: whether the file that --plot names can be written. What is there stays as it is.
[[nodiscard]] Status check_plot(const std::string& path);
// A file that is there is replaced when the new one is whole; a device or pipe is written to.
[[nodiscard]] Status write_plot(const std::string& path, const std::string& svg);

// The step between ticks of an axis up to `largest`: 1, 2 or 5 times a power of ten, four to ten of them.
[[nodiscard]] double tick_step(double largest);

}  // namespace quire::commands
