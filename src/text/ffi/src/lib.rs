//! Hugging Face tokenizers, chat templates and token constraints behind the C ABI of `quire_text.h`.
//! Owned by src/text. Knows nothing about requests, models or threads: bytes in, bytes out.
#![cfg_attr(alloc_error_hook, feature(alloc_error_hook))]

mod border;
mod budget;
mod chat_input;
mod constraint;
mod control;
mod json_guard;
mod python;
mod template;
mod template_env;
mod tokenizer;
