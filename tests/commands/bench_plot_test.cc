// The chart as a document: well formed, to scale, safe whatever the labels hold.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "base/files.h"
#include "commands/bench_plot.h"
#include "kit/file_limit.h"
#include "kit/temp_dir.h"

namespace quire::commands {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

BarChart example() {
  return {.title = "A < B & \"C\"",
          .subtitle = std::string("with\x01") + "controls",
          .series = {"ONE", "TWO"},
          .panels = {{.axis = "GB/s", .groups = {{"first", {{10.0, "1 ms"}, {5.0, "2 ms"}}}, {"second", {{std::nullopt, "skipped"}, {0.0, "none"}}}}, .reference = 20.0, .reference_label = "plain reads"}}};
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

// Widths of the rectangles of a series, in order; the legend's is the first.
std::vector<double> widths(const std::string& svg, const std::string& series) {
  std::vector<double> out;
  for (std::size_t at = svg.find("<rect x="); at != std::string::npos; at = svg.find("<rect x=", at + 1)) {
    const std::string element = svg.substr(at, svg.find("/>", at) - at);
    if (element.find("class=\"" + series + "\"") == std::string::npos) continue;
    const std::size_t width = element.find("width=\"") + 7;
    out.push_back(std::stod(element.substr(width)));
  }
  return out;
}

TEST(Chart, EveryElementIsClosed) {
  const std::string svg = svg_text(example());
  std::vector<std::string> open;
  for (std::size_t at = svg.find('<'); at != std::string::npos; at = svg.find('<', at + 1)) {
    const std::size_t end = svg.find('>', at);
    ASSERT_NE(end, std::string::npos);
    const std::string tag = svg.substr(at + 1, end - at - 1);
    if (tag.ends_with('/')) continue;
    if (tag.starts_with('/')) {
      ASSERT_FALSE(open.empty()) << tag;
      EXPECT_EQ(open.back(), tag.substr(1));
      open.pop_back();
    } else {
      open.push_back(tag.substr(0, tag.find(' ')));
    }
  }
  EXPECT_TRUE(open.empty());
}

TEST(Chart, TextIsEscaped) {
  const std::string svg = svg_text(example());
  EXPECT_THAT(svg, HasSubstr("A &lt; B &amp; &quot;C&quot;"));
  EXPECT_THAT(svg, HasSubstr("with controls"));
  EXPECT_THAT(svg, Not(HasSubstr("A < B")));
}

TEST(Chart, BarsAreToScaleAndMissingOnesAreSaid) {
  const std::string svg = svg_text(example());
  const auto one = widths(svg, "s0"), two = widths(svg, "s1");
  ASSERT_EQ(one.size(), 2u);  // legend, first
  ASSERT_EQ(two.size(), 3u);  // legend, first, second
  EXPECT_NEAR(one[1], 2.0 * two[1], 0.02);  // two decimals are printed
  EXPECT_EQ(two[2], 0.0);
  EXPECT_EQ(count(svg, ">skipped</text>"), 1u);
}

TEST(Chart, NamesWhatItShows) {
  const std::string svg = svg_text(example());
  for (const char* text : {">ONE<", ">TWO<", ">GB/s<", ">first<", ">second<", ">1 ms<", ">plain reads 20.0<", ">0<", ">20<"}) EXPECT_THAT(svg, HasSubstr(text));
  EXPECT_THAT(svg, HasSubstr("prefers-color-scheme:dark"));
  for (const char* outside : {"<script", "href", "url(", "@import"}) EXPECT_THAT(svg, Not(HasSubstr(outside)));
}

TEST(Chart, APanelShowsItsOwnSeries) {
  const std::string svg = svg_text({.title = "t", .series = {"A", "B", "C"}, .panels = {{.axis = "x", .groups = {{"g", {{4.0, "four"}}}}, .first_series = 1, .num_series = 1}, {.axis = "y", .groups = {{"h", {{2.0, "two"}}}}, .first_series = 2}}});
  EXPECT_EQ(widths(svg, "s0").size(), 1u) << "the legend alone";
  EXPECT_EQ(widths(svg, "s1").size(), 2u);
  EXPECT_EQ(widths(svg, "s2").size(), 2u);
  EXPECT_DEATH(svg_text({.title = "t", .series = {"A", "B"}, .panels = {{.axis = "x", .groups = {{"g", {{4.0, "four"}}}}}}}), "g");
}

TEST(Chart, NothingMeasuredIsStillAChart) {
  EXPECT_THAT(svg_text({.title = "t"}), HasSubstr("</svg>"));
  EXPECT_THAT(svg_text({.title = "t", .series = {"A"}, .panels = {{.axis = "x", .groups = {{"g", {{std::nullopt, "skipped"}}}}}}}), HasSubstr(">skipped<"));
}

std::string content_of(const std::string& path) { return read_file(path, 1u << 20).value(); }

TEST(PlotFile, AskingWhetherItCanBeWrittenLeavesWhatIsThere) {
  const test::TempDir dir;
  const std::string old = dir.write("old.svg", "the chart of yesterday");
  EXPECT_TRUE(check_plot(old).ok());
  EXPECT_EQ(content_of(old), "the chart of yesterday");
  EXPECT_TRUE(check_plot(dir.path() + "/new.svg").ok());
  EXPECT_FALSE(file_exists(dir.path() + "/new.svg")) << "nothing is promised yet";
  EXPECT_TRUE(check_plot("/dev/null").ok());
  EXPECT_THAT(check_plot(dir.path()).error().message, HasSubstr("it is a folder; a file is needed"));
  const Status nowhere = check_plot(dir.path() + "/no/such/folder.svg");
  EXPECT_THAT(nowhere.error().message, AllOf(HasSubstr("--plot '"), HasSubstr("cannot be written"), HasSubstr("No such file or directory")));
}

TEST(PlotFile, IsReplacedWholeOrNotAtAll) {
  const test::TempDir dir;
  const std::string old = dir.write("old.svg", "the chart of yesterday");
  {
    const test::FileLimit limit(100);
    EXPECT_THAT(write_plot(old, svg_text(example())).error().message, HasSubstr("File too large"));
  }
  EXPECT_EQ(content_of(old), "the chart of yesterday");
  EXPECT_FALSE(file_exists(old + ".partial"));
  EXPECT_TRUE(write_plot(old, svg_text(example())).ok());
  EXPECT_EQ(content_of(old), svg_text(example()));
}

TEST(PlotFile, LinksStayLinksAndDevicesDevices) {
  const test::TempDir dir;
  const std::string file = dir.write("chart.svg", "old"), link = dir.path() + "/link.svg";
  ASSERT_EQ(::symlink("chart.svg", link.c_str()), 0);
  EXPECT_TRUE(write_plot(link, "new").ok());
  EXPECT_EQ(content_of(file), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  const std::string device = dir.path() + "/device.svg";
  ASSERT_EQ(::symlink("/dev/null", device.c_str()), 0);
  EXPECT_TRUE(check_plot(device).ok());
  EXPECT_TRUE(write_plot(device, "new").ok());
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  ASSERT_EQ(::symlink("/dev/full", (dir.path() + "/full.svg").c_str()), 0);
  EXPECT_THAT(write_plot(dir.path() + "/full.svg", "new").error().message, HasSubstr("No space left on device"));
}

TEST(Ticks, StepsAreRoundAndFew) {
  for (double largest = 1e-6; largest < 1e7; largest *= 1.37) {
    const double step = tick_step(largest), leading = step / std::pow(10.0, std::floor(std::log10(step) + 1e-9));
    EXPECT_TRUE(std::fabs(leading - 1) < 1e-9 || std::fabs(leading - 2) < 1e-9 || std::fabs(leading - 5) < 1e-9) << step;
    EXPECT_LE(largest / step, 10.0);
    EXPECT_GE(largest / step, 2.0);
  }
}

}  // namespace
}  // namespace quire::commands
