#include "quantize/job.h"

#include <algorithm>
#include <boost/json/object.hpp>
#include <filesystem>
#include <map>
#include <span>
#include <system_error>
#include <utility>

#include "base/files.h"
#include "base/json.h"
#include "model/checkpoint.h"
#include "model/kv_scales.h"
#include "quantize/calibrated.h"
#include "quantize/journal.h"
#include "quantize/output_dir.h"
#include "quantize/rounding.h"
#include "quantize/shards.h"

namespace quire::quantize {
namespace {

namespace json = boost::json;

constexpr std::int64_t kPieceBytes = 4 << 20;  // of a tensor, written at once

// FNV-1a: tells texts apart, guards against nobody.
std::uint64_t fingerprint(std::string_view text) {
  std::uint64_t h = 0xcbf29ce484222325u;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return h;
}

Result<json::object> journal_settings(const JobSettings& s) {
  auto source = source_identity(s.source_dir);
  if (!source.ok()) return source.error();
  json::object out{{"--format", form_row(s.form).name}, {"--kv", kv_scales_name(s.kv)}, {"--max-shard-size", s.max_shard_bytes}};
  out["--calibration"] = needs_calibration(s.form, s.kv) ? "text " + std::to_string(fingerprint(s.text)) : std::string("none");
  for (const auto& [flag, value] : s.calibration_flags) out[flag] = needs_calibration(s.form, s.kv) ? value : std::string("none");
  out["source"] = std::move(source).value();
  return out;
}

// What a journal was begun with against what is asked now: nothing, or the first difference in words.
std::string difference(const json::object& begun, const json::object& now) {
  for (const auto& entry : now) {
    const json::value* old = begun.if_contains(entry.key());
    const std::string key(entry.key());
    if (old != nullptr && *old == entry.value()) continue;
    if (key != "source" || old == nullptr || !old->is_object()) return key + " was another one when this was begun";
    for (const auto& file : entry.value().get_object())
      if (const json::value* was = old->get_object().if_contains(file.key()); was == nullptr || *was != file.value())
        return "the source's " + std::string(file.key()) + (was == nullptr ? " was not there" : " was another one") + " when this was begun";
    return "a file of the source is gone since this was begun";
  }
  return {};
}

// Every parameter there, with its shape and in 16 or 32 bit, and nothing else that means anything.
Status check_source(const std::string& dir, const model::ModelSpec& spec, const model::Checkpoint& checkpoint) {
  QUIRE_RETURN_IF_ERROR(check_unquantised(dir));
  const auto ledger = model::make_scale_ledger(checkpoint.tensors(), spec, {.kv_dtype = spec.dtype});
  if (!ledger.ok()) return ledger.error();
  if (!ledger->tensors.empty())
    return invalid("MODEL " + dir + ": has KV scales already (" + shown_text(ledger->tensors.front()) + "); give the 16-bit checkpoint without them", "MODEL");
  const auto weights = model::open_checkpoint_weights(dir, spec, {});
  return weights.ok() ? Status() : Status(weights.error());
}

class FileJob final : public Job {
 public:
  FileJob(JobSettings settings, const model::ModelSpec& spec, model::Checkpoint source) : s_(std::move(settings)), spec_(spec), source_(std::move(source)) {
    shards_ = plan_shards(source_.tensors(), {s_.form, s_.kv, spec.num_kv_heads, s_.max_shard_bytes});
  }

  Status begin() {
    auto settings = journal_settings(s_);
    if (!settings.ok()) return settings.error();
    settings_ = std::move(settings).value();
    QUIRE_RETURN_IF_ERROR(create_output_dir(s_.output_dir, s_.source_dir));
    auto lock = FolderLock::take(s_.output_dir);
    if (!lock.ok()) return lock.error();
    lock_ = std::move(lock).value();
    if (!s_.overwrite) QUIRE_RETURN_IF_ERROR(check_output_dir(s_.output_dir));
    auto state = s_.overwrite ? Result<std::optional<JournalState>>(std::nullopt) : Journal::read(s_.output_dir);
    if (!state.ok()) return state.error();
    if (state.value()) QUIRE_RETURN_IF_ERROR(take_up(*state.value()));
    QUIRE_RETURN_IF_ERROR(check_room(s_.output_dir, bytes_left(), cleared_ ? 0 : old_checkpoint_bytes(s_.output_dir)));
    auto journal = state.value() ? Journal::resume(s_.output_dir) : Journal::begin(s_.output_dir, settings_);
    if (!journal.ok()) return journal.error();
    journal_ = std::move(journal).value();
    for (std::size_t i = 0; i < unrecorded_; ++i) QUIRE_RETURN_IF_ERROR(journal_->shard_written());
    return {};
  }

