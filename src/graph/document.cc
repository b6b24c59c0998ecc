#include "graph/document.h"

#include <algorithm>

#include "base/check.h"
#include "graph/buckets.h"
#include "graph/dispatch.h"
#include "graph/mode.h"

namespace quire::graph {
namespace {

std::string code(const std::string& text) { return "`" + text + "`"; }
std::string asked_text(const std::optional<GraphMode>& asked) { return asked ? code(graph_mode_name(*asked)) : "nothing"; }

std::vector<std::optional<GraphMode>> every_request() {
  std::vector<std::optional<GraphMode>> out{std::nullopt};
  out.insert(out.end(), kGraphModes.begin(), kGraphModes.end());
  return out;
}

class Page {
 public:
  std::string write() && {
    introduction();
    for (const bool split : {true, false}) {
      for (const std::int32_t query_len : {1, 3}) table(split, query_len);
    }
    messages();
    sizes();
    dispatch();
    return std::move(out_);
  }

 private:
  void introduction() {
    out_ +=
        "# Graph modes\n\n"
        "Made by `quire flags-doc` from the functions in `src/graph/`; a test fails when this page is stale.\n\n"
        "`cudagraph_mode` of `--compilation-config` says what two classes of batches run: decode batches, whose rows all have the same number of\n"
        "tokens (1, or 1 + speculated tokens), and mixed batches, which are all others. `FULL` means one graph of the whole forward pass,\n"
        "`PIECEWISE` graphs between attention calls, `NONE` no graph.\n\n"
        "| mode | decode batches | mixed batches |\n|---|---|---|\n";
    for (const GraphMode mode : kGraphModes)
      out_ +=
          "| " + code(graph_mode_name(mode)) + " | " + runtime_mode_name(decode_half(mode)) + " | " + runtime_mode_name(mixed_half(mode)) + " |\n";
    out_ += "\nWhen nothing is asked for, " + code(graph_mode_name(kDefaultGraphMode)) +
            " is meant. `--enforce-eager` is `NONE` whatever else was asked for.\n"
            "[FLAGS.md](FLAGS.md) says which modes this build accepts.\n\n## What runs\n\n"
            "A backend states what of its work may be inside a graph; of several backends the lowest level counts:\n"
            "`NEVER` < `UNIFORM_SINGLE_TOKEN_DECODE` (decode rows of one token) < `UNIFORM_BATCH` (rows of one length) < `ALWAYS`.\n"
            "A mode that the backend cannot do is lowered with a warning; numbers refer to the messages below.\n";
  }

  void table(bool split, std::int32_t query_len) {
    out_ += "\n### " + std::string(split ? "The forward pass can be split at attention" : "No split at attention") + ", decode rows of " +
            (query_len == 1 ? "1 token" : std::to_string(query_len) + " tokens") + "\n\n| asked for |";
    for (const GraphSupport support : kGraphSupports) out_ += " " + std::string(graph_support_name(support)) + " |";
    out_ += "\n|---|---|---|---|---|\n";
    for (const auto& asked : every_request()) {
      out_ += "| " + asked_text(asked) + " |";
      for (const GraphSupport support : kGraphSupports) out_ += " " + cell(asked, support, split, query_len) + " |";
      out_ += "\n";
    }
  }

  std::string cell(const std::optional<GraphMode>& asked, GraphSupport support, bool split, std::int32_t query_len) {
    const auto resolved =
        resolve_graph_mode({.asked = asked, .attention = {"B", support}, .can_split_at_attention = split, .decode_query_len = query_len});
    if (!resolved.ok()) return "**error** (" + message_number(resolved.error().message) + ")";
    std::string out = graph_mode_name(resolved->mode);
    std::string numbers;
    for (const ModeChange& change : resolved->changes) numbers += (numbers.empty() ? "" : ", ") + message_number(change.text);
    return numbers.empty() ? out : out + " (" + numbers + ")";
  }

  std::string message_number(const std::string& text) {
    auto found = std::find(messages_.begin(), messages_.end(), text);
    if (found == messages_.end()) found = messages_.insert(messages_.end(), text);
    return std::to_string(found - messages_.begin() + 1);
  }

  void messages() {
    out_ += "\n## Messages\n\n`B` stands for the backend's name.\n\n";
    for (std::size_t i = 0; i < messages_.size(); ++i) out_ += std::to_string(i + 1) + ". " + messages_[i] + "\n";
  }

