// What was asked for: flag values from the command line and the --config file, each checked against its row. Immutable once
// parsed; knows no model and no machine. resolve.h turns it into what runs.
#pragma once
#include <boost/json/object.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/flag_table.h"
#include "config/problems.h"
#include "config/resolved.h"

namespace quire::config {

enum class Source : std::uint8_t { kCommandLine, kFile };
enum class ListMerge : std::uint8_t { kReplace, kAppend };  // "--x.key v" or "--x.key+ v"

// One use of a flag.
struct FlagUse {
  const FlagRow& row;
  std::string spelling;  // as the user wrote it, or file, line and key
  Source source = Source::kCommandLine;
};

class Options {
 public:
  // Typed reads. `name` is a row of that kind (QUIRE_CHECK). Without a given value they read the row's default text.
  [[nodiscard]] bool given(std::string_view name) const;
  [[nodiscard]] bool boolean(std::string_view name) const;
  [[nodiscard]] std::optional<std::int64_t> integer(std::string_view name) const;  // nullopt: a word ("auto") or a default that is no number
  [[nodiscard]] std::optional<double> number(std::string_view name) const;  // nullopt: a word ("inf") or a default that is no number
  [[nodiscard]] std::string text(std::string_view name) const;  // "" when not given and no default
  [[nodiscard]] std::optional<std::string> given_text(std::string_view name) const;
  [[nodiscard]] std::vector<std::string> list(std::string_view name) const;       // kTextList, kJsonTextList; empty when not given
  [[nodiscard]] std::vector<std::int64_t> integers(std::string_view name) const;  // kIntList
  [[nodiscard]] const boost::json::object& json(std::string_view name) const;     // merged; empty when not given
  [[nodiscard]] std::string spelling(std::string_view name) const;                // as the user wrote it, else "--name"

  // Flags with a value other than their default, in table order, secrets replaced by "***".
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> non_default_args() const;
  [[nodiscard]] const std::vector<Adjustment>& notes() const { return notes_; }
  [[nodiscard]] const std::string& model() const { return model_; }

  // Building (command_line.cc, config_file.cc).
  void set_model(std::string model) { model_ = std::move(model); }
  // Checks and stores; a later use replaces or, for accumulating and JSON rows, adds.
  void assign(const FlagUse& use, std::vector<std::string> values, Problems& problems);
  void assign_json(const FlagUse& use, boost::json::object fragment, ListMerge lists = ListMerge::kReplace);
  void note(Adjustment::Severity severity, std::string flag, std::string text) { notes_.push_back({severity, std::move(flag), std::move(text)}); }
  // Applies fates: warnings for flags without effect, problems for features that are not built.
  void check_fates(Problems& problems);
  // Warnings for flags without effect.
  void note_no_effect();
  // The refusals of features that are not built, in table order.
  [[nodiscard]] std::vector<Error> not_built() const;

 private:
  struct Stored {
    std::vector<std::string> values;
    boost::json::object json;
    std::string spelling;
    Source source = Source::kCommandLine;
  };
  [[nodiscard]] const Stored* find(std::string_view name, ValueKind kind) const;
  [[nodiscard]] std::string single(std::string_view name, ValueKind kind) const;

  std::map<std::string_view, Stored> stored_;  // keys live in the table
  std::vector<Adjustment> notes_;
  std::string model_;
};

// Deep merge of `from` into `into`; a scalar that replaces a different one is reported by its path.
void merge_json(boost::json::object& into, const boost::json::object& from, ListMerge lists, std::vector<std::string>& replaced);

}  // namespace quire::config
