/* The C ABI of the Rust crate quire_text: Hugging Face tokenizers, chat templates (minijinja) and token constraints
 * (llguidance). Owned by src/text; nothing outside src/text includes this file.
 *
 * Rules of the border. Every slice is borrowed for the call only and must be valid UTF-8 where text is meant (checked, an
 * error otherwise). Every handle and every filled buffer belongs to the caller and goes back through its *_free function
 * exactly once; freeing NULL or an empty buffer is fine. Handles are immutable and may be used from several threads at once,
 * except QuireTextConstraint, which one thread at a time may use. No panic crosses: it comes back as QUIRE_TEXT_INTERNAL.
 * A function that can fail returns a status and, when it is not QUIRE_TEXT_OK, fills *error with a sentence. */
#ifndef QUIRE_TEXT_H_
#define QUIRE_TEXT_H_
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct QuireTextTokenizer QuireTextTokenizer;
typedef struct QuireTextTemplate QuireTextTemplate;
typedef struct QuireTextGrammars QuireTextGrammars;
typedef struct QuireTextConstraint QuireTextConstraint;

typedef struct QuireTextSlice { const uint8_t* data; size_t len; } QuireTextSlice;
typedef struct QuireTextBytes { uint8_t* data; size_t len; size_t capacity; } QuireTextBytes;
typedef struct QuireTextIds { uint32_t* data; size_t len; size_t capacity; } QuireTextIds;

enum {
  QUIRE_TEXT_OK = 0,
  QUIRE_TEXT_INVALID = 1,     /* the caller's text, messages or grammar are wrong */
  QUIRE_TEXT_CORRUPT = 2,     /* a model file contradicts itself or cannot be read */
  QUIRE_TEXT_NOT_FOUND = 3,
  QUIRE_TEXT_TOO_LARGE = 4,   /* over a stated limit */
  QUIRE_TEXT_INTERNAL = 5,    /* a panic inside a library, caught */
};

enum {
  QUIRE_TEXT_ADD_SPECIAL = 1u, /* run the post-processor (BOS and the like) */
  QUIRE_TEXT_ORDINARY = 2u,    /* the text of a special token is ordinary text */
};

void quire_text_bytes_free(QuireTextBytes bytes);
void quire_text_ids_free(QuireTextIds ids);
/* Handles and buffers that were given out and not yet freed, in this process. */
int64_t quire_text_live_objects(void);

/* `options_json`: {"tokens": [{"content", "special", "lstrip", "rstrip", "single_word", "normalized"}...]}, added when the
 * file does not list them. Empty slice: none. Truncation and padding are switched off. */
int32_t quire_text_tokenizer_new(QuireTextSlice tokenizer_json, QuireTextSlice options_json, QuireTextTokenizer** out, QuireTextBytes* error);
void quire_text_tokenizer_free(QuireTextTokenizer* tokenizer);
/* {"vocab_size": largest id + 1, "special": [[id, content]...], "byte_tokens": [[id, byte]...]}; the last is empty unless the
 * decoder has a byte fallback. */
int32_t quire_text_tokenizer_facts(const QuireTextTokenizer* tokenizer, QuireTextBytes* out_json, QuireTextBytes* error);
int32_t quire_text_encode(const QuireTextTokenizer* tokenizer, QuireTextSlice text, uint32_t flags, QuireTextIds* out, QuireTextBytes* error);
int32_t quire_text_decode(const QuireTextTokenizer* tokenizer, const uint32_t* ids, size_t num_ids, int32_t skip_special, QuireTextBytes* out,
                          QuireTextBytes* error);
int32_t quire_text_token_string(const QuireTextTokenizer* tokenizer, uint32_t id, QuireTextBytes* out, QuireTextBytes* error);
int32_t quire_text_token_id(const QuireTextTokenizer* tokenizer, QuireTextSlice token, uint32_t* out, QuireTextBytes* error);

/* `variables_json`: an object of values every rendering sees (bos_token, eos_token...). The tokenizer is kept alive. */
int32_t quire_text_template_new(QuireTextSlice source, QuireTextSlice variables_json, const QuireTextTokenizer* tokenizer, QuireTextTemplate** out,
                                QuireTextBytes* error);
void quire_text_template_free(QuireTextTemplate* chat_template);
/* 1 when the template walks over content given as a list of {"type": "text", "text": ...} parts, else 0. */
int32_t quire_text_template_accepts_parts(const QuireTextTemplate* chat_template);
/* 1 when the template looks up a variable of that name which it does not set itself, else 0. */
int32_t quire_text_template_reads(const QuireTextTemplate* chat_template, QuireTextSlice variable);

typedef struct QuireTextRenderInput {
  QuireTextSlice messages_json;  /* array of objects */
  QuireTextSlice tools_json;     /* array, or empty */
  QuireTextSlice documents_json; /* array, or empty */
  QuireTextSlice kwargs_json;    /* object, or empty */
  int64_t now_unix;              /* seconds; used when has_now is not 0 */
  int32_t has_now;
  int32_t add_generation_prompt;
  int32_t continue_final_message;
  int32_t allow_control_tokens;  /* 0: text that the messages bring never becomes a control token */
  int32_t add_special_tokens;
} QuireTextRenderInput;
int32_t quire_text_template_render(const QuireTextTemplate* chat_template, const QuireTextRenderInput* input, QuireTextBytes* out_text,
                                   QuireTextIds* out_ids, QuireTextBytes* error);

/* Per-tokenizer state of constraints (a trie of the vocabulary); `eos` are the ids that may end an accepted output. */
int32_t quire_text_grammars_new(const QuireTextTokenizer* tokenizer, const uint32_t* eos, size_t num_eos, QuireTextGrammars** out, QuireTextBytes* error);
void quire_text_grammars_free(QuireTextGrammars* grammars);
/* `kind`: "json_schema", "json_object" (source ignored), "regex", "lark" or "choice" (a JSON array of strings). */
int32_t quire_text_constraint_new(const QuireTextGrammars* grammars, QuireTextSlice kind, QuireTextSlice source, QuireTextConstraint** out,
                                  QuireTextBytes* error);
void quire_text_constraint_free(QuireTextConstraint* constraint);
/* Sets bit i of words[i / 32] for every token allowed next; `num_words` must be at least ceil(vocab_size / 32). */
int32_t quire_text_constraint_mask(QuireTextConstraint* constraint, uint32_t* words, size_t num_words, QuireTextBytes* error);
/* QUIRE_TEXT_INVALID when the grammar does not allow the token here; the constraint is then unchanged. */
int32_t quire_text_constraint_commit(QuireTextConstraint* constraint, uint32_t token, QuireTextBytes* error);
/* 1 when the output so far is complete (the end token is allowed), 0 when not. */
int32_t quire_text_constraint_accepting(QuireTextConstraint* constraint, int32_t* out, QuireTextBytes* error);
/* 1 when nothing but the end token may follow. */
int32_t quire_text_constraint_stopped(const QuireTextConstraint* constraint);

#ifdef __cplusplus
}
#endif
#endif
