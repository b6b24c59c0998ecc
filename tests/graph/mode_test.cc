// Graph modes: names, halves, and the properties that resolving has for every request.
#include "graph/mode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

namespace quire::graph {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

void for_every_request(const std::function<void(const ModeRequest&)>& visit) {
  std::vector<std::optional<GraphMode>> asked{std::nullopt};
  asked.insert(asked.end(), kGraphModes.begin(), kGraphModes.end());
  for (const auto& mode : asked)
    for (const GraphSupport support : kGraphSupports)
      for (const bool split : {true, false})
        for (const std::int32_t query_len : {1, 2, 3, 8})
          for (const bool eager : {false, true}) {
            const ModeRequest request{mode, eager, {"ROW", support}, split, query_len};
            SCOPED_TRACE(std::string(mode ? graph_mode_name(*mode) : "nothing") + " " + graph_support_name(support) + (split ? " split" : "") + " " +
                         std::to_string(query_len) + (eager ? " eager" : ""));
            visit(request);
          }
}

TEST(Names, ParseInAnyCase) {
  for (const GraphMode mode : kGraphModes) {
    std::string name = graph_mode_name(mode);
    EXPECT_EQ(parse_graph_mode(name).value(), mode);
    std::transform(name.begin(), name.end(), name.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    EXPECT_EQ(parse_graph_mode(name).value(), mode);
    name[0] = static_cast<char>(name[0] - 32);
    EXPECT_EQ(parse_graph_mode(name).value(), mode);
  }
}

TEST(Names, UnknownNamesTheNearest) {
  const auto wrong = parse_graph_mode("full_and_peacewise", "cudagraph_mode");
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().param, "cudagraph_mode");
  EXPECT_THAT(wrong.error().message,
              AllOf(HasSubstr("'full_and_peacewise'"), HasSubstr("NONE, PIECEWISE, FULL, FULL_DECODE_ONLY, FULL_AND_PIECEWISE"),
                    HasSubstr("did you mean 'FULL_AND_PIECEWISE'?")));
  // vLLM's name for the pair in #25104's title.
  EXPECT_THAT(parse_graph_mode("PIECEWISE_AND_FULL").error().message, HasSubstr("must be one of"));
}

TEST(Names, HostileTextStaysShortAndPrintable) {
  for (const std::string& text : {std::string(), std::string(" FULL"), std::string("FULL\0", 5), std::string("FULL\n"), std::string("F\x1b[2J"),
                                  std::string(1 << 20, 'F'), std::string(1000, '\xff')}) {
    const auto wrong = parse_graph_mode(text);
    ASSERT_FALSE(wrong.ok());
    EXPECT_LT(wrong.error().message.size(), 300u);
    for (const char c : wrong.error().message) EXPECT_TRUE(c >= ' ' && c <= '~') << static_cast<int>(c);
  }
}

TEST(Halves, AreVllms) {
  struct Row {
    GraphMode mode;
    RuntimeMode decode, mixed;
    bool own_decode;
  };
  constexpr auto kNo = RuntimeMode::kNone, kPieces = RuntimeMode::kPiecewise, kWhole = RuntimeMode::kFull;
  for (const Row& row :
       {Row{GraphMode::kNone, kNo, kNo, false}, Row{GraphMode::kPiecewise, kPieces, kPieces, false}, Row{GraphMode::kFull, kWhole, kWhole, false},
        Row{GraphMode::kFullDecodeOnly, kWhole, kNo, true}, Row{GraphMode::kFullAndPiecewise, kWhole, kPieces, true}}) {
    EXPECT_EQ(decode_half(row.mode), row.decode);
    EXPECT_EQ(mixed_half(row.mode), row.mixed);
    EXPECT_EQ(has_own_decode_graphs(row.mode), row.own_decode);
    EXPECT_EQ(has_full_graphs(row.mode), row.decode == kWhole || row.mixed == kWhole);
    EXPECT_EQ(needs_pieces(row.mode), row.decode == kPieces || row.mixed == kPieces);
  }
}

TEST(Support, TheWeakestLayerCounts) {
  const auto weakest = weakest_support({{"A", GraphSupport::kAlways}, {"B", GraphSupport::kUniformBatch}, {"C", GraphSupport::kUniformBatch}});
  EXPECT_EQ(weakest.name, "B");
  EXPECT_EQ(weakest.support, GraphSupport::kUniformBatch);
}

TEST(SupportDeath, NoLayersIsABug) { EXPECT_DEATH((void)weakest_support({}), "without attention layers"); }
TEST(ResolveDeath, EmptyDecodeRowsAreABug) { EXPECT_DEATH((void)resolve_graph_mode({.decode_query_len = 0}), "decode rows"); }

// vLLM's printed table for one-token decode rows and a forward pass that splits, word for word.
TEST(Resolve, VllmsPrintedTable) {
  const char* const table[5][4] = {{"NONE", "NONE", "NONE", "NONE"},
                                   {"PIECEWISE", "PIECEWISE", "PIECEWISE", "PIECEWISE"},
                                   {"error", "FULL_AND_PIECEWISE", "FULL_AND_PIECEWISE", "FULL"},
                                   {"PIECEWISE", "FULL_DECODE_ONLY", "FULL_DECODE_ONLY", "FULL_DECODE_ONLY"},
                                   {"PIECEWISE", "FULL_AND_PIECEWISE", "FULL_AND_PIECEWISE", "FULL_AND_PIECEWISE"}};
  for (std::size_t mode = 0; mode < 5; ++mode) {
    for (std::size_t support = 0; support < 4; ++support) {
      const auto resolved = resolve_graph_mode({.asked = kGraphModes[mode], .attention = {"ROW", kGraphSupports[support]}});
      EXPECT_STREQ(resolved.ok() ? graph_mode_name(resolved->mode) : "error", table[mode][support]) << mode << " " << support;
    }
  }
}

// The situation of vLLM #25104: FULL over a backend whose decode kernel alone can be in a graph.
TEST(Resolve, FullOverADecodeOnlyBackend) {
  const auto resolved = resolve_graph_mode({.asked = GraphMode::kFull, .attention = {"CPU_SPLIT", GraphSupport::kUniformSingleTokenDecode}});
  ASSERT_TRUE(resolved.ok());
  EXPECT_EQ(resolved->mode, GraphMode::kFullAndPiecewise);
  ASSERT_EQ(resolved->changes.size(), 1u);
  EXPECT_EQ(resolved->changes[0].severity, ModeChange::Severity::kWarning);
  EXPECT_EQ(
      resolved->changes[0].text,
      "cudagraph_mode FULL runs as FULL_AND_PIECEWISE: attention backend CPU_SPLIT has graph support UNIFORM_SINGLE_TOKEN_DECODE, which leaves out "
      "mixed batches; they run in pieces between attention calls");
}

TEST(Resolve, ChangesComeInOrder) {
  const auto resolved =
      resolve_graph_mode({.asked = GraphMode::kFull, .attention = {"B", GraphSupport::kUniformSingleTokenDecode}, .decode_query_len = 3});
  ASSERT_EQ(resolved->changes.size(), 2u);
  EXPECT_EQ(resolved->changes[0].to, GraphMode::kFullAndPiecewise);
  EXPECT_EQ(resolved->changes[1].to, GraphMode::kPiecewise);
  EXPECT_THAT(resolved->changes[1].text, HasSubstr("decode rows have 3 tokens"));
}

TEST(Resolve, FullWithoutSupportIsRefusedWithAHint) {
  ModeRequest request{.asked = GraphMode::kFull, .attention = {"ROW", GraphSupport::kNever}};
  const auto split = resolve_graph_mode(request);
  ASSERT_FALSE(split.ok());
  EXPECT_EQ(split.error().param, "--compilation-config");
  EXPECT_THAT(split.error().message, AllOf(HasSubstr("FULL"), HasSubstr("ROW"), HasSubstr("NEVER"), HasSubstr("ask for PIECEWISE")));
  request.can_split_at_attention = false;
  EXPECT_THAT(resolve_graph_mode(request).error().message, HasSubstr("ask for NONE"));
  request.enforce_eager = true;
  EXPECT_EQ(resolve_graph_mode(request)->mode, GraphMode::kNone);
}

TEST(Property, NeverAboveWhatTheBackendAndTheModelAllow) {
  for_every_request([](const ModeRequest& request) {
    const auto resolved = resolve_graph_mode(request);
    if (!resolved.ok()) {
      EXPECT_EQ(request.asked, GraphMode::kFull);
      EXPECT_EQ(request.attention.support, GraphSupport::kNever);
      EXPECT_FALSE(request.enforce_eager);
      return;
    }
    const GraphMode mode = resolved->mode;
    if (request.enforce_eager) {
      EXPECT_EQ(mode, GraphMode::kNone);
    }
    if (needs_pieces(mode)) {
      EXPECT_TRUE(request.can_split_at_attention);
    }
    if (mixed_half(mode) == RuntimeMode::kFull) {
      EXPECT_EQ(request.attention.support, GraphSupport::kAlways);
    }
    if (decode_half(mode) == RuntimeMode::kFull) {
      EXPECT_GE(request.attention.support, request.decode_query_len == 1 ? GraphSupport::kUniformSingleTokenDecode : GraphSupport::kUniformBatch);
    }
    const GraphMode asked = request.asked.value_or(kDefaultGraphMode);
    EXPECT_LE(decode_half(mode), decode_half(asked));
    // vLLM's rules raise mixed batches in two cases: no pieces but whole graphs of anything; and pieces in place of decode graphs.
    const bool whole_for_pieces = asked == GraphMode::kFullAndPiecewise && mode == GraphMode::kFull && !request.can_split_at_attention;
    const bool pieces_for_decode = asked == GraphMode::kFullDecodeOnly && mode == GraphMode::kPiecewise;
    if (!whole_for_pieces && !pieces_for_decode) {
      EXPECT_LE(mixed_half(mode), mixed_half(asked));
    }
  });
}

TEST(Property, ResolvingTwiceChangesNothing) {
  for_every_request([](const ModeRequest& request) {
    const auto once = resolve_graph_mode(request);
    if (!once.ok()) return;
    ModeRequest again = request;
    again.asked = once->mode;
    const auto twice = resolve_graph_mode(again);
    ASSERT_TRUE(twice.ok());
    EXPECT_EQ(twice->mode, once->mode);
    EXPECT_TRUE(twice->changes.empty());
  });
}

TEST(Property, EveryDifferenceIsToldAndLinked) {
  for_every_request([](const ModeRequest& request) {
    const auto resolved = resolve_graph_mode(request);
    if (!resolved.ok()) return;
    GraphMode at = request.asked.value_or(kDefaultGraphMode);
    for (const ModeChange& change : resolved->changes) {
      EXPECT_EQ(change.from, at);
      EXPECT_NE(change.to, at);
      EXPECT_THAT(change.text,
                  StartsWith("cudagraph_mode " + std::string(graph_mode_name(change.from)) + " runs as " + graph_mode_name(change.to) + ": "));
      if (!request.enforce_eager) {
        EXPECT_EQ(change.severity, ModeChange::Severity::kWarning);
      }
      at = change.to;
    }
    EXPECT_EQ(at, resolved->mode);
  });
}

TEST(Property, MoreSupportNeverRunsLess) {
  for_every_request([](const ModeRequest& request) {
    if (request.attention.support == GraphSupport::kAlways) return;
    ModeRequest better = request;
    better.attention.support = static_cast<GraphSupport>(static_cast<int>(request.attention.support) + 1);
    const auto low = resolve_graph_mode(request), high = resolve_graph_mode(better);
    if (!low.ok()) return;
    ASSERT_TRUE(high.ok());
    EXPECT_LE(decode_half(low->mode), decode_half(high->mode));
    if (request.asked == GraphMode::kFullDecodeOnly) return;  // lowered to PIECEWISE it runs more mixed batches in graphs, as in vLLM
    EXPECT_LE(mixed_half(low->mode), mixed_half(high->mode));
  });
}

}  // namespace
}  // namespace quire::graph
