//! A Hugging Face tokenizer and its variants: the plain one, the one that reads special tokens' text as ordinary text, and the
//! one for chats, in which only placeholders chosen at load time stand for control tokens.
use crate::border::{fault, give, guard, take_back, Bytes, Ids, Outcome, Slice, CORRUPT, INVALID, NOT_FOUND};
use crate::json_guard;
use aho_corasick::{AhoCorasick, MatchKind};
use serde_json::{json, Value};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};
use tokenizers::{AddedToken, Tokenizer};

pub const ADD_SPECIAL: u32 = 1;
pub const ORDINARY: u32 = 2;

pub struct Core {
    plain: Tokenizer,
    // Clones are made on first use: a server whose clients never send control text pays nothing for them.
    ordinary: OnceLock<Tokenizer>,
    chat: OnceLock<ChatTokenizer>,
    specials: Vec<(u32, AddedToken)>,
    special_ids: HashSet<u32>,
    added: Vec<(u32, AddedToken)>,
    unknown_id: Option<u32>,
    vocab_size: u32,
    byte_fallback: bool,
    byte_level: bool,
    /// A special token that is matched on normalised text can be written in ways that a search of the raw text misses.
    pub hidden_spellings: bool,
}

/// Reads placeholders as control tokens and everything else as ordinary text.
struct ChatTokenizer {
    tokenizer: Tokenizer,
    finder: AhoCorasick,             // over the text of every added token
    placeholders: Vec<Option<String>>, // by finder pattern; None: not a control token
    to_control: HashMap<u32, u32>,   // placeholder's id -> control token's id
}

impl Core {
    pub fn load(json: &[u8], options: &str) -> Outcome<Self> {
        json_guard::check_depth(json, "tokenizer.json", CORRUPT)?;
        let document: Value =
            serde_json::from_slice(json).or_else(|e| fault(CORRUPT, format!("tokenizer.json is not valid JSON: {e}")))?;
        let mut plain = Tokenizer::from_bytes(json)
            .or_else(|e| fault(CORRUPT, format!("tokenizer.json cannot be loaded: {e}")))?;
        check_added_ids(&document, &plain)?;
        plain.with_padding(None);
        plain.with_truncation(None).or_else(|e| fault(CORRUPT, format!("tokenizer.json: {e}")))?;
        apply_options(&mut plain, options)?;

        let mut added: Vec<_> = plain.get_added_tokens_decoder().into_iter().collect();
        added.sort_by_key(|(id, _)| *id);
        let specials: Vec<_> = added.iter().filter(|(_, t)| t.special && !t.content.is_empty()).cloned().collect();
        let vocab_size = plain.get_vocab(true).values().max().map_or(0, |id| id.saturating_add(1));
        if vocab_size > i32::MAX as u32 {
            return fault(CORRUPT, format!("tokenizer.json: token id {} does not fit 31 bits", vocab_size - 1));
        }
        Ok(Core {
            ordinary: OnceLock::new(),
            chat: OnceLock::new(),
            special_ids: specials.iter().map(|(id, _)| *id).collect(),
            hidden_spellings: plain.get_normalizer().is_some() && specials.iter().any(|(_, t)| t.normalized),
            unknown_id: unknown_id(&document, &plain),
            byte_fallback: has_decoder(&document["decoder"], "ByteFallback"),
            byte_level: has_decoder(&document["decoder"], "ByteLevel"),
            specials,
            added,
            vocab_size,
            plain,
        })
    }

    pub fn special_texts(&self) -> impl Iterator<Item = &str> {
        self.specials.iter().map(|(_, t)| t.content.as_str())
    }

    pub fn vocab_size(&self) -> u32 {
        self.vocab_size
    }

    pub fn is_special(&self, id: u32) -> bool {
        self.special_ids.contains(&id)
    }

    pub fn token_string(&self, id: u32) -> Option<String> {
        self.plain.id_to_token(id)
    }

