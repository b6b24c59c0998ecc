//! A compiled chat template and its rendering: messages in, text and token ids out.
use crate::budget;
use crate::border::{fault, give, guard, take_back, Bytes, Fault, Ids, Outcome, Slice, CORRUPT, INVALID, TOO_LARGE};
use crate::chat_input::{read_chat, Chat, Input};
use crate::control::{mark, random_private_text, Finder, Marks, Strength};
use crate::json_guard;
use crate::template_env::{new_environment, RenderingScope, FUEL};
use crate::tokenizer::{self, ChatText, Core};
use minijinja::{Environment, ErrorKind};
use serde_json::{json, Map, Value};
use std::collections::HashSet;
use std::io;
use std::sync::Arc;

const MAX_SOURCE_BYTES: usize = 4 << 20;
// What a chat may become: so many bytes, and no more than a template's own text and each message several times over. Marks of control
// tokens lengthen messages, so a rendering with marks has the first bound alone, behind one that kept both.
const MAX_OUTPUT_BYTES: usize = 16 << 20;
const OWN_OUTPUT_BYTES: usize = 1 << 20;
const OUTPUT_BYTES_PER_INPUT_BYTE: usize = 8;
/// What a rendering may hold at a time: variables, intermediate strings and the output. A byte of JSON becomes some dozens in small values.
const OWN_MEMORY_BYTES: usize = 32 << 20;
const MEMORY_BYTES_PER_INPUT_BYTE: usize = 64;
const NAME: &str = "chat_template";
pub struct ChatTemplate {
    env: Environment<'static>,
    source: String,
    variables: Map<String, Value>,
    tokenizer: Arc<Core>,
    finder: Finder,
    accepts_parts: bool,
    reads: HashSet<String>, // names of variables; see reads()
}

impl ChatTemplate {
    fn compile(source: &str, variables: &str, tokenizer: Arc<Core>) -> Outcome<Self> {
        if source.len() > MAX_SOURCE_BYTES {
            return fault(TOO_LARGE, format!("chat template has {} bytes; the limit is {MAX_SOURCE_BYTES}", source.len()));
        }
        let Value::Object(variables) = json_guard::parse(variables, "template variables")? else {
            return fault(INVALID, "template variables must be an object");
        };
        let mut env = new_environment();
        let text = without_generation_tags(source);
        // Expressions of constants are computed here, once for all renderings.
        budget::within(OWN_MEMORY_BYTES, || env.add_template_owned(NAME, text))
            .or_else(|e| fault(TOO_LARGE, format!("chat template does not compile: {}", words_of(&e, OWN_MEMORY_BYTES))))?
            .or_else(|e| fault(CORRUPT, format!("chat template does not compile: {}", describe(&e))))?;
        let reads = env.get_template(NAME).map(|t| t.undeclared_variables(false)).unwrap_or_default();
        let finder = Finder::new(tokenizer.special_texts())?;
        let mut template = ChatTemplate { env, source: source.to_string(), variables, tokenizer, finder, accepts_parts: false, reads };
        template.refuse_unknown_names()?;
        template.accepts_parts = template.probe_parts();
        Ok(template)
    }

    fn probe(&self, content: Value) -> Result<String, RunError> {
        let chat = Chat {
            messages: json!([{"role": "user", "content": content}]),
            tools: Value::Null,
            documents: Value::Null,
            kwargs: json!({}),
        };
        self.run(&chat, true, &Bounds::of(0), || RenderingScope::enter(0, Marks::default()))
    }

    /// Whether the template looks up a variable that it does not set itself. minijinja takes `set x = x | default([])` for a
    /// variable of the template's own, so the right sides of such lines are looked at here.
    fn reads(&self, name: &str) -> bool {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let own_value = |rest: &str| {
            let value = rest.trim_start().strip_prefix(name).map(str::trim_start).and_then(|r| r.strip_prefix('='));
            let value = value.map(|v| v.split("%}").next().unwrap_or_default());
            value.is_some_and(|v| v.split(|c: char| !is_word(c)).any(|word| word == name))
        };
        self.reads.contains(name) || self.source.match_indices("set ").any(|(at, _)| own_value(&self.source[at + 4..]))
    }

