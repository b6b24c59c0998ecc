#include "attention/select.h"

#include <algorithm>

#include "attention/device_family.h"
#include "base/suggest.h"
#include "base/text.h"

namespace quire::attention {
namespace {

constexpr std::string_view kFastRow = "ROCM_FAST";

std::string joined(const std::vector<Reason>& reasons) {
  std::string out;
  for (const Reason& r : reasons) out += (out.empty() ? "" : "; ") + r.to_string();
  return out;
}

std::string families_text(const BackendCaps& row) {
  std::string out;
  for (const std::string_view f : row.families) out += (out.empty() ? "" : ", ") + std::string(f);
  return out;
}

// Reasons of the row classes' own limits; equal texts of several classes become one.
class ClassReasons {
 public:
  explicit ClassReasons(std::vector<Reason>& out) : out_(out), first_(out.size()) {}
  void add(RowClass p, std::string text) {
    for (std::size_t i = first_; i < out_.size(); ++i)
      if (out_[i].text == text) {
        out_[i].in[static_cast<int>(p)] = true;
        return;
      }
    Reason r{{false, false, false}, std::move(text)};
    r.in[static_cast<int>(p)] = true;
    out_.push_back(std::move(r));
  }

 private:
  std::vector<Reason>& out_;
  std::size_t first_;
};

void check_class(const ClassCaps& caps, RowClass p, const AttnProblem& q, ClassReasons& out) {
  const auto refuse = [&](bool bad, std::string why) { if (bad) out.add(p, std::move(why)); };
  refuse(!caps.takes_head_dim(q.head_dim), "head size " + std::to_string(q.head_dim) + " is not among " + caps.head_sizes_text());
  const std::int32_t group = q.group();
  refuse(group > caps.max_group, std::to_string(group) + " query heads per KV head is above " + std::to_string(caps.max_group));
  refuse(group > 0 && group < caps.min_group, std::to_string(group) + " query heads per KV head is below " + std::to_string(caps.min_group));
  refuse(!caps.takes_block_size(q.block_size), "block size " + std::to_string(q.block_size) + " is not among " + caps.block_sizes_text());
  refuse(!caps.takes_query(q.query_dtype), std::string("queries in ") + dtype_name(q.query_dtype) + " are not supported");
  refuse(!caps.takes_format(q.kv_format), "KV " + q.kv_format_text() + " is not supported");
  for (const Mask m : kMasks) refuse(q.masks.has(m) && !caps.masks.has(m), std::string(mask_name(m)) + " is not supported");
  refuse(caps.max_context > 0 && q.max_context > caps.max_context, std::to_string(q.max_context) + " tokens of context is above " + std::to_string(caps.max_context));
}

void check_heads(const AttnProblem& q, std::vector<Reason>& out) {
  const auto refuse = [&](bool bad, std::string why) { if (bad) out.push_back({{true, true, true}, std::move(why)}); };
  const bool ragged = q.num_heads <= 0 || q.num_kv_heads <= 0 || q.num_heads % q.num_kv_heads != 0;
  refuse(ragged, std::to_string(q.num_heads) + " query heads do not divide among " + std::to_string(q.num_kv_heads) + " KV heads");
  if (ragged) return;
  const bool bad_ranks = q.num_ranks <= 0 || q.num_heads % q.num_ranks != 0;
  refuse(bad_ranks, std::to_string(q.num_heads) + " query heads do not divide among " + std::to_string(q.num_ranks) + " ranks");
  refuse(!bad_ranks && q.num_kv_heads % q.num_ranks != 0 && q.num_ranks % q.num_kv_heads != 0,
         std::to_string(q.num_kv_heads) + " KV heads neither divide among " + std::to_string(q.num_ranks) + " ranks nor divide them");
}

// One run of negotiate().
class Negotiation {
 public:
  Negotiation(const AttnProblem& problem, std::string_view family, const SelectRequest& request)
      : problem_(problem), family_(family), request_(request), device_(find_device_family(family)) {}

