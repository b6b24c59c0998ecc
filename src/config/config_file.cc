#include "config/config_file.h"

#include <yaml.h>

#include <boost/json/value.hpp>
#include <set>

#include "base/files.h"
#include "base/suggest.h"
#include "config/compilation.h"
#include "config/values.h"

namespace quire::config {
namespace {

constexpr std::size_t kMaxFileBytes = 1u << 20;
constexpr std::size_t kMaxDepth = 16;

struct Node {
  enum class Kind : std::uint8_t { kScalar, kList, kMap } kind = Kind::kScalar;
  std::string text;                                    // scalars as written
  bool plain = false;                                  // unquoted: may be a number, a boolean or null
  std::vector<std::pair<std::string, Node>> children;  // keys are empty in lists
  std::size_t line = 0;
  std::optional<std::string> pending_key;  // while a map is being read
};

// Owns the C parser and one event.
class EventReader {
 public:
  explicit EventReader(std::string_view text) {
    ready_ = yaml_parser_initialize(&parser_) == 1;
    if (ready_) yaml_parser_set_input_string(&parser_, reinterpret_cast<const unsigned char*>(text.data()), text.size());
  }
  ~EventReader() {
    clear();
    if (ready_) yaml_parser_delete(&parser_);
  }
  EventReader(const EventReader&) = delete;
  EventReader& operator=(const EventReader&) = delete;
  bool next() {
    clear();
    held_ = ready_ && yaml_parser_parse(&parser_, &event_) == 1;
    return held_;
  }
  const yaml_event_t& event() const { return event_; }
  std::string error() const {
    return "line " + std::to_string(parser_.problem_mark.line + 1) + ": " + (parser_.problem != nullptr ? parser_.problem : "cannot be read as YAML");
  }

 private:
  void clear() {
    if (held_) yaml_event_delete(&event_);
    held_ = false;
  }
  yaml_parser_t parser_{};
  yaml_event_t event_{};
  bool ready_ = false, held_ = false;
};

class TreeBuilder {
 public:
  // Empty when the event was taken; else what is wrong with it.
  std::string take(const yaml_event_t& event) {
    const std::size_t line = event.start_mark.line + 1;
    const std::string where = "line " + std::to_string(line) + ": ";
    switch (event.type) {
      case YAML_DOCUMENT_START_EVENT: return ++documents_ > 1 ? where + "only one document is allowed" : "";
      case YAML_ALIAS_EVENT: return where + "aliases are not allowed";
      case YAML_SCALAR_EVENT: {
        if (event.data.scalar.anchor != nullptr || event.data.scalar.tag != nullptr) return where + "anchors and tags are not allowed";
        Node node;
        node.text.assign(reinterpret_cast<const char*>(event.data.scalar.value), event.data.scalar.length);
        node.plain = event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
        node.line = line;
        return place(std::move(node), where);
      }
      case YAML_SEQUENCE_START_EVENT:
        return open(Node::Kind::kList, event.data.sequence_start.anchor != nullptr || event.data.sequence_start.tag != nullptr, line, where);
      case YAML_MAPPING_START_EVENT:
        return open(Node::Kind::kMap, event.data.mapping_start.anchor != nullptr || event.data.mapping_start.tag != nullptr, line, where);
      case YAML_SEQUENCE_END_EVENT:
      case YAML_MAPPING_END_EVENT: {
        Node node = std::move(open_.back());
        open_.pop_back();
        return place(std::move(node), where);
      }
      default: return {};
    }
  }
  std::optional<Node> root;

