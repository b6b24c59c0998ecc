// From a request for graphs to everything a run needs.
#include "graph/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/document.h"

namespace quire::graph {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Severity = config::Adjustment::Severity;

GraphFacts facts(GraphSupport support) { return {.attention = {"CPU_SPLIT", support}, .max_num_seqs = 8, .max_num_batched_tokens = 2048}; }
auto note(Severity severity, const std::string& flag, const std::string& text) {
  return AllOf(Field(&config::Adjustment::severity, severity), Field(&config::Adjustment::flag, flag),
               Field(&config::Adjustment::text, HasSubstr(text)));
}

TEST(Settings, NothingAskedIsTheDefault) {
  const auto settings = graph_settings({}, facts(GraphSupport::kAlways));
  ASSERT_TRUE(settings.ok());
  EXPECT_EQ(settings->mode, GraphMode::kFullAndPiecewise);
  EXPECT_THAT(settings->buckets.sizes(), ElementsAre(1, 2, 4, 8, 16));
  EXPECT_THAT(settings->buckets.decode_sizes(), ElementsAre(1, 2, 4, 8));
  EXPECT_THAT(settings->notes, IsEmpty());
}

TEST(Settings, FullOverADecodeOnlyBackend) {
  const auto settings = graph_settings({.mode = "FULL"}, facts(GraphSupport::kUniformSingleTokenDecode));
  EXPECT_EQ(settings->mode, GraphMode::kFullAndPiecewise);
  EXPECT_THAT(settings->notes, ElementsAre(note(Severity::kWarning, "--compilation-config", "FULL runs as FULL_AND_PIECEWISE")));
}

TEST(Settings, EagerWinsAndHasNoSizes) {
  GraphFacts eager = facts(GraphSupport::kNever);
  eager.enforce_eager = true;
  const auto settings = graph_settings({.mode = "full", .capture_sizes = {4}}, eager);
  ASSERT_TRUE(settings.ok());
  EXPECT_EQ(settings->mode, GraphMode::kNone);
  EXPECT_THAT(settings->buckets.sizes(), IsEmpty());
  EXPECT_THAT(settings->notes, ElementsAre(note(Severity::kWarning, "--compilation-config", "--enforce-eager")));
}

TEST(Settings, WrongRequestsAreRefused) {
  EXPECT_THAT(graph_settings({.mode = "FUL"}, facts(GraphSupport::kAlways)).error().message, HasSubstr("did you mean 'FULL'?"));
  EXPECT_THAT(graph_settings({.mode = "FULL"}, facts(GraphSupport::kNever)).error().message, HasSubstr("CPU_SPLIT has graph support NEVER"));
  EXPECT_EQ(graph_settings({.capture_sizes = {4}, .max_capture_size = 8}, facts(GraphSupport::kAlways)).error().param,
            "--max-cudagraph-capture-size");
}

TEST(Settings, NoSizeLeftIsNoGraphs) {
  for (const config::GraphRequest& request : {config::GraphRequest{.capture_sizes = {4096}}, config::GraphRequest{.max_capture_size = 0}}) {
    const auto settings = graph_settings(request, facts(GraphSupport::kAlways));
    ASSERT_TRUE(settings.ok());
    EXPECT_EQ(settings->mode, GraphMode::kNone);
    EXPECT_EQ(settings->notes.size(), 2u);
    EXPECT_THAT(settings->notes.back(), note(Severity::kWarning, "--compilation-config", "FULL_AND_PIECEWISE runs as NONE: there is no graph size"));
  }
}

TEST(Settings, NoDecodeSizeLeavesPieces) {
  const auto both = graph_settings({.capture_sizes = {64}}, facts(GraphSupport::kAlways));
  EXPECT_EQ(both->mode, GraphMode::kPiecewise);
  EXPECT_THAT(both->notes, ElementsAre(note(Severity::kWarning, "--compilation-config", "runs as PIECEWISE: no graph size fits")));
  const auto decode = graph_settings({.mode = "FULL_DECODE_ONLY", .capture_sizes = {64}}, facts(GraphSupport::kAlways));
  EXPECT_EQ(decode->mode, GraphMode::kNone);
  EXPECT_THAT(decode->buckets.sizes(), IsEmpty());
}

TEST(Document, ShowsEveryModeAndRefusal) {
  const std::string page = graph_modes_markdown();
  for (const GraphMode mode : kGraphModes) EXPECT_THAT(page, HasSubstr("| `" + std::string(graph_mode_name(mode)) + "` |"));
  EXPECT_THAT(page, HasSubstr("**error**"));
  EXPECT_THAT(page, HasSubstr("FULL_AND_PIECEWISE runs as PIECEWISE"));
}

}  // namespace
}  // namespace quire::graph
