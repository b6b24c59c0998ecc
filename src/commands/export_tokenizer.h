// quire export-tokenizer: the tokenizer of a GGUF file as a folder that Hugging Face's libraries read. Files alone: no weights, no device.
#pragma once
#include <boost/json/object.hpp>
#include <string>
#include <vector>

#include "config/command_line.h"

namespace quire::commands {

struct ExportedTokenizer {
  std::string model, output;
  std::vector<std::string> files;  // names in `output`
  std::vector<std::string> notes;  // what was left out, and why
};
enum class ExistingFiles : unsigned char { kRefuse, kReplace };

// tokenizer.json, tokenizer_config.json with the chat template, and config.json where one can say what the file's metadata say. A new folder
// appears whole or not at all; in one that exists each file does. Refused: a MODEL that is no GGUF file, or holds no tokenizer that is
// known; files that are there already (kRefuse), with their names.
[[nodiscard]] Result<ExportedTokenizer> export_tokenizer_files(const std::string& model, const std::string& output, ExistingFiles existing);

[[nodiscard]] std::string export_text(const ExportedTokenizer& exported);
[[nodiscard]] boost::json::object export_json(const ExportedTokenizer& exported);

// The process's exit code, as of quantize.
[[nodiscard]] int export_tokenizer(const config::ExportTokenizerCommand& command);

}  // namespace quire::commands