    /// The bytes an ordinary token adds to the output in mid-text: byte-level letters are turned back into bytes, byte
    /// tokens into their byte, and "▁" into a space.
    pub fn token_bytes(&self, id: u32, name: &str) -> Vec<u8> {
        if self.added.binary_search_by_key(&id, |(id, _)| *id).is_ok() {
            return name.as_bytes().to_vec();
        }
        if self.byte_level {
            if let Some(bytes) = name.chars().map(byte_of_letter).collect::<Option<Vec<u8>>>() {
                return bytes;
            }
        }
        if let Some(byte) = byte_of_token(name).filter(|_| self.byte_fallback) {
            return vec![byte];
        }
        name.replace('\u{2581}', " ").into_bytes()
    }

    pub fn encode(&self, text: &str, flags: u32) -> Outcome<Vec<u32>> {
        let add_special = flags & ADD_SPECIAL != 0;
        if flags & ORDINARY == 0 {
            return Ok(run(&self.plain, text, add_special)?.get_ids().to_vec());
        }
        let tokenizer = self.ordinary.get_or_init(|| {
            let mut clone = self.plain.clone();
            clone.set_encode_special_tokens(true);
            clone
        });
        let encoding = run(tokenizer, text, add_special)?;
        self.refuse_control_ids(&encoding, encoding.get_ids())?;
        Ok(encoding.get_ids().to_vec())
    }

    /// Encodes a chat of which `is_ours` says, per byte offset, whether the template wrote that character. Only control
    /// tokens whose whole text the template wrote become control tokens.
    pub fn encode_chat(&self, pieces: &ChatText, add_special: bool) -> Outcome<Vec<u32>> {
        let chat = self.chat.get_or_init(|| ChatTokenizer::new(&self.plain, &self.added));
        let text = chat.put_placeholders(pieces)?;
        let encoding = run(&chat.tokenizer, &text, add_special)?;
        self.refuse_control_ids(&encoding, encoding.get_ids())?;
        Ok(encoding.get_ids().iter().map(|id| chat.to_control.get(id).copied().unwrap_or(*id)).collect())
    }

    /// Some models (Unigram) can spell a control token out of plain text; such a text has no safe encoding.
    fn refuse_control_ids(&self, encoding: &tokenizers::Encoding, ids: &[u32]) -> Outcome<()> {
        for (id, from_post_processor) in ids.iter().zip(encoding.get_special_tokens_mask()) {
            if *from_post_processor == 0 && self.special_ids.contains(id) && Some(*id) != self.unknown_id {
                let name = self.plain.id_to_token(*id).unwrap_or_default();
                return fault(INVALID, format!("this tokenizer turns plain text into its control token '{name}'; the text cannot be encoded safely"));
            }
        }
        Ok(())
    }

    pub fn decode(&self, ids: &[u32], skip_special: bool) -> Outcome<String> {
        self.plain.decode(ids, skip_special).or_else(|e| fault(INVALID, format!("cannot decode: {e}")))
    }

    fn facts(&self) -> Value {
        let special: Vec<_> = self.specials.iter().map(|(id, token)| json!([id, token.content])).collect();
        let vocabulary = self.plain.get_vocab(true);
        // It writes a byte as one or more bytes ("\u{0120}" for a space), never as fewer.
        let max_token_bytes = vocabulary.keys().map(String::len).max().unwrap_or(0);
        let mut byte_tokens = Vec::new();
        if self.byte_fallback {
            for (name, id) in vocabulary {
                if let Some(byte) = byte_of_token(&name) {
                    byte_tokens.push(json!([id, byte]));
                }
            }
        }
        json!({"vocab_size": self.vocab_size, "max_token_bytes": max_token_bytes, "special": special, "byte_tokens": byte_tokens})
    }
}