  Result<Selection> run() {
    if (Status named = take_names(); !named.ok()) return named.error();
    for (const BackendCaps& row : backend_table()) {
      Candidate c{&row, reasons_against(row, problem_, family_), {}};
      if (row.built == Built::kNo && request_.unbuilt == Unbuilt::kRefused) c.reasons.insert(c.reasons.begin(), {{true, true, true}, "not built in this program"});
      out_.candidates.push_back(std::move(c));
    }
    for (const Candidate& c : out_.candidates) {
      if (!may_win(*c.row)) continue;
      if (take(c)) break;
    }
    out_.backend = out_.set.decode;
    for (Candidate& c : out_.candidates) c.passed_over = why_passed_over(c);
    announce();
    if (out_.set.empty()) out_.nearest = nearest_supported(problem_, family_, out_.asked, request_.unbuilt);
    return std::move(out_);
  }

 private:
  [[nodiscard]] bool instinct() const { return device_ != nullptr && device_->platform == Platform::kInstinct; }
  Status take_names() {
    if (request_.backend.has_value() && upper(*request_.backend) != "AUTO") {
      out_.asked = find_backend(upper(*request_.backend));
      out_.chosen_by = request_.backend_source;
      if (out_.asked != nullptr) return {};
      if (const ForeignBackend* foreign = find_foreign_backend(upper(*request_.backend)))
        return Error{ErrorCode::kUnsupported, "attention backend " + std::string(foreign->name) + ": it " + std::string(foreign->needs) + " and is no row of this program's table", request_.backend_source};
      return unknown_backend();
    }
    if (request_.fast_path == FastPath::kOn && instinct()) {
      out_.asked = find_backend(kFastRow);
      out_.chosen_by = request_.fast_path_source;
    }
    return {};
  }
  // Names of rows only: a name of another program that this one knows has its own answer.
  [[nodiscard]] Error unknown_backend() const {
    auto names = known_backend_names();
    names.emplace_back("AUTO");
    std::string rows;
    for (const BackendCaps& row : backend_table()) rows += std::string(row.name) + ", ";
    return invalid(request_.backend_source + " '" + *request_.backend + "': unknown attention backend; must be one of " + rows + "or AUTO" + did_you_mean(upper(*request_.backend), names), request_.backend_source);
  }
  [[nodiscard]] bool may_win(const BackendCaps& row) const { return out_.asked != nullptr ? &row == out_.asked : row.opt_in == OptIn::kNo; }
  static bool serves(const Candidate& c, RowClass p) {
    return std::none_of(c.reasons.begin(), c.reasons.end(), [&](const Reason& r) { return r.touches(p); });
  }
  // The first row that may stand in for `main` for rows of class `p`: only without an explicit choice, and only with the same cells.
  [[nodiscard]] const BackendCaps* stand_in(const Candidate& main, RowClass p) const {
    if (serves(main, p)) return main.row;
    if (out_.asked != nullptr) return nullptr;
    for (const Candidate& c : out_.candidates)
      if (may_win(*c.row) && serves(c, p) && c.row->same_layout(*main.row)) return c.row;
    return nullptr;
  }
  bool take(const Candidate& c) {
    if (!serves(c, RowClass::kDecode)) return false;
    const BackendCaps *extend = stand_in(c, RowClass::kExtend), *prefill = stand_in(c, RowClass::kPrefill);
    if (extend == nullptr || prefill == nullptr) return false;
    out_.set = {c.row, c.row, extend, prefill};
    return true;
  }
  [[nodiscard]] bool in_set(const BackendCaps* row) const { return row == out_.set.decode || row == out_.set.extend || row == out_.set.prefill; }
  [[nodiscard]] std::string why_passed_over(const Candidate& c) const {
    if (in_set(c.row) || !c.reasons.empty()) return "";
    if (out_.asked != nullptr && c.row != out_.asked) return "not asked for: " + out_.chosen_by + " names " + std::string(out_.asked->name);
    if (c.row->opt_in == OptIn::kByName) return "opt-in: only by --attention-backend, VLLM_ATTENTION_BACKEND or VLLM_ROCM_USE_AITER";
    return out_.set.empty() ? "" : std::string(out_.set.decode->name) + " comes first";
  }
  void announce() {
    if (out_.set.empty()) return;
    const std::string winner(out_.set.decode->name);
    for (const Candidate& c : out_.candidates) {
      if (out_.asked != nullptr || c.row == out_.set.decode || !may_win(*c.row) || !c.row->on(family_)) continue;
      if (c.row > out_.set.decode) break;  // later in the table: it was not preferred
      if (c.row->built == Built::kNo && request_.unbuilt == Unbuilt::kRefused) continue;
      out_.fallbacks.push_back({std::string(c.row->name), winner, joined(c.reasons)});
    }
    for (const RowClass p : {RowClass::kExtend, RowClass::kPrefill}) {
      if (out_.set.of(p) == out_.set.decode) continue;
      for (const Candidate& c : out_.candidates)
        if (c.row == out_.set.decode)
          out_.fallbacks.push_back({winner + " " + row_class_name(p), std::string(out_.set.of(p)->name) + " " + row_class_name(p), joined(c.reasons)});
    }
    if (request_.fast_path == FastPath::kOn && device_ != nullptr && device_->platform == Platform::kRadeon && out_.asked == nullptr)
      out_.fallbacks.push_back({std::string(kFastRow), winner, request_.fast_path_source + ": the fast path is for Instinct (" + families_text(*find_backend(kFastRow)) + "), this is a Radeon"});
  }