  bool wants_calibration() const override { return needs_calibration(s_.form, s_.kv) && !report_.ranges; }

  Status calibrate(const calibration::Ranges& ranges) override {
    QUIRE_CHECK(wants_calibration());
    report_.ranges = ranges;
    return journal_->calibrated(ranges_json(ranges));
  }

  Result<JobReport> run(const std::function<void(std::uint64_t done, std::uint64_t total)>& progress) override {
    QUIRE_CHECK(!wants_calibration());
    if (!cleared_) {
      // Only now: whatever could be refused has been, and until here an old checkpoint is whole.
      QUIRE_RETURN_IF_ERROR(remove_old_checkpoint(s_.output_dir));
      QUIRE_RETURN_IF_ERROR(journal_->cleared());
    }
    for (const Shard& shard : shards_) total_ += shard.data_bytes();
    report_.files_kept = first_shard_;
    for (std::size_t i = 0; i < shards_.size(); ++i) {
      if (i < first_shard_)
        done_ += shards_[i].data_bytes();
      else
        QUIRE_RETURN_IF_ERROR(write_shard(shards_[i], i == first_shard_ ? first_tensor_ : 0, progress));
      progress(done_, total_);
    }
    QUIRE_RETURN_IF_ERROR(finish());
    return std::move(report_);
  }

 private:
  Status take_up(const JournalState& state) {
    if (const std::string what = difference(state.settings, settings_); !what.empty())
      return invalid("--output " + s_.output_dir + ": holds an unfinished quantisation, and " + what + "; the same command goes on with it, --overwrite begins again", "--output");
    if (state.calibration && needs_calibration(s_.form, s_.kv)) {
      auto ranges = ranges_from_json(*state.calibration, spec_.num_layers, spec_.num_kv_heads);
      if (!ranges.ok()) return ranges.error();
      report_.ranges = std::move(ranges).value();
    }
    report_.resumed = true;
    first_shard_ = std::min(state.shards_done, shards_.size());
    for (std::size_t i = 0; i < first_shard_; ++i)
      if (!is_whole(shards_[i])) return Error{ErrorCode::kCorrupt, path_of(shards_[i]) + ": was written, and is not as it was left; --overwrite begins again", "--output"};
    cleared_ = state.cleared;
    // Put in place, and killed before the journal could say so: it was on the disk in full before it got its name.
    while (cleared_ && first_shard_ < shards_.size() && is_whole(shards_[first_shard_])) {
      ++first_shard_;
      ++unrecorded_;
    }
    if (unrecorded_ > 0) return {};
    first_tensor_ = first_shard_ < shards_.size() ? std::min(state.tensors_done, shards_[first_shard_].tensors.size()) : 0;
    return {};
  }

  [[nodiscard]] bool is_whole(const Shard& shard) const {
    std::error_code error;
    const std::uint64_t have = std::filesystem::file_size(path_of(shard), error);
    return !error && have == shard.header().size() + shard.data_bytes();
  }

  [[nodiscard]] std::string path_of(const Shard& shard) const { return s_.output_dir + "/" + shard.file; }

  [[nodiscard]] std::uint64_t bytes_left() const {
    std::uint64_t sum = 0;
    for (std::size_t i = first_shard_; i < shards_.size(); ++i) sum += shards_[i].data_bytes();
    for (std::size_t t = 0; t < first_tensor_; ++t) sum -= shards_[first_shard_].tensors[t].bytes();
    return sum;
  }