    /// minijinja looks filters, tests and functions up when they run. What the simplest chat would meet is refused at load.
    fn refuse_unknown_names(&self) -> Outcome<()> {
        match self.probe(json!("text")) {
            Err(RunError::Template(e))
                if matches!(e.kind(), ErrorKind::UnknownFilter | ErrorKind::UnknownTest | ErrorKind::UnknownFunction) =>
            {
                fault(CORRUPT, format!("chat template does not compile: {}", describe(&e)))
            }
            _ => Ok(()), // a template may well refuse this chat
        }
    }

    /// Gives the template one message with a text part, and looks whether the text comes out without its wrapping.
    fn probe_parts(&self) -> bool {
        let probe = "zq7text7qz";
        match self.probe(json!([{"type": "text", "text": probe}])) {
            Ok(text) => text.contains(probe) && !text.contains("'type'") && !text.contains("\"type\""),
            Err(_) => false,
        }
    }

    fn render(&self, input: &Input) -> Outcome<(String, Vec<u32>)> {
        let mut chat = read_chat(input)?;
        let mut continued = None;
        if input.continue_final_message {
            if input.add_generation_prompt {
                return fault(INVALID, "continue_final_message and add_generation_prompt cannot both be set");
            }
            continued = Some(self.tag_final_message(&mut chat.messages)?);
        }
        let plain = self.render_marked(&chat, input, continued.as_ref(), None)?;
        let guarded = !input.allow_control_tokens && self.finder.suspects_any(&[&chat.messages, &chat.tools, &chat.documents, &chat.kwargs]);
        if !guarded {
            let ids = self.encode(&plain, input)?;
            return Ok((plain.text, ids));
        }
        // Where marks everywhere change what the template does (it looks for them), the special texts' own remain.
        let mut marked = self.render_marked(&chat, input, continued.as_ref(), Some(Strength::Thorough));
        if !marked.as_ref().is_ok_and(|m| m.text == plain.text) {
            marked = self.render_marked(&chat, input, continued.as_ref(), Some(Strength::Occurrences));
        }
        let marked = marked?;
        let ids = self.encode(&marked, input)?;
        Ok((marked.text, ids))
    }

    fn render_marked(&self, chat: &Chat, input: &Input, continued: Option<&Continued>, strength: Option<Strength>) -> Outcome<Rendered> {
        let mut marks = Marks::default();
        let mut owned = None;
        if let Some(strength) = strength {
            let mut others = vec![self.source.as_str()];
            others.extend(self.variables.values().filter_map(Value::as_str));
            let Chat { messages, tools, documents, kwargs } = owned.insert(chat.clone());
            marks = mark(&self.finder, strength, &mut [messages, tools, documents, kwargs], &others)?;
        }
        let mut bounds = Bounds::of(input.messages.len() + input.tools.len() + input.documents.len() + input.kwargs.len());
        if strength.is_some() {
            bounds.output = MAX_OUTPUT_BYTES;
        }
        let scope = || RenderingScope::enter(input.now_unix, marks.clone());
        let result = self.run(owned.as_ref().unwrap_or(chat), input.add_generation_prompt, &bounds, scope);
        let mut marked = result.map_err(|e| render_fault(&e))?;
        if let Some(continued) = continued {
            marked = continued.cut(marked, &marks)?;
        }
        Ok(Rendered { text: marks.unmark(&marked), marked, marks })
    }

    fn encode(&self, rendered: &Rendered, input: &Input) -> Outcome<Vec<u32>> {
        let core = &self.tokenizer;
        if !input.allow_control_tokens && (core.hidden_spellings || self.finder.touched(&rendered.text, &rendered.marked)) {
            let chat = ChatText { marked: &rendered.marked, unmark: &|t| rendered.marks.unmark(t) };
            return core.encode_chat(&chat, input.add_special_tokens);
        }
        core.encode(&rendered.text, if input.add_special_tokens { tokenizer::ADD_SPECIAL } else { 0 })
    }

