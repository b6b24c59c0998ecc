// The whole cross product of requests against goldens/modes.txt, which tools/make_graph_mode_golden.py writes.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/files.h"
#include "graph/mode.h"

namespace quire::graph {
namespace {

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells(1);
  for (const char c : line) {
    if (c == '|')
      cells.emplace_back();
    else
      cells.back() += c;
  }
  for (std::string& cell : cells) {
    const std::size_t first = cell.find_first_not_of(' ');
    cell = first == std::string::npos ? "" : cell.substr(first, cell.find_last_not_of(' ') - first + 1);
  }
  return cells;
}

TEST(ModeGolden, WholeCrossProduct) {
  const auto text = read_file(QUIRE_SOURCE_DIR "/tests/graph/goldens/modes.txt", 1u << 20);
  ASSERT_TRUE(text.ok()) << text.error().message;
  std::istringstream lines(text.value());
  std::set<std::vector<std::string>> seen;
  std::size_t differences = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#')) continue;
    const auto cells = cells_of(line);
    ASSERT_EQ(cells.size(), 8u) << line;
    const auto support =
        std::find_if(kGraphSupports.begin(), kGraphSupports.end(), [&](GraphSupport s) { return graph_support_name(s) == cells[1]; });
    ASSERT_NE(support, kGraphSupports.end()) << line;
    ModeRequest request{.attention = {"ROW", *support}};
    if (cells[0] != "-") request.asked = parse_graph_mode(cells[0]).value();
    request.can_split_at_attention = cells[2] == "yes";
    request.decode_query_len = std::stoi(cells[3]);
    request.enforce_eager = cells[4] == "yes";
    const auto resolved = resolve_graph_mode(request);
    EXPECT_EQ(resolved.ok() ? graph_mode_name(resolved->mode) : "error", cells[5]) << line;
    // What differs from vLLM says why; what does not has nothing to say.
    EXPECT_EQ(cells[5] == cells[6], cells[7].empty()) << line;
    differences += cells[7].empty() ? 0u : 1u;
    seen.insert({cells.begin(), cells.begin() + 5});
  }
  EXPECT_EQ(seen.size(), 6u * 4 * 2 * 2 * 2);
  EXPECT_EQ(differences, 4u);
}

}  // namespace
}  // namespace quire::graph