  Status write_shard(const Shard& shard, std::size_t first, const std::function<void(std::uint64_t, std::uint64_t)>& progress) {
    const std::string partial = path_of(shard) + ".partial", header = shard.header();
    std::uint64_t kept = 0;
    for (std::size_t t = 0; t < first; ++t) kept += shard.tensors[t].bytes();
    done_ += kept;
    auto file = OutputFile::open(partial, first == 0 ? 0 : header.size() + kept);
    if (!file.ok()) return file.error();
    if (first == 0) QUIRE_RETURN_IF_ERROR(file->write(header));
    std::uint64_t synced = file->position();
    for (std::size_t t = first; t < shard.tensors.size(); ++t) {
      QUIRE_RETURN_IF_ERROR(write_tensor(shard.tensors[t], file.value()));
      done_ += shard.tensors[t].bytes();
      progress(done_, total_);
      if (file->position() - synced < s_.sync_bytes || t + 1 == shard.tensors.size()) continue;
      QUIRE_RETURN_IF_ERROR(file->sync());
      QUIRE_RETURN_IF_ERROR(journal_->tensors_written(t + 1));
      synced = file->position();
    }
    QUIRE_CHECK_EQ(file->position(), header.size() + shard.data_bytes()) << shard.file;
    QUIRE_RETURN_IF_ERROR(file->sync());
    QUIRE_RETURN_IF_ERROR(rename_file(partial, path_of(shard)));
    return journal_->shard_written();
  }

  Status write_floats(std::span<const float> values, OutputFile& file) { return file.write(std::as_bytes(values)); }

  Status write_tensor(const OutputTensor& t, OutputFile& file) {
    const model::CheckpointTensor& from = source_.tensors().at(t.source);
    switch (t.content) {
      case Content::kCopy: return write_copy(from.bytes, file);
      case Content::kWeight: return write_weight(matrix_of(t.source, from), file);
      case Content::kWeightScale: {
        const auto scales = weight_scales(matrix_of(t.source, from), form_row(s_.form).scheme.weight);
        return scales.ok() ? write_floats(scales.value(), file) : Status(scales.error());
      }
      case Content::kInputScale: return write_floats(std::vector{input_scale(*report_.ranges, t.layer, linear_weight(t.source)->linear)}, file);
      case Content::kKeyScale: return write_floats(kv_scale(*report_.ranges, t.layer, CachePart::kKeys, s_.kv), file);
      case Content::kValueScale: return write_floats(kv_scale(*report_.ranges, t.layer, CachePart::kValues, s_.kv), file);
    }
    return {};
  }

  static Matrix matrix_of(const std::string& name, const model::CheckpointTensor& t) { return {name, *model::float_dtype(t.dtype), t.bytes, t.shape[0], t.shape[1]}; }

  static Status write_copy(std::span<const std::byte> bytes, OutputFile& file) {
    while (!bytes.empty()) {
      const std::size_t n = std::min(bytes.size(), static_cast<std::size_t>(kPieceBytes));
      QUIRE_RETURN_IF_ERROR(file.write(bytes.first(n)));
      bytes = bytes.subspan(n);
    }
    return {};
  }

  Status write_weight(const Matrix& m, OutputFile& file) {
    const model::WeightScaling kind = form_row(s_.form).scheme.weight;
    const auto scales = weight_scales(m, kind);
    if (!scales.ok()) return scales.error();
    const std::int64_t piece = std::max<std::int64_t>(1, kPieceBytes / std::max<std::int64_t>(1, m.columns));
    std::vector<std::uint8_t> out;
    for (std::int64_t row = 0; row < m.rows; row += piece) {
      const std::int64_t n = std::min(piece, m.rows - row);
      out.resize(static_cast<std::size_t>(n * m.columns));
      round_rows(m, kind, scales.value(), {.first = row, .count = n}, out);
      QUIRE_RETURN_IF_ERROR(file.write(std::as_bytes(std::span<const std::uint8_t>(out))));
    }
    return {};
  }

