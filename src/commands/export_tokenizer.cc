#include "commands/export_tokenizer.h"

#include <unistd.h>

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <filesystem>
#include <utility>

#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "commands/console.h"
#include "gguf/file.h"
#include "model/checkpoint.h"
#include "model/spec.h"
#include "base/output_file.h"
#include "text/gguf_tokenizer.h"

namespace quire::commands {
namespace {

namespace fs = std::filesystem;

constexpr char kCommand[] = "export-tokenizer";

struct NamedText {
  std::string name, text;
};

Error io(const std::string& output, const std::string& what, const std::error_code& error) { return Error{ErrorCode::kIo, "--output " + output + ": " + what + ": " + error.message(), "--output"}; }

// config.json, or why there is none.
Result<std::string> config_text(const std::string& path) {
  const auto spec = model::read_model_spec(path);
  if (!spec.ok()) return spec.error();
  if (!spec->rope.divisors.empty()) return Error{ErrorCode::kUnsupported, "the file divides rotary frequencies by numbers of its own, which no config.json can say", {}};
  return model::read_config_json(path);
}

// Removes what is left of itself.
class PartialFolder {
 public:
  explicit PartialFolder(std::string output) : output_(std::move(output)) {}
  ~PartialFolder() {
    std::error_code ignored;
    if (made_) fs::remove_all(path_, ignored);
  }
  PartialFolder(const PartialFolder&) = delete;
  PartialFolder& operator=(const PartialFolder&) = delete;

  Status fill(const std::vector<NamedText>& files) {
    QUIRE_RETURN_IF_ERROR(make());
    for (const NamedText& file : files) QUIRE_RETURN_IF_ERROR(write_whole_file(path_ + "/" + file.name, file.text));
    return {};
  }
  // Becomes `output`, or its files move there.
  Status move_into_place(const std::vector<NamedText>& files) {
    std::error_code error;
    if (!fs::exists(output_, error)) return rename(path_, output_);
    std::vector<std::string> moved;
    for (const NamedText& file : files) {
      const Status done = rename(path_ + "/" + file.name, output_ + "/" + file.name);
      if (!done.ok() && moved.empty()) return done;
      if (!done.ok()) return Error{done.error().code, done.error().message + "; " + joined(moved, ", ") + " are new there already, and the rest is not: export again with --overwrite", "--output"};
      moved.push_back(file.name);
    }
    return {};
  }

 private:
  // Under the first free name: one that is taken was left by a killed process of the same id.
  Status make() {
    constexpr int kMostLeft = 100;
    std::error_code error;
    fs::create_directories(fs::path(output_).parent_path(), error);
    for (int i = 0; i < kMostLeft && !made_; ++i) {
      path_ = output_ + ".partial-" + std::to_string(::getpid()) + (i == 0 ? "" : "-" + std::to_string(i));
      made_ = fs::create_directory(path_, error);
      if (error) return io(path_, "cannot be created", error);
    }
    if (!made_) return Error{ErrorCode::kIo, "--output " + path_ + ": is there, and so are the " + std::to_string(kMostLeft - 1) + " before it, left by exports that were killed; remove them", "--output"};
    return {};
  }
  static Status rename(const std::string& from, const std::string& to) {
    std::error_code error;
    fs::rename(from, to, error);
    return error ? Status(io(to, "cannot be put there", error)) : Status();
  }

  const std::string output_;
  std::string path_;
  bool made_ = false;
};

Status check_output(const std::string& output, const std::vector<NamedText>& files, ExistingFiles existing) {
  std::error_code error;
  if (!fs::exists(output, error)) return {};
  if (!fs::is_directory(output, error)) return invalid("--output " + output + ": is a file; a folder is needed", "--output");
  std::vector<std::string> there;
  for (const NamedText& file : files)
    if (fs::exists(output + "/" + file.name, error)) there.push_back(file.name);
  if (there.empty() || existing == ExistingFiles::kReplace) return {};
  return invalid("--output " + output + ": holds " + joined(there, ", ") + "; --overwrite replaces them, or choose another folder", "--output");
}

}  // namespace

Result<ExportedTokenizer> export_tokenizer_files(const std::string& model, const std::string& output, ExistingFiles existing) {
  const auto path = model::resolve_model_dir(model, "main");
  if (!path.ok()) return Error{path.error().code, "MODEL: " + path.error().message, "MODEL"};
  if (!gguf::is_gguf_path(path.value())) return invalid("MODEL: " + shown_text(model) + " is a folder, which has its tokenizer's files already; a .gguf file is needed", "MODEL");
  const auto file = gguf::File::open(path.value());
  if (!file.ok()) return file.error();
  const auto tokenizer = text::gguf_tokenizer_json(file.value()), config = text::gguf_tokenizer_config_json(file.value());
  if (!tokenizer.ok()) return tokenizer.error();
  if (!config.ok()) return config.error();
  ExportedTokenizer out{.model = model, .output = output, .files = {}, .notes = {}};
  std::vector<NamedText> files{{"tokenizer.json", tokenizer.value()}, {"tokenizer_config.json", config.value()}};
  const auto of_model = config_text(path.value());
  if (of_model.ok())
    files.push_back({"config.json", of_model.value()});
  else
    out.notes.push_back("no config.json: " + of_model.error().message);
  for (NamedText& one : files) {
    out.files.push_back(one.name);
    one.text += "\n";
  }
  std::string folder = output;
  while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  QUIRE_RETURN_IF_ERROR(check_output(folder, files, existing));
  PartialFolder partial(folder);
  QUIRE_RETURN_IF_ERROR(partial.fill(files));
  QUIRE_RETURN_IF_ERROR(partial.move_into_place(files));
  return out;
}

std::string export_text(const ExportedTokenizer& e) {
  std::string out = e.output + ": " + joined(e.files, ", ") + "\n";
  for (const std::string& note : e.notes) out += "note: " + note + "\n";
  return out;
}

boost::json::object export_json(const ExportedTokenizer& e) {
  boost::json::array files, notes;
  for (const std::string& name : e.files) files.emplace_back(name);
  for (const std::string& note : e.notes) notes.emplace_back(note);
  return {{"model", e.model}, {"output", e.output}, {"files", std::move(files)}, {"notes", std::move(notes)}};
}

int export_tokenizer(const config::ExportTokenizerCommand& command) {
  const auto exported = export_tokenizer_files(command.options.model(), command.output, command.overwrite ? ExistingFiles::kReplace : ExistingFiles::kRefuse);
  if (!exported.ok()) return report_error(kCommand, exported.error());
  return print_answer(kCommand, command.options.boolean("json") ? boost::json::serialize(export_json(exported.value())) + "\n" : export_text(exported.value()));
}

}  // namespace quire::commands
