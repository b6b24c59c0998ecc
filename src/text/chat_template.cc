// The chat template: which file it comes from, and the call across the C ABI that renders and encodes. Owned by src/text.
#include "text/chat_template.h"

#include "base/files.h"
#include "text/ffi_handles.h"
#include "text/tokenizer_impl.h"

namespace quire::text {
namespace {

constexpr std::size_t kMaxTemplateBytes = std::size_t{4} << 20;

}  // namespace

struct ChatTemplate::Impl {
  std::shared_ptr<const Tokenizer> tokenizer;
  std::string source;
  TemplateHandle handle;
};

ChatTemplate::ChatTemplate(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ChatTemplate::~ChatTemplate() = default;

Result<std::shared_ptr<const ChatTemplate>> ChatTemplate::load(const std::string& model_dir, std::shared_ptr<const Tokenizer> tokenizer,
                                                               const std::optional<std::string>& override_text) {
  const auto& config = tokenizer->impl_->config;
  std::string origin = "--chat-template";
  auto impl = std::make_unique<Impl>();
  if (override_text) {
    impl->source = *override_text;
  } else if (origin = model_dir + "/chat_template.jinja"; file_exists(origin)) {
    auto text = read_file(origin, kMaxTemplateBytes);
    if (!text.ok()) return text.error();
    impl->source = std::move(text).value();
  } else if (config.chat_template) {
    origin = model_dir + "/tokenizer_config.json";
    impl->source = *config.chat_template;
  } else {
    return std::shared_ptr<const ChatTemplate>{};
  }

  QuireTextTemplate* handle = nullptr;
  FfiBytes error;
  const auto status = quire_text_template_new(slice(impl->source), slice(config.variables_json), tokenizer->impl_->handle.get(), &handle, error.out());
  if (status != QUIRE_TEXT_OK) {
    Error failure = ffi_error(status, error, "chat_template");
    failure.message = origin + ": " + failure.message;
    return failure;
  }
  impl->handle.reset(handle);
  impl->tokenizer = std::move(tokenizer);
  return std::shared_ptr<const ChatTemplate>(new ChatTemplate(std::move(impl)));
}

Result<RenderedChat> ChatTemplate::render(const ChatTemplateInput& input, AddSpecialTokens add) const {
  const QuireTextRenderInput raw{
      .messages_json = slice(input.messages_json),
      .tools_json = slice(input.tools_json),
      .documents_json = slice(input.documents_json),
      .kwargs_json = slice(input.kwargs_json),
      .now_unix = input.now_unix.value_or(0),
      .has_now = input.now_unix.has_value() ? 1 : 0,
      .add_generation_prompt = input.add_generation_prompt ? 1 : 0,
      .continue_final_message = input.continue_final_message ? 1 : 0,
      .allow_control_tokens = input.allow_control_tokens_in_content ? 1 : 0,
      .add_special_tokens = add == AddSpecialTokens::kYes ? 1 : 0,
  };
  FfiBytes text, error;
  FfiIds ids;
  const auto status = quire_text_template_render(impl_->handle.get(), &raw, text.out(), ids.out(), error.out());
  if (status != QUIRE_TEXT_OK) return ffi_error(status, error, "messages");
  return RenderedChat{text.str(), ids.ids()};
}

const std::string& ChatTemplate::source() const { return impl_->source; }
bool ChatTemplate::accepts_content_parts() const { return quire_text_template_accepts_parts(impl_->handle.get()) == 1; }

bool ChatTemplate::reads(std::string_view variable) const { return quire_text_template_reads(impl_->handle.get(), slice(variable)) == 1; }

}  // namespace quire::text