  Status finish() {
    if (const std::string index = index_json(shards_); !index.empty()) QUIRE_RETURN_IF_ERROR(write_whole_file(s_.output_dir + "/model.safetensors.index.json", index));
    QUIRE_RETURN_IF_ERROR(copy_other_files(s_.source_dir, s_.output_dir));
    auto now = journal_settings(s_);
    if (!now.ok()) return now.error();
    if (const std::string what = difference(settings_, now.value()); !what.empty())
      return Error{ErrorCode::kCorrupt, "MODEL " + s_.source_dir + ": changed while it was read: " + what + "; --overwrite begins again", "MODEL"};
    QUIRE_RETURN_IF_ERROR(write_configs(s_.source_dir, s_.output_dir, s_.form, s_.kv));
    for (const Shard& shard : shards_)
      for (const OutputTensor& t : shard.tensors) {
        ++report_.num_tensors;
        report_.num_quantised += t.content == Content::kWeight ? 1 : 0;
      }
    report_.num_files = shards_.size();
    report_.output_bytes = total_;
    for (const auto& [name, tensor] : source_.tensors()) report_.source_bytes += tensor.bytes.size();
    if (report_.ranges) report_.notes = zeros_in(*report_.ranges, s_.form, s_.kv);
    for (const std::string& note : {uneven_blocks(), large_tensors()})
      if (!note.empty()) report_.notes.push_back(note);
    QUIRE_RETURN_IF_ERROR(note_subfolders());
    return journal_->remove();
  }

  Status note_subfolders() {
    const auto folders = subfolders_of(s_.source_dir);
    if (!folders.ok()) return folders.error();
    if (folders->empty()) return {};
    std::string names;
    for (const std::string& name : folders.value()) names += (names.empty() ? "" : ", ") + shown_text(name);
    report_.notes.push_back("MODEL's subfolders are not copied: " + names);
    return {};
  }

  // A tensor is never cut, nor parted from its scales: those over --max-shard-size have a file of their own.
  [[nodiscard]] std::string large_tensors() const {
    std::size_t count = 0;
    const Shard* largest = nullptr;
    for (const Shard& shard : shards_) {
      if (s_.max_shard_bytes == 0 || shard.data_bytes() <= s_.max_shard_bytes) continue;
      ++count;
      if (largest == nullptr || shard.data_bytes() > largest->data_bytes()) largest = &shard;
    }
    if (largest == nullptr) return {};
    return std::to_string(count) + (count == 1 ? " file of " : " files of ") + std::to_string(shards_.size()) + " over --max-shard-size " + std::to_string(s_.max_shard_bytes) + ": a tensor and its scales stay in one file; the largest is " +
           largest->file + ", " + std::to_string(largest->data_bytes()) + " bytes";
  }

  // Matrices that are multiplied together begin in the middle of a block where one before them does not end with a block.
  [[nodiscard]] std::string uneven_blocks() const {
    if (form_row(s_.form).scheme.weight != model::WeightScaling::kBlock) return {};
    for (const auto& [name, tensor] : source_.tensors()) {
      const auto linear = linear_weight(name);
      if (linear && linear->linear != "self_attn.o_proj" && linear->linear != "mlp.down_proj" && tensor.shape[0] % model::kScaleBlock != 0)
        return name + " has " + std::to_string(tensor.shape[0]) + " rows, no multiple of " + std::to_string(model::kScaleBlock) + ": vLLM refuses such blocks, fp8-dynamic and compressed-tensors it takes";
    }
    return {};
  }

  JobSettings s_;
  const model::ModelSpec& spec_;
  model::Checkpoint source_;
  std::vector<Shard> shards_;
  json::object settings_;
  std::optional<FolderLock> lock_;
  std::optional<Journal> journal_;
  bool cleared_ = false;        // an old checkpoint is out of the way
  std::size_t unrecorded_ = 0;  // files in place that the journal does not know of yet
  std::size_t first_shard_ = 0, first_tensor_ = 0;  // where this run begins
  std::uint64_t done_ = 0, total_ = 0;              // bytes of tensors
  JobReport report_;
};

}  // namespace

Result<std::unique_ptr<Job>> Job::open(const JobSettings& settings, const model::ModelSpec& spec) {
  QUIRE_RETURN_IF_ERROR(check_kv(settings.form, settings.kv));
  auto source = model::Checkpoint::open(settings.source_dir);
  if (!source.ok()) return source.error();
  QUIRE_RETURN_IF_ERROR(check_source(settings.source_dir, spec, source.value()));
  auto job = std::make_unique<FileJob>(settings, spec, std::move(source).value());
  QUIRE_RETURN_IF_ERROR(job->begin());
  return std::unique_ptr<Job>(std::move(job));
}

}  // namespace quire::quantize
