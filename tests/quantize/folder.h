// Folders as tests of quantising see them: every file's bytes, and the checkpoints that tools/make_fp8_checkpoints.py wrote.
#pragma once
#include <boost/json/value.hpp>
#include <map>
#include <string>

#include "calibration/observe.h"
#include "model/spec.h"

namespace quire::quantize::test {

inline const std::string kGoldens = QUIRE_SOURCE_DIR "/tests/golden/fp8";

// Name to content, folders left out.
[[nodiscard]] std::map<std::string, std::string> files_in(const std::string& dir);
void copy_folder(const std::string& from, const std::string& to);

[[nodiscard]] const boost::json::value& expected();
// The largest magnitudes over the calibration text that the script found.
[[nodiscard]] calibration::Ranges expected_ranges();
[[nodiscard]] model::ModelSpec golden_spec();

}  // namespace quire::quantize::test