    fn run(&self, chat: &Chat, add_generation_prompt: bool, bounds: &Bounds, scope: impl FnOnce() -> RenderingScope + Send) -> Result<String, RunError> {
        let mut context = self.variables.clone();
        for (key, value) in chat.kwargs.as_object().into_iter().flatten() {
            context.insert(key.clone(), value.clone());
        }
        context.insert("messages".into(), chat.messages.clone());
        context.insert("tools".into(), chat.tools.clone());
        context.insert("documents".into(), chat.documents.clone());
        context.insert("add_generation_prompt".into(), add_generation_prompt.into());
        let template = self.env.get_template(NAME).map_err(RunError::Template)?;
        let mut out = Limited { bytes: Vec::new(), limit: bounds.output, full: false };
        let result = budget::within(bounds.memory, || {
            let _scope = scope();
            template.render_captured_to(minijinja::Value::from_serialize(&context), &mut out).err()
        });
        let failed = result.map_err(|e| RunError::Bounded(words_of(&e, bounds.memory)))?;
        if out.full {
            return Err(RunError::OutputTooLarge(bounds.output));
        }
        if let Some(error) = failed {
            return Err(RunError::Template(error));
        }
        Ok(String::from_utf8(out.bytes).expect("minijinja writes strings"))
    }

    fn tag_final_message(&self, messages: &mut Value) -> Outcome<Continued> {
        let last = messages.as_array_mut().and_then(|m| m.last_mut()).and_then(Value::as_object_mut);
        let Some(content) = last.and_then(|m| m.get_mut("content")) else {
            return fault(INVALID, "continue_final_message is set, but the final message has no content");
        };
        if !self.source.contains("content") {
            return fault(INVALID, "continue_final_message is set, but the chat template never reads content");
        }
        let text = match content {
            Value::Array(parts) => parts.iter_mut().rev().find_map(|p| p.get_mut("text")),
            other => Some(other),
        };
        let Some(Value::String(text)) = text else {
            return fault(INVALID, "continue_final_message is set, but the final message has no text to continue");
        };
        let continued = Continued { tag: random_private_text(8), message: text.clone() };
        text.push_str(&continued.tag);
        text.push(' ');
        Ok(continued)
    }
}

struct Rendered {
    text: String,
    marked: String, // the same, character by character, with marks
    marks: Marks,
}

/// Where the final message ends in the rendered text: a tag was put behind it, with a space that tells whether the
/// template trims.
struct Continued {
    tag: String,
    message: String,
}

impl Continued {
    fn cut(&self, mut rendered: String, marks: &Marks) -> Outcome<String> {
        let lost = || {
            fault(INVALID, "continue_final_message is set, but the final message does not appear in the chat after applying the chat template")
        };
        let Some(at) = rendered.rfind(&self.tag) else { return lost() };
        let trims = !rendered[at + self.tag.len()..].starts_with(' ');
        if !marks.unmark(&rendered).contains(self.message.trim()) {
            return lost();
        }
        rendered.truncate(at);
        if trims {
            rendered.truncate(rendered.trim_end().len());
        }
        // A template that writes the message twice leaves the first copy's tag.
        Ok(rendered.replace(&format!("{} ", self.tag), "").replace(&self.tag, ""))
    }
}

/// `{% generation %}` only records where the assistant's text is; as a block that always runs it renders the same. The
/// replacement has the same length, so that positions in error messages stay right.
fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find("{%") {
        let (before, tag) = rest.split_at(at + 2);
        out.push_str(before);
        rest = tag;
        let Some(end) = tag.find("%}") else { break };
        let inner = &tag[..end];
        let word = inner.trim_start_matches(['-', '+']).trim_end_matches(['-', '+']).trim();
        let replacement = match word {
            "generation" => "if true   ",
            "endgeneration" => "endif        ",
            _ => continue,
        };
        out.push_str(&inner.replacen(word, replacement, 1));
        rest = &tag[end..];
    }
    out.push_str(rest);
    out
}

fn describe(error: &minijinja::Error) -> String {
    let words = error.detail().map_or_else(|| error.kind().to_string(), |detail| format!("{}: {detail}", error.kind()));
    match error.line() {
        Some(line) => format!("{words} (line {line})"),
        None => words,
    }
}

fn words_of(failure: &budget::Failure, bytes: usize) -> String {
    match failure {
        budget::Failure::Memory => format!("the chat template takes more than the {bytes} bytes of memory that a chat of this size may take"),
        budget::Failure::Thread(error) => format!("no thread to render the chat on: {error}"),
    }
}