 private:
  std::string open(Node::Kind kind, bool decorated, std::size_t line, const std::string& where) {
    if (decorated) return where + "anchors and tags are not allowed";
    if (open_.size() >= kMaxDepth) return where + "nested deeper than " + std::to_string(kMaxDepth) + " levels";
    if (!open_.empty() && open_.back().kind == Node::Kind::kMap && !open_.back().pending_key) return where + "keys must be plain words";
    Node node;
    node.kind = kind;
    node.line = line;
    open_.push_back(std::move(node));
    return {};
  }
  std::string place(Node node, const std::string& where) {
    if (open_.empty()) {
      root = std::move(node);
      return {};
    }
    Node& parent = open_.back();
    if (parent.kind == Node::Kind::kList) {
      parent.children.emplace_back("", std::move(node));
      return {};
    }
    if (!parent.pending_key) {
      if (node.kind != Node::Kind::kScalar) return where + "keys must be plain words";
      parent.pending_key = std::move(node.text);
      return {};
    }
    for (const auto& child : parent.children) {
      if (child.first == *parent.pending_key) return where + "key " + quote_value(child.first) + " is given twice";
    }
    parent.children.emplace_back(std::move(*parent.pending_key), std::move(node));
    parent.pending_key.reset();
    return {};
  }
  std::vector<Node> open_;
  int documents_ = 0;
};

Result<Node> parse_yaml(std::string_view text) {
  EventReader reader(text);
  TreeBuilder builder;
  while (true) {
    if (!reader.next()) return invalid(reader.error());
    if (reader.event().type == YAML_STREAM_END_EVENT) break;
    if (std::string wrong = builder.take(reader.event()); !wrong.empty()) return invalid(std::move(wrong));
  }
  const bool empty = !builder.root || (builder.root->kind == Node::Kind::kScalar && builder.root->text.empty());
  if (empty) {  // sets nothing
    Node none;
    none.kind = Node::Kind::kMap;
    return none;
  }
  if (builder.root->kind != Node::Kind::kMap) return invalid("line 1: must be `key: value` lines");
  return std::move(*builder.root);
}

bool is_null(const Node& node) {
  return node.kind == Node::Kind::kScalar && node.plain && (node.text.empty() || node.text == "~" || node.text == "null");
}

// Depth is bounded by kMaxDepth.
boost::json::value to_json(const Node& node) {
  if (node.kind == Node::Kind::kMap) {
    boost::json::object object;
    for (const auto& [key, child] : node.children) object.emplace(key, to_json(child));
    return object;
  }
  if (node.kind == Node::Kind::kList) {
    boost::json::array array;
    for (const auto& [key, child] : node.children) array.push_back(to_json(child));
    return array;
  }
  if (is_null(node)) return nullptr;
  return node.plain ? json_scalar(node.text) : boost::json::value(node.text);
}

class FileReader {
 public:
  FileReader(const std::string& path, Audience command, Options& options, Problems& problems)
      : path_(path), command_(command), options_(options), problems_(problems) {
    for (const FlagRow* row : flag_table()) {  // what the command line gave stands
      if (options.given(row->name)) on_command_line_.insert(row->name);
    }
  }
  void take(const std::string& key, const Node& node) {
    const std::string where = path_ + " line " + std::to_string(node.line) + ": " + key;
    const FlagMatch match = match_flag("--" + key);
    if (match.row == nullptr) {
      std::vector<std::string_view> names;
      for (const FlagRow* row : flag_table())
        if (takes(command_, *row)) names.push_back(row->name);
      return problems_.add(key, path_ + " line " + std::to_string(node.line) + ": unknown key " + quote_value(key) + did_you_mean(key, names));
    }
    const FlagRow& row = *match.row;
    if (row.name == "config" || row.name == "help") return problems_.add(key, where + ": not allowed in a configuration file");
    if (!takes(command_, row)) return problems_.add(key, where + ": not a flag of this command");
    if (!seen_.insert(row.name).second) return problems_.add(key, where + ": given twice (as --" + std::string(row.name) + ")");
    if (on_command_line_.contains(row.name)) return;
    if (is_null(node)) return problems_.add(key, where + ": has no value");
    assign(row, match.negated, where, node);
  }

 private:
  void assign(const FlagRow& row, bool negated, const std::string& where, const Node& node) {
    if (node.kind == Node::Kind::kMap) {
      if (row.kind != ValueKind::kJson) return problems_.add("--" + std::string(row.name), where + ": must be " + allowed_text(row) + ", not a map");
      return options_.assign_json({row, where, Source::kFile}, to_json(node).get_object());
    }
    std::vector<std::string> values;
    if (node.kind == Node::Kind::kScalar) {
      values.push_back(node.text);
    } else {
      const bool takes_list = row.kind == ValueKind::kTextList || row.kind == ValueKind::kIntList || row.kind == ValueKind::kJsonTextList;
      if (!takes_list) return problems_.add("--" + std::string(row.name), where + ": must be " + allowed_text(row) + ", not a list");
      for (const auto& [key, child] : node.children) {
        if (child.kind != Node::Kind::kScalar) return problems_.add("--" + std::string(row.name), where + ": list items must be single values");
        values.push_back(child.text);
      }
      if (values.empty() && row.kind != ValueKind::kJsonTextList) return problems_.add("--" + std::string(row.name), where + ": the list is empty");
    }
    if (row.name == "model") {
      if (options_.model().empty()) options_.set_model(values.front());
      return;
    }
    if (negated) {
      const auto value = parse_bool(values.front());
      if (value) values.front() = *value ? "false" : "true";
    }
    assign_flag(options_, {row, where, Source::kFile}, std::move(values), problems_);
  }

  const std::string& path_;
  Audience command_;
  Options& options_;
  Problems& problems_;
  std::set<std::string_view> on_command_line_, seen_;
};

}  // namespace

void read_config_file(const std::string& path, Audience command, Options& options, Problems& problems) {
  const auto text = read_file(path, kMaxFileBytes);
  if (!text.ok()) return problems.add("--config", "--config: " + text.error().message);
  const auto tree = parse_yaml(text.value());
  if (!tree.ok()) return problems.add("--config", "--config " + path + " " + tree.error().message);
  FileReader reader(path, command, options, problems);
  for (const auto& [key, node] : tree.value().children) reader.take(key, node);
}

}  // namespace quire::config
