// The folder that a quantisation writes: whether it may, what stands in the way, and the files beside the tensors. Knows names of files.
#pragma once
#include <boost/json/object.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "quantize/form.h"

namespace quire::quantize {

// What identifies the source's files between runs: each one's name, length and time of change.
[[nodiscard]] Result<boost::json::object> source_identity(const std::string& source_dir);

// The folder exists, and is neither the source nor inside it.
[[nodiscard]] Status create_output_dir(const std::string& output_dir, const std::string& source_dir);
// It holds nothing, or a journal; refused with what is in the way otherwise.
[[nodiscard]] Status check_output_dir(const std::string& output_dir);
// Tensors, indexes and the two configs: how much they hold, and away with them. Everything else stays.
[[nodiscard]] std::uint64_t old_checkpoint_bytes(const std::string& output_dir);
[[nodiscard]] Status remove_old_checkpoint(const std::string& output_dir);
// kResourceExhausted when the file system of `dir` has fewer bytes left, `freed` of them by removing what is there.
[[nodiscard]] Status check_room(const std::string& dir, std::uint64_t bytes, std::uint64_t freed);

// Every file of the source but weights, indexes and the two configs (tokenizer, generation_config.json, licences, ...).
[[nodiscard]] Status copy_other_files(const std::string& source_dir, const std::string& output_dir);
// Folders in the source, links followed, sorted: copy_other_files() leaves them out.
[[nodiscard]] Result<std::vector<std::string>> subfolders_of(const std::string& source_dir);
// config.json with "quantization_config" (all else as it was, byte for byte), after hf_quant_config.json for a form that has one.
[[nodiscard]] Status write_configs(const std::string& source_dir, const std::string& output_dir, Form form, KvScales kv);
// Refuses a source that says it is quantised, naming the file and field.
[[nodiscard]] Status check_unquantised(const std::string& source_dir);

}  // namespace quire::quantize
