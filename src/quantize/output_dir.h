// The folder that a quantisation writes: whether it may, what stands in the way, and the files beside the tensors. Knows names of files.
#pragma once
#include <boost/json/object.hpp>
#include <cstdint>
#include <string>

#include "base/result.h"
#include "quantize/form.h"

namespace quire::quantize {

// What identifies the source's files between runs: each one's name, length and time of change.
[[nodiscard]] Result<boost::json::object> source_identity(const std::string& source_dir);

// The folder exists, is another one than the source, and holds nothing (`overwrite`: no checkpoint any more) or a journal.
[[nodiscard]] Status prepare_output_dir(const std::string& output_dir, const std::string& source_dir, bool overwrite);
// kResourceExhausted when the file system of `dir` has fewer bytes left.
[[nodiscard]] Status check_room(const std::string& dir, std::uint64_t bytes);

// Every file of the source but weights, indexes and the two configs (tokenizer, generation_config.json, licences, ...).
[[nodiscard]] Status copy_other_files(const std::string& source_dir, const std::string& output_dir);
// config.json with "quantization_config" (all else as it was, byte for byte), after hf_quant_config.json for a form that has one.
[[nodiscard]] Status write_configs(const std::string& source_dir, const std::string& output_dir, Form form, KvScales kv);
// Refuses a source that says it is quantised, naming the file and field.
[[nodiscard]] Status check_unquantised(const std::string& source_dir);

}  // namespace quire::quantize
