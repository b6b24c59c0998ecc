// One quantisation: from a checked source folder to a checkpoint folder that appears piece by piece and is complete when its config.json is
// there. Killed at any point and run again, it goes on, and the bytes are those of an uninterrupted run. Owns files; runs no model.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "calibration/observe.h"
#include "model/spec.h"
#include "quantize/form.h"

namespace quire::quantize {

struct JobSettings {
  std::string source_dir, output_dir;
  Form form = Form::kFp8;
  KvScales kv = KvScales::kTensor;
  std::uint64_t max_shard_bytes = 0;  // 0: as the source's files
  std::string text;                   // that calibration runs over; of no matter to a form that needs none
  // Other flags that change what calibration finds, as given: a run that goes on must have the same.
  std::vector<std::pair<std::string, std::string>> calibration_flags;
  bool overwrite = false;             // a checkpoint in the output folder goes, once nothing can be refused any more
  std::uint64_t sync_bytes = 8u << 20;  // a killed run repeats no more than this
};

struct JobReport {
  std::size_t num_files = 0, num_tensors = 0, num_quantised = 0;
  std::uint64_t source_bytes = 0, output_bytes = 0;  // of tensors
  bool resumed = false;
  std::size_t files_kept = 0;                   // that an earlier run had written
  std::optional<calibration::Ranges> ranges;    // what calibration found
  std::vector<std::string> notes;               // scales that were not measured, and what other programs do not take
};

class Job {
 public:
  // Reads headers and the journal; writes nothing but the folder and its journal. Refused: a source that is quantised or has KV scales, by
  // the name that says so; a per-head KV scale that the form has no words for; an output folder that is the source, that is not empty (unless
  // `overwrite`, which takes a checkpoint out of it), or whose journal was begun with other settings or from another source; too little room.
  [[nodiscard]] static Result<std::unique_ptr<Job>> open(const JobSettings& settings, const model::ModelSpec& spec);
  virtual ~Job() = default;

  // calibrate() is to be called, once, before run().
  [[nodiscard]] virtual bool wants_calibration() const = 0;
  [[nodiscard]] virtual Status calibrate(const calibration::Ranges& ranges) = 0;
  // `progress`: bytes of tensors that are written, and all. Errors of the system name the path; what was written stays.
  [[nodiscard]] virtual Result<JobReport> run(const std::function<void(std::uint64_t done, std::uint64_t total)>& progress) = 0;
};

}  // namespace quire::quantize