  const AttnProblem& problem_;
  std::string_view family_;
  const SelectRequest& request_;
  const DeviceFamily* device_;
  Selection out_;
};

}  // namespace

std::string Reason::to_string() const {
  if (in[0] && in[1] && in[2]) return text;
  std::string classes;
  for (const RowClass p : kRowClasses)
    if (touches(p)) classes += (classes.empty() ? "" : ", ") + std::string(row_class_name(p));
  return classes + ": " + text;
}

GraphSupport ClassSet::graph_support() const {
  if (empty()) return GraphSupport::kNever;
  return std::min({decode->graph_support, extend->graph_support, prefill->graph_support});
}

std::vector<Reason> reasons_against(const BackendCaps& row, const AttnProblem& q, std::string_view family) {
  std::vector<Reason> reasons;
  if (!row.on(family)) reasons.push_back({{true, true, true}, "device " + std::string(family) + " is not among " + families_text(row)});
  check_heads(q, reasons);
  const DeviceFamily* device = find_device_family(family);
  if (device != nullptr && !device->stores(q.kv_format))
    reasons.push_back({{true, true, true}, "KV " + q.kv_format_text() + ": " + std::string(family) + " stores " + kv::kv_format_name(device->e4m3())});
  ClassReasons by_class(reasons);
  for (const RowClass p : kRowClasses) check_class(row.of(p), p, q, by_class);
  return reasons;
}

Result<Selection> negotiate(const AttnProblem& problem, std::string_view family, const SelectRequest& request) { return Negotiation(problem, family, request).run(); }

Result<Selection> select_backend(const AttnProblem& problem, std::string_view family, const SelectRequest& request) {
  auto selection = negotiate(problem, family, request);
  if (!selection.ok() || selection->backend != nullptr) return selection;
  std::string all;
  for (const Candidate& c : selection->candidates) {
    const bool of_device = c.row->on(family) || find_device_family(family) == nullptr;
    if (selection->asked != nullptr ? c.row != selection->asked : !of_device) continue;
    all += (all.empty() ? "" : " | ") + std::string(c.row->name) + ": " + joined(c.reasons);
  }
  const std::string what = selection->asked != nullptr ? "attention backend " + std::string(selection->asked->name) + " cannot serve " : "no attention backend serves ";
  std::string message = what + problem.describe() + " on " + std::string(family) + ": " + all;
  if (selection->nearest.has_value()) {
    std::string changes;
    for (const std::string& c : selection->nearest->changes) changes += (changes.empty() ? " with " : ", ") + c;
    message += "; the nearest that works is " + std::string(selection->nearest->row->name) + changes;
  }
  return Error{ErrorCode::kUnsupported, std::move(message), selection->asked != nullptr ? selection->chosen_by : "--attention-backend"};
}

Result<Selection> select_backend(const AttnProblem& problem, std::string_view family, const std::optional<std::string>& requested) {
  return select_backend(problem, family, SelectRequest{.backend = requested});
}

}  // namespace quire::attention