/// A rendered chat: the text with protected characters still replaced, and the way back to the true text.
pub struct ChatText<'a> {
    pub marked: &'a str,
    pub unmark: &'a dyn Fn(&str) -> String,
}

impl ChatTokenizer {
    fn new(plain: &Tokenizer, added: &[(u32, AddedToken)]) -> Self {
        let finder = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(added.iter().map(|(_, t)| t.content.as_str()))
            .expect("the tokenizer built the same automaton");
        let mut tokenizer = plain.clone();
        tokenizer.set_encode_special_tokens(true);
        let mut placeholders = Vec::with_capacity(added.len());
        let mut to_control = HashMap::new();
        let mut tokens = Vec::new();
        for (id, token) in added {
            if !token.special {
                placeholders.push(None);
                continue;
            }
            let content = crate::control::random_private_text(4);
            tokens.push((*id, AddedToken { content: content.clone(), special: false, ..token.clone() }));
            placeholders.push(Some(content));
        }
        tokenizer.add_tokens(&tokens.iter().map(|(_, t)| t.clone()).collect::<Vec<_>>());
        for (control_id, token) in &tokens {
            let id = tokenizer.token_to_id(&token.content).expect("just added");
            to_control.insert(id, *control_id);
        }
        ChatTokenizer { tokenizer, finder, placeholders, to_control }
    }

    fn put_placeholders(&self, chat: &ChatText) -> Outcome<String> {
        // 64 random bits per placeholder: only a bug could bring one here.
        if self.placeholders.iter().flatten().any(|p| chat.marked.contains(p.as_str())) {
            return fault(INVALID, "the chat contains a reserved sequence of private-use characters");
        }
        let mut out = String::with_capacity(chat.marked.len());
        let mut done = 0;
        for found in self.finder.find_iter(chat.marked) {
            if let Some(placeholder) = &self.placeholders[found.pattern().as_usize()] {
                out.push_str(&(chat.unmark)(&chat.marked[done..found.start()]));
                out.push_str(placeholder);
                done = found.end();
            }
        }
        out.push_str(&(chat.unmark)(&chat.marked[done..]));
        Ok(out)
    }
}

fn run(tokenizer: &Tokenizer, text: &str, add_special: bool) -> Outcome<tokenizers::Encoding> {
    tokenizer.encode_fast(text, add_special).or_else(|e| fault(INVALID, format!("cannot encode: {e}")))
}

/// The library would quietly give an added token another id than the file says.
fn check_added_ids(document: &Value, tokenizer: &Tokenizer) -> Outcome<()> {
    for token in document["added_tokens"].as_array().into_iter().flatten() {
        let (Some(content), Some(id)) = (token["content"].as_str(), token["id"].as_u64()) else { continue };
        let given = tokenizer.token_to_id(content).map(u64::from);
        if !content.is_empty() && given != Some(id) {
            return fault(CORRUPT, format!("tokenizer.json: added token '{content}' has id {id}, but the vocabulary gives it {given:?}"));
        }
    }
    Ok(())
}

fn unknown_id(document: &Value, tokenizer: &Tokenizer) -> Option<u32> {
    let model = &document["model"];
    match model["unk_token"].as_str() {
        Some(token) => tokenizer.token_to_id(token),
        None => model["unk_id"].as_u64().and_then(|id| u32::try_from(id).ok()),
    }
}

fn has_decoder(decoder: &Value, kind: &str) -> bool {
    let is_kind = |d: &Value| d["type"] == kind;
    is_kind(decoder) || decoder["decoders"].as_array().is_some_and(|list| list.iter().any(is_kind))
}

/// "<0xE2>" as its byte, by the library's own rule.
fn byte_of_token(name: &str) -> Option<u8> {
    let digits = name.strip_prefix("<0x")?.strip_suffix('>')?;
    if digits.len() == 2 { u8::from_str_radix(digits, 16).ok() } else { None }
}

