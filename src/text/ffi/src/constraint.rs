//! Token constraints through llguidance: JSON schema, regular expression, Lark grammar or a choice of strings.
use crate::border::{fault, give, guard, take_back, Bytes, Outcome, Slice, INVALID, TOO_LARGE};
use crate::json_guard;
use crate::tokenizer::{Core, Handle};
use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{InferenceCapabilities, TokEnv, TokRxInfo, TokTrie, TokenId, TokenizerEnv};
use llguidance::{Matcher, ParserFactory};
use serde_json::Value;
use std::sync::Arc;

const MAX_SOURCE_BYTES: usize = 256 << 10;
const MAX_CHOICES: usize = 10_000;
/// Grammar compilers recurse; they get a stack of their own, larger than a pool thread's.
const COMPILE_STACK_BYTES: usize = 64 << 20;

pub struct Grammars {
    factory: Arc<ParserFactory>,
}

pub struct Constraint {
    matcher: Matcher,
    vocab_size: usize,
}

/// The vocabulary as bytes. Only the mask is used, so tokenising inside the grammar engine may be greedy.
struct Vocabulary {
    trie: TokTrie,
}

impl TokenizerEnv for Vocabulary {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        self.trie.greedy_tokenize(bytes)
    }

    fn tokenize_is_canonical(&self) -> bool {
        false
    }
}

impl Grammars {
    fn new(core: &Core, eos: &[u32]) -> Outcome<Self> {
        if core.vocab_size() == 0 {
            return fault(INVALID, "the tokenizer has no tokens");
        }
        if let Some(id) = eos.iter().find(|id| **id >= core.vocab_size()) {
            return fault(INVALID, format!("end token id {id} is out of range (the vocabulary has {} ids)", core.vocab_size()));
        }
        let Some(first) = eos.first() else { return fault(INVALID, "constraints need at least one end token") };
        let words: Vec<Vec<u8>> = (0..core.vocab_size()).map(|id| token_bytes(core, id)).collect();
        let trie = TokTrie::from(&TokRxInfo::new(core.vocab_size(), *first), &words).with_eos_tokens(eos);
        let env: TokEnv = Arc::new(Vocabulary { trie });
        let mut factory = ParserFactory::new(&env, InferenceCapabilities::default(), &llguidance::earley::SlicedBiasComputer::general_slices())
            .or_else(|e| fault(INVALID, format!("constraints: {e}")))?;
        factory.quiet();
        let limits = factory.limits_mut();
        limits.verbose_errors = false;
        limits.max_grammar_size = 200_000;
        limits.max_lexer_states = 50_000;
        Ok(Grammars { factory: Arc::new(factory) })
    }