enum RunError {
    Template(minijinja::Error),
    OutputTooLarge(usize),
    Bounded(String),
}

/// What one rendering may take, in bytes.
struct Bounds {
    output: usize,
    memory: usize,
}

impl Bounds {
    fn of(given: usize) -> Self {
        Bounds {
            output: MAX_OUTPUT_BYTES.min(OWN_OUTPUT_BYTES + OUTPUT_BYTES_PER_INPUT_BYTE * given),
            memory: OWN_MEMORY_BYTES + MEMORY_BYTES_PER_INPUT_BYTE * given,
        }
    }
}

fn render_fault(error: &RunError) -> Fault {
    let error = match error {
        RunError::Template(error) => error,
        RunError::Bounded(words) => return Fault { code: TOO_LARGE, message: words.clone() },
        RunError::OutputTooLarge(limit) => {
            return Fault { code: TOO_LARGE, message: format!("the rendered chat is larger than the {limit} bytes that a chat of this size may become") }
        }
    };
    if error.kind() == ErrorKind::OutOfFuel {
        return Fault { code: TOO_LARGE, message: format!("the chat template ran for more than {FUEL} instructions") };
    }
    if let Some(words) = crate::template_env::raised_words(error) {
        return Fault { code: INVALID, message: words };
    }
    Fault { code: INVALID, message: format!("chat template: {}", describe(error)) }
}

struct Limited {
    bytes: Vec<u8>,
    limit: usize,
    full: bool,
}

impl io::Write for Limited {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + piece.len() > self.limit {
            self.full = true;
            return Err(io::Error::other("output limit"));
        }
        self.bytes.extend_from_slice(piece);
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[repr(C)]
pub struct RenderInput {
    messages_json: Slice,
    tools_json: Slice,
    documents_json: Slice,
    kwargs_json: Slice,
    now_unix: i64,
    has_now: i32,
    add_generation_prompt: i32,
    continue_final_message: i32,
    allow_control_tokens: i32,
    add_special_tokens: i32,
}

fn current_time() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |d| i64::try_from(d.as_secs()).unwrap_or(i64::MAX))
}

#[no_mangle]
pub unsafe extern "C" fn quire_text_template_new(
    source: Slice, variables: Slice, tokenizer: *const tokenizer::Handle, out: *mut *mut ChatTemplate, error: *mut Bytes,
) -> i32 {
    guard(error, || {
        let core = (*tokenizer).0.clone();
        let template = ChatTemplate::compile(source.text("chat template")?, variables.text("template variables")?, core)?;
        out.write(give(template));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn quire_text_template_free(template: *mut ChatTemplate) {
    take_back(template);
}

#[no_mangle]
pub unsafe extern "C" fn quire_text_template_accepts_parts(template: *const ChatTemplate) -> i32 {
    i32::from((*template).accepts_parts)
}

#[no_mangle]
pub unsafe extern "C" fn quire_text_template_reads(template: *const ChatTemplate, variable: Slice) -> i32 {
    i32::from(variable.text("variable").is_ok_and(|name| (*template).reads(name)))
}

#[no_mangle]
pub unsafe extern "C" fn quire_text_template_render(
    template: *const ChatTemplate, input: *const RenderInput, out_text: *mut Bytes, out_ids: *mut Ids, error: *mut Bytes,
) -> i32 {
    guard(error, || {
        let raw = &*input;
        let input = Input {
            messages: raw.messages_json.text("messages")?,
            tools: raw.tools_json.text("tools")?,
            documents: raw.documents_json.text("documents")?,
            kwargs: raw.kwargs_json.text("chat_template_kwargs")?,
            now_unix: if raw.has_now != 0 { raw.now_unix } else { current_time() },
            add_generation_prompt: raw.add_generation_prompt != 0,
            continue_final_message: raw.continue_final_message != 0,
            allow_control_tokens: raw.allow_control_tokens != 0,
            add_special_tokens: raw.add_special_tokens != 0,
        };
        let (text, ids) = (*template).render(&input)?;
        out_text.write(Bytes::from_vec(text.into_bytes()));
        out_ids.write(Ids::from_vec(ids));
        Ok(())
    })
}