/// GPT-2's letters for bytes: printable Latin-1 characters stand for themselves, the others follow from U+0100 on.
fn byte_of_letter(letter: char) -> Option<u8> {
    let itself = |b: u32| (0x21..=0x7e).contains(&b) || (0xa1..=0xac).contains(&b) || (0xae..=0xff).contains(&b);
    let code = letter as u32;
    if code < 0x100 {
        return itself(code).then_some(code as u8);
    }
    (0..0x100u32).filter(|b| !itself(*b)).nth(code as usize - 0x100).map(|b| b as u8)
}

/// What Hugging Face transformers adds to a tokenizer after loading it, from tokenizer_config.json. (Its add_bos_token and
/// add_eos_token do not count beside a tokenizer.json, there as here: the post-processor in the file decides.)
fn apply_options(tokenizer: &mut Tokenizer, options: &str) -> Outcome<()> {
    if options.is_empty() {
        return Ok(());
    }
    let options = json_guard::parse(options, "tokenizer options")?;
    for token in options["tokens"].as_array().into_iter().flatten() {
        let content = token["content"].as_str().unwrap_or_default();
        if content.is_empty() || tokenizer.get_added_tokens_decoder().values().any(|t| t.content == content) {
            continue;
        }
        let flag = |name: &str| token[name].as_bool().unwrap_or(false);
        let special = flag("special");
        tokenizer.add_tokens(&[AddedToken {
            content: content.to_string(),
            single_word: flag("single_word"),
            lstrip: flag("lstrip"),
            rstrip: flag("rstrip"),
            normalized: token["normalized"].as_bool().unwrap_or(!special),
            special,
        }]);
    }
    Ok(())
}

/// What C++ holds.
pub struct Handle(pub Arc<Core>);

#[no_mangle]
pub unsafe extern "C" fn quire_text_tokenizer_new(json: Slice, options: Slice, out: *mut *mut Handle, error: *mut Bytes) -> i32 {
    guard(error, || {
        let core = Core::load(json.bytes(), options.text("tokenizer options")?)?;
        out.write(give(Handle(Arc::new(core))));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn quire_text_tokenizer_free(handle: *mut Handle) {
    take_back(handle);
}

#[no_mangle]
pub unsafe extern "C" fn quire_text_tokenizer_facts(handle: *const Handle, out: *mut Bytes, error: *mut Bytes) -> i32 {
    guard(error, || {
        out.write(Bytes::from_vec((*handle).0.facts().to_string().into_bytes()));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn quire_text_encode(handle: *const Handle, text: Slice, flags: u32, out: *mut Ids, error: *mut Bytes) -> i32 {
    guard(error, || {
        out.write(Ids::from_vec((*handle).0.encode(text.text("text")?, flags)?));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn quire_text_decode(
    handle: *const Handle, ids: *const u32, num_ids: usize, skip_special: i32, out: *mut Bytes, error: *mut Bytes,
) -> i32 {
    guard(error, || {
        let ids = if num_ids == 0 { &[] } else { std::slice::from_raw_parts(ids, num_ids) };
        out.write(Bytes::from_vec((*handle).0.decode(ids, skip_special != 0)?.into_bytes()));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn quire_text_token_string(handle: *const Handle, id: u32, out: *mut Bytes, error: *mut Bytes) -> i32 {
    guard(error, || match (*handle).0.token_string(id) {
        Some(text) => {
            out.write(Bytes::from_vec(text.into_bytes()));
            Ok(())
        }
        None => fault(NOT_FOUND, format!("no token has id {id}")),
    })
}

#[no_mangle]
pub unsafe extern "C" fn quire_text_token_id(handle: *const Handle, token: Slice, out: *mut u32, error: *mut Bytes) -> i32 {
    guard(error, || {
        let core = &(*handle).0;
        let Some(id) = core.plain.token_to_id(token.text("token")?) else { return fault(NOT_FOUND, "no such token") };
        out.write(id);
        Ok(())
    })
}