    fn constraint(&self, kind: &str, source: &str) -> Outcome<Constraint> {
        if source.len() > MAX_SOURCE_BYTES {
            return fault(TOO_LARGE, format!("the grammar has {} bytes; the limit is {MAX_SOURCE_BYTES}", source.len()));
        }
        let grammar = grammar_of(kind, source)?;
        let factory = self.factory.clone();
        let worker = std::thread::Builder::new()
            .name("grammar".into())
            .stack_size(COMPILE_STACK_BYTES)
            .spawn(move || Matcher::new(factory.create_parser(grammar)))
            .or_else(|e| fault(INVALID, format!("cannot start a thread for the grammar: {e}")))?;
        let matcher = match worker.join() {
            Ok(matcher) => matcher,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        if let Some(error) = matcher.get_error() {
            return fault(INVALID, format!("the {kind} cannot be used: {}", first_lines(&error)));
        }
        Ok(Constraint { matcher, vocab_size: self.factory.tok_env().tok_trie().vocab_size() })
    }
}

fn grammar_of(kind: &str, source: &str) -> Outcome<TopLevelGrammar> {
    match kind {
        "json_object" => Ok(TopLevelGrammar::from_json_schema(serde_json::json!({"type": "object"}))),
        "json_schema" => {
            let schema = json_guard::parse(source, "the JSON schema")?;
            if !schema.is_object() && !schema.is_boolean() {
                return fault(INVALID, "a JSON schema must be an object or a boolean");
            }
            Ok(TopLevelGrammar::from_json_schema(schema))
        }
        "regex" => Ok(TopLevelGrammar::from_regex(source)),
        "lark" => {
            check_brackets(source)?;
            Ok(TopLevelGrammar::from_lark(source.to_string()))
        }
        "choice" => {
            let choices = json_guard::parse(source, "the choices")?;
            let texts: Option<Vec<&str>> = choices.as_array().and_then(|c| c.iter().map(Value::as_str).collect());
            let Some(texts) = texts.filter(|t| !t.is_empty()) else {
                return fault(INVALID, "choices must be a non-empty array of strings");
            };
            if texts.len() > MAX_CHOICES {
                return fault(TOO_LARGE, format!("{} choices; the limit is {MAX_CHOICES}", texts.len()));
            }
            let options: Vec<String> = texts.iter().map(|t| regex_literal(t)).collect();
            Ok(TopLevelGrammar::from_regex(&format!("({})", options.join("|"))))
        }
        other => fault(INVALID, format!("unknown kind of constraint '{other}'; known are json_schema, json_object, regex, lark, choice")),
    }
}

fn regex_literal(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if c.is_ascii_punctuation() {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// The Lark parser recurses once per open bracket.
fn check_brackets(source: &str) -> Outcome<()> {
    let (mut depth, mut quoted, mut escaped) = (0usize, false, false);
    for byte in source.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'\n' => quoted = false,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > 1000 {
            return fault(TOO_LARGE, "the grammar has more than 1000 brackets open at once");
        }
    }
    Ok(())
}

fn first_lines(error: &str) -> String {
    let mut out: String = error.chars().take(1000).collect();
    if let Some(at) = out.find("\n<backtrace>") {
        out.truncate(at);
    }
    out
}

/// The bytes a token stands for in the output. Control tokens are marked so that no grammar text can mean them.
fn token_bytes(core: &Core, id: u32) -> Vec<u8> {
    let Some(name) = core.token_string(id) else { return Vec::new() };
    if core.is_special(id) {
        let mut bytes = vec![TokTrie::SPECIAL_TOKEN_MARKER];
        bytes.extend_from_slice(name.as_bytes());
        return bytes;
    }
    core.token_bytes(id, &name)
}

#[no_mangle]
pub unsafe extern "C" fn quire_text_grammars_new(
    tokenizer: *const Handle, eos: *const u32, num_eos: usize, out: *mut *mut Grammars, error: *mut Bytes,
) -> i32 {
    guard(error, || {
        let eos = if num_eos == 0 { &[] } else { std::slice::from_raw_parts(eos, num_eos) };
        out.write(give(Grammars::new(&(*tokenizer).0, eos)?));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn quire_text_grammars_free(grammars: *mut Grammars) {
    take_back(grammars);
}

#[no_mangle]
pub unsafe extern "C" fn quire_text_constraint_new(
    grammars: *const Grammars, kind: Slice, source: Slice, out: *mut *mut Constraint, error: *mut Bytes,
) -> i32 {
    guard(error, || {
        out.write(give((*grammars).constraint(kind.text("kind")?, source.text("grammar")?)?));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn quire_text_constraint_free(constraint: *mut Constraint) {
    take_back(constraint);
}

#[no_mangle]
pub unsafe extern "C" fn quire_text_constraint_mask(
    constraint: *mut Constraint, words: *mut u32, num_words: usize, error: *mut Bytes,
) -> i32 {
    guard(error, || {
        let constraint = &mut *constraint;
        if num_words < constraint.vocab_size.div_ceil(32) {
            return fault(INVALID, format!("a mask of {num_words} words is too small for {} tokens", constraint.vocab_size));
        }
        let words = std::slice::from_raw_parts_mut(words, num_words);
        let mask = constraint
            .matcher
            .compute_mask_or_eos()
            .or_else(|e| fault(TOO_LARGE, format!("the grammar's next tokens cannot be computed: {}", first_lines(&e.to_string()))))?;
        let used = mask.as_slice().len().min(constraint.vocab_size.div_ceil(32));
        words.fill(0);
        words[..used].copy_from_slice(&mask.as_slice()[..used]);
        if constraint.vocab_size % 32 != 0 {
            words[constraint.vocab_size / 32] &= (1u32 << (constraint.vocab_size % 32)) - 1;
        }
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn quire_text_constraint_commit(constraint: *mut Constraint, token: u32, error: *mut Bytes) -> i32 {
    guard(error, || {
        let constraint = &mut *constraint;
        if token as usize >= constraint.vocab_size {
            return fault(INVALID, format!("token id {token} is out of range"));
        }
        let taken = constraint
            .matcher
            .try_consume_tokens(&[token])
            .or_else(|e| fault(INVALID, format!("the grammar failed: {}", first_lines(&e.to_string()))))?;
        if taken == 1 {
            Ok(())
        } else {
            fault(INVALID, format!("the grammar does not allow token id {token} here"))
        }
    })
}

#[no_mangle]
pub unsafe extern "C" fn quire_text_constraint_accepting(constraint: *mut Constraint, out: *mut i32, error: *mut Bytes) -> i32 {
    guard(error, || {
        let accepting = (*constraint)
            .matcher
            .is_accepting()
            .or_else(|e| fault(INVALID, format!("the grammar failed: {}", first_lines(&e.to_string()))))?;
        out.write(i32::from(accepting));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn quire_text_constraint_stopped(constraint: *const Constraint) -> i32 {
    i32::from((*constraint).matcher.is_stopped())
}