  static std::string joined(std::span<const std::int32_t> list) {
    std::string out;
    for (const std::int32_t size : list) out += (out.empty() ? "" : " ") + std::to_string(size);
    return out;
  }

  void sizes_row(const BucketRequest& request) {
    const auto buckets = choose_buckets(request);
    QUIRE_CHECK(buckets.ok()) << buckets.error().message;
    out_ += "| " + std::to_string(request.max_num_seqs) + " | " + std::to_string(request.max_num_batched_tokens) + " | " +
            std::to_string(request.decode_query_len) + " | " + joined(buckets->set.sizes()) + " | " + joined(buckets->set.decode_sizes()) + " |\n";
  }

  void sizes() {
    const std::string limit = std::to_string(kDerivedCaptureLimit);
    out_ +=
        "\n## Sizes\n\nA batch is padded to the next size that has a graph; above the largest it runs without. Derived sizes: 1, 2, 4, then steps of "
        "8\n"
        "below 256 and of 16 from there, up to the smallest of twice the tokens of `--max-num-seqs` decode rows, " +
        limit +
        ", and `--max-num-batched-tokens`\n(which has a graph itself if it is the smallest). `--max-cudagraph-capture-size` replaces the first two "
        "and has a graph\n"
        "itself; 0 means no graphs. `--cudagraph-capture-sizes` replaces the list: sorted, each size once, those above\n"
        "`--max-num-batched-tokens` dropped with a warning. A largest size that contradicts the list is an error.\n\n"
        "Decode graphs hold whole rows: each size rounded up to a multiple of the row's tokens, as far as the largest size and `--max-num-seqs`\n"
        "rows allow. A derived list also gives `--max-num-seqs` rows a graph of their own.\n\n"
        "| rows | tokens a batch | tokens a decode row | sizes | decode sizes |\n|---|---|---|---|---|\n";
    for (const std::int32_t rows : {1, 5, 64}) sizes_row({.mode = kDefaultGraphMode, .max_num_seqs = rows, .max_num_batched_tokens = 2048});
    sizes_row({.mode = kDefaultGraphMode, .decode_query_len = 3, .max_num_seqs = 8, .max_num_batched_tokens = 2048});
    sizes_row({.mode = kDefaultGraphMode, .max_num_seqs = 64, .max_num_batched_tokens = 50});
    sizes_row({.sizes = {1, 3, 100}, .mode = kDefaultGraphMode, .max_num_seqs = 64, .max_num_batched_tokens = 2048});
    out_ += "\nThe last line's sizes are a user's.\n";
  }

  void dispatch() {
    const auto buckets = choose_buckets({.mode = kDefaultGraphMode, .max_num_seqs = 8, .max_num_batched_tokens = 2048});
    QUIRE_CHECK(buckets.ok()) << buckets.error().message;
    struct Example {
      const char* text;
      BatchDescriptor batch;
    };
    const Example examples[] = {{"3 decode rows", describe_batch(3, 3, 1, 1)},
                                {"a prompt of 6 tokens and 5 decode rows", describe_batch(11, 6, 6, 1)},
                                {"a prompt of 1 token", describe_batch(1, 1, 1, 1)},
                                {"a prompt of 40 tokens", describe_batch(40, 1, 40, 1)}};
    out_ +=
        "\n## Which graph a batch runs\n\nThe first that exists: the decode graph of its size, a whole graph of its size, pieces of its size, none. "
        "Whether a batch is a decode\n"
        "batch is a matter of its shape alone: a prompt of one token is one. Examples with 8 rows and sizes " +
        joined(buckets->set.sizes()) + ":\n\n| mode |";
    for (const Example& example : examples) out_ += " " + std::string(example.text) + " |";
    out_ += "\n|---|---|---|---|---|\n";
    for (const GraphMode mode : kGraphModes) {
      out_ += "| " + code(graph_mode_name(mode)) + " |";
      for (const Example& example : examples) {
        const GraphChoice choice = choose_graph(example.batch, mode, buckets->set);
        const std::string why = eager_text(choice, example.batch, mode, buckets->set);
        out_ += " " + (choice.has_graph() ? choice.key.describe() : why) + " |";
      }
      out_ += "\n";
    }
  }

  std::string out_;
  std::vector<std::string> messages_;
};

}  // namespace

std::string graph_modes_markdown() { return Page().write(); }

}  // namespace quire::graph
