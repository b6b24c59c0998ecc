#include "commands/bench_plot.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "base/check.h"
#include "base/output_file.h"
#include "base/text.h"
#include "config/problems.h"

namespace quire::commands {
namespace {

namespace fs = std::filesystem;

// Pixels.
constexpr double kWidth = 960, kMargin = 20, kLabels = 190, kNotes = 90;
constexpr double kBar = 13, kBarGap = 2, kGroupGap = 9, kPanelHead = 46, kPanelFoot = 58, kHead = 84;
constexpr double kLeft = kMargin + kLabels, kRight = kWidth - kMargin - kNotes;

constexpr std::string_view kStyle =
    "<style>\n"
    "text{font-family:system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;font-size:12px;fill:#1f2328}\n"
    ".back{fill:#ffffff}.title{font-size:17px;font-weight:600}.dim{fill:#59636e}.axis{font-weight:600}\n"
    ".grid{stroke:#d1d9e0;stroke-width:1}.base{stroke:#59636e;stroke-width:1}.mark{stroke:#b3261e;stroke-width:1.5;stroke-dasharray:5 3}.marked{fill:#b3261e}\n"
    ".s0{fill:#2a6fb8}.s1{fill:#c2611a}.s2{fill:#3b8a4a}.s3{fill:#7a51b0}\n"
    "@media (prefers-color-scheme:dark){\n"
    "text{fill:#e6edf3}.back{fill:#0d1117}.dim{fill:#9aa4af}\n"
    ".grid{stroke:#30363d}.base{stroke:#9aa4af}.mark{stroke:#ff8a80}.marked{fill:#ff8a80}\n"
    ".s0{fill:#6aaef2}.s1{fill:#f0a05a}.s2{fill:#6cc47c}.s3{fill:#b494e6}\n"
    "}\n"
    "</style>\n";
constexpr std::size_t kColours = 4;

// Text of an XML document; control characters, which it cannot hold, become spaces.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

std::string number(double value) { return formatted("%.2f", value); }

// Digits that a multiple of `step` needs.
std::string tick_text(double value, double step) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", step >= 1.0 ? 0 : static_cast<int>(std::ceil(-std::log10(step) - 1e-9)), value);
  return text;
}

enum class Anchor { kStart, kMiddle, kEnd };

std::string text_at(double x, double y, Anchor anchor, std::string_view style, std::string_view text) {
  const char* word = anchor == Anchor::kStart ? "start" : anchor == Anchor::kMiddle ? "middle" : "end";
  return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" text-anchor=\"" + word + "\"" + (style.empty() ? "" : " class=\"" + std::string(style) + "\"") + ">" + escaped(text) + "</text>\n";
}

std::string line(double x1, double y1, double x2, double y2, std::string_view style) {
  return "<line x1=\"" + number(x1) + "\" y1=\"" + number(y1) + "\" x2=\"" + number(x2) + "\" y2=\"" + number(y2) + "\" class=\"" + std::string(style) + "\"/>\n";
}

std::string bar(double x, double y, double width, std::size_t series) {
  return "<rect x=\"" + number(x) + "\" y=\"" + number(y) + "\" width=\"" + number(width) + "\" height=\"" + number(kBar) + "\" class=\"s" + std::to_string(series % kColours) + "\"/>\n";
}

std::size_t num_series(const BarChart& chart, const ChartPanel& panel) { return panel.num_series > 0 ? panel.num_series : chart.series.size() - panel.first_series; }

double group_height(const BarChart& chart, const ChartPanel& panel) { return static_cast<double>(num_series(chart, panel)) * (kBar + kBarGap) + kGroupGap; }

double panel_height(const BarChart& chart, const ChartPanel& panel) { return kPanelHead + static_cast<double>(panel.groups.size()) * group_height(chart, panel) + kPanelFoot; }

double largest_value(const ChartPanel& panel) {
  double largest = panel.reference;
  for (const ChartGroup& g : panel.groups)
    for (const ChartBar& b : g.bars) largest = std::max(largest, b.value.value_or(0.0));
  return largest > 0.0 ? largest : 1.0;
}

class PanelDrawing {
 public:
  PanelDrawing(const BarChart& chart, const ChartPanel& panel, double top)
      : chart_(chart), panel_(panel), top_(top + kPanelHead), bottom_(top_ + static_cast<double>(panel.groups.size()) * group_height(chart, panel)), step_(tick_step(largest_value(panel))),
        end_(step_ * std::ceil(largest_value(panel) / step_ - 1e-9)) {}

  std::string draw() const {
    std::string out = grid();
    double y = top_ + kGroupGap / 2;
    for (const ChartGroup& group : panel_.groups) {
      out += draw_group(group, y);
      y += group_height(chart_, panel_);
    }
    out += line(kLeft, top_, kLeft, bottom_, "base");
    if (panel_.reference > 0.0) {
      const double x = at(panel_.reference);
      out += line(x, top_ - 6, x, bottom_, "mark") + text_at(x, top_ - 11, x > (kLeft + kRight) / 2 ? Anchor::kEnd : Anchor::kStart, "marked", panel_.reference_label + " " + tick_text(panel_.reference, panel_.reference < 100.0 ? 0.1 : 1.0));
    }
    return out + text_at((kLeft + kRight) / 2, bottom_ + 36, Anchor::kMiddle, "axis", panel_.axis);
  }

 private:
  [[nodiscard]] double at(double value) const { return kLeft + value / end_ * (kRight - kLeft); }
  [[nodiscard]] std::string grid() const {
    std::string out;
    for (int i = 0; i * step_ <= end_ * (1.0 + 1e-9); ++i) {
      const double value = i * step_;
      out += line(at(value), top_, at(value), bottom_, "grid") + text_at(at(value), bottom_ + 16, Anchor::kMiddle, "dim", tick_text(value, step_));
    }
    return out;
  }
  [[nodiscard]] std::string draw_group(const ChartGroup& group, double y) const {
    QUIRE_CHECK_EQ(group.bars.size(), num_series(chart_, panel_)) << group.label;
    const double middle = y + (group_height(chart_, panel_) - kGroupGap) / 2;
    std::string out = text_at(kLeft - 8, middle + 4, Anchor::kEnd, "", group.label);
    for (std::size_t s = 0; s < group.bars.size(); ++s, y += kBar + kBarGap) {
      const ChartBar& b = group.bars[s];
      if (b.value) out += bar(kLeft, y, at(*b.value) - kLeft, panel_.first_series + s);
      out += text_at(at(b.value.value_or(0.0)) + 5, y + kBar - 2.5, Anchor::kStart, "dim", b.note);
    }
    return out;
  }

  const BarChart& chart_;
  const ChartPanel& panel_;
  double top_, bottom_, step_, end_;
};

std::string legend(const BarChart& chart) {
  std::string out;
  double x = kMargin;
  for (std::size_t s = 0; s < chart.series.size(); ++s) {
    out += bar(x, kHead - 20, kBar, s) + text_at(x + kBar + 6, kHead - 9, Anchor::kStart, "", chart.series[s]);
    x += kBar + 30 + 7.5 * static_cast<double>(chart.series[s].size());
  }
  return out;
}

// What --plot names. A rename would put a file in the place of a device or pipe, and of a link instead of what the link names.
struct PlotTarget {
  explicit PlotTarget(const std::string& given) : path(given) {
    std::error_code none;
    if (const fs::path real = fs::canonical(given, none); !none) path = real.string();
    kind = fs::status(path, none).type();
  }
  [[nodiscard]] bool exists() const { return kind != fs::file_type::not_found && kind != fs::file_type::none; }
  [[nodiscard]] bool replaceable() const { return kind == fs::file_type::regular || !exists(); }
  std::string path;
  fs::file_type kind = fs::file_type::none;
};

Error plot_error(const std::string& path, const std::string& why) { return Error{ErrorCode::kIo, "--plot " + config::quote_value(path) + ": cannot be written: " + why, "--plot"}; }

Status write_into(const std::string& path, std::string_view text) {
  auto file = OutputFile::open(path);
  if (!file.ok()) return file.error();
  QUIRE_RETURN_IF_ERROR(file->write(text));
  return file->sync();
}

}  // namespace

double tick_step(double largest) {
  QUIRE_CHECK(largest > 0.0 && std::isfinite(largest)) << largest;
  const double power = std::pow(10.0, std::floor(std::log10(largest)));
  for (const double step : {0.1, 0.2, 0.5, 1.0, 2.0})
    if (largest / (step * power) <= 8.0) return step * power;
  return 2.0 * power;
}

std::string svg_text(const BarChart& chart) {
  double height = kHead;
  for (const ChartPanel& panel : chart.panels) height += panel_height(chart, panel);
  std::string out = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + number(kWidth) + "\" height=\"" + number(height) + "\" viewBox=\"0 0 " + number(kWidth) + " " + number(height) + "\" role=\"img\">\n";
  out += "<title>" + escaped(chart.title) + "</title>\n" + std::string(kStyle);
  out += "<rect width=\"" + number(kWidth) + "\" height=\"" + number(height) + "\" class=\"back\"/>\n";
  out += text_at(kMargin, 30, Anchor::kStart, "title", chart.title) + text_at(kMargin, 50, Anchor::kStart, "dim", chart.subtitle) + legend(chart);
  double y = kHead;
  for (const ChartPanel& panel : chart.panels) {
    out += PanelDrawing(chart, panel, y).draw();
    y += panel_height(chart, panel);
  }
  return out + "</svg>\n";
}

Status check_plot(const std::string& path) {
  const PlotTarget target(path);
  if (target.kind == fs::file_type::directory) return plot_error(path, "it is a folder; a file is needed");
  if (target.exists() && ::access(target.path.c_str(), W_OK) != 0) return plot_error(path, std::strerror(errno));
  if (!target.replaceable()) return {};
  const Status can = check_whole_file(target.path);
  return can.ok() ? Status() : Status(plot_error(path, can.error().message));
}

Status write_plot(const std::string& path, const std::string& svg) {
  const PlotTarget target(path);
  const Status written = target.replaceable() ? write_whole_file(target.path, svg) : write_into(target.path, svg);
  return written.ok() ? Status() : Status(plot_error(path, written.error().message));
}

}  // namespace quire::commands
