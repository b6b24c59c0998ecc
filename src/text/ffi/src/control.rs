//! Control-token safety: characters that messages bring are replaced, before rendering, by private-use characters that no
//! input of this rendering contains, one for one. The template may then move, cut or repeat them; what it writes itself stays
//! distinguishable, and every replaced character has exactly one way back.
//!
//! Two strengths. `Occurrences`: the punctuation of every special token's text that occurs in some string. `Thorough`: that,
//! and everywhere a few punctuation characters of which every special token's text has one (mostly "<"), so that a text
//! which only the template's cutting and joining makes up is seen, too.
use crate::border::{fault, Outcome, INVALID};
use aho_corasick::AhoCorasick;
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hasher};

/// Planes 15 and 16, less their last two code points, which are noncharacters.
const NUM_PRIVATE: u64 = 2 * 65534;

fn private_char(n: u64) -> char {
    let n = (n % NUM_PRIVATE) as u32;
    let code = if n < 65534 { 0xF0000 + n } else { 0x100000 + (n - 65534) };
    char::from_u32(code).expect("inside planes 15 and 16")
}

fn is_private(c: char) -> bool {
    c >= '\u{F0000}'
}

fn random() -> u64 {
    // The standard library keys each hasher from the operating system's random source.
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

/// `len` random private-use characters (17 bits each).
pub fn random_private_text(len: usize) -> String {
    (0..len).map(|_| private_char(random())).collect()
}

/// Finds special tokens' text; built once per template.
pub struct Finder {
    automaton: Option<AhoCorasick>,
    /// Every special text with punctuation has at least one of these.
    telltales: Vec<char>,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Strength {
    Occurrences,
    Thorough,
}

impl Finder {
    pub fn new<'a>(special_texts: impl Iterator<Item = &'a str>) -> Outcome<Self> {
        // A token of white space alone is not recognisable as control text, and templates must be able to trim it.
        let texts: Vec<&str> = special_texts.filter(|t| !t.trim().is_empty()).collect();
        if texts.is_empty() {
            return Ok(Finder { automaton: None, telltales: Vec::new() });
        }
        let telltales = choose_telltales(&texts);
        // Case is ignored because a template may lower or raise it afterwards; marking too much costs nothing.
        let automaton = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .build(texts)
            .or_else(|e| fault(INVALID, format!("too many special tokens: {e}")))?;
        Ok(Finder { automaton: Some(automaton), telltales })
    }

    /// False for most requests: nothing in the text could become part of a control token.
    fn suspects(&self, text: &str) -> bool {
        text.contains(self.telltales.as_slice()) || self.automaton.as_ref().is_some_and(|a| a.is_match(text))
    }

    pub fn suspects_any(&self, values: &[&Value]) -> bool {
        let mut any = false;
        for value in values {
            each_string(value, &mut |text| any = any || self.suspects(text));
        }
        any
    }

    /// True when the special texts in `text` are not all whole in `marked`: some came, in part at least, from a message.
    pub fn touched(&self, text: &str, marked: &str) -> bool {
        let Some(automaton) = &self.automaton else { return false };
        text != marked && automaton.find_overlapping_iter(text).count() != automaton.find_overlapping_iter(marked).count()
    }

    /// Byte ranges that belong to some special token's text, overlapping ones included.
    fn ranges(&self, text: &str) -> Vec<(usize, usize)> {
        let Some(automaton) = &self.automaton else { return Vec::new() };
        automaton.find_overlapping_iter(text).map(|m| (m.start(), m.end())).collect()
    }
}

/// One rendering's replacements.
#[derive(Default, Clone)]
pub struct Marks {
    forth: HashMap<char, char>,
    back: HashMap<char, char>,
}

impl Marks {
    pub fn is_empty(&self) -> bool {
        self.forth.is_empty()
    }

    pub fn is_mark(&self, c: char) -> bool {
        is_private(c) && self.back.contains_key(&c)
    }

    pub fn original(&self, c: char) -> char {
        if is_private(c) { self.back.get(&c).copied().unwrap_or(c) } else { c }
    }

    pub fn unmark(&self, text: &str) -> String {
        if self.is_empty() {
            return text.to_string();
        }
        text.chars().map(|c| self.original(c)).collect()
    }

    fn mark_for(&mut self, c: char, taken: &HashSet<char>) -> Outcome<char> {
        if let Some(mark) = self.forth.get(&c) {
            return Ok(*mark);
        }
        let start = random() % NUM_PRIVATE;
        for n in 0..NUM_PRIVATE {
            let mark = private_char(start + n);
            if !taken.contains(&mark) && !self.back.contains_key(&mark) {
                self.forth.insert(c, mark);
                self.back.insert(mark, c);
                return Ok(mark);
            }
        }
        fault(INVALID, "the messages use up every private-use character; none is left to protect control tokens")
    }
}

/// Marks all strings (keys too) of `values`. `others` are texts that reach the rendering unmarked; their characters are
/// never used as marks.
pub fn mark(finder: &Finder, strength: Strength, values: &mut [&mut Value], others: &[&str]) -> Outcome<Marks> {
    let mut marks = Marks::default();
    let mut taken: HashSet<char> = others.iter().flat_map(|t| t.chars()).filter(|c| is_private(*c)).collect();
    for value in values.iter() {
        each_string(value, &mut |text| taken.extend(text.chars().filter(|c| is_private(*c))));
    }
    let mut marker = Marker { finder, strength, taken: &taken, marks: &mut marks };
    for value in values.iter_mut() {
        let old = std::mem::take(*value);
        **value = marker.value(old)?;
    }
    Ok(marks)
}

/// The fewest punctuation characters, found greedily, such that every text that has punctuation has one of them.
fn choose_telltales(texts: &[&str]) -> Vec<char> {
    let mut chosen = Vec::new();
    let mut left: Vec<&str> = texts.to_vec();
    loop {
        let mut counts: Vec<(usize, char)> = Vec::new();
        for text in &left {
            let mut seen: Vec<char> = text.chars().filter(|c| is_plain_punctuation(*c) && !matches!(c, '_' | '-' | '.')).collect();
            seen.sort_unstable();
            seen.dedup();
            for c in seen {
                match counts.iter_mut().find(|(_, known)| *known == c) {
                    Some((count, _)) => *count += 1,
                    None => counts.push((1, c)),
                }
            }
        }
        // Ties go to the smaller character: "<" before "|" and ">".
        let Some((_, best)) = counts.into_iter().max_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1))) else { return chosen };
        chosen.push(best);
        left.retain(|text| !text.contains(best));
    }
}

// Recursion is bounded: values were parsed with a depth limit (json_guard).
fn each_string(value: &Value, see: &mut dyn FnMut(&str)) {
    match value {
        Value::String(text) => see(text),
        Value::Array(items) => items.iter().for_each(|v| each_string(v, see)),
        Value::Object(fields) => fields.iter().for_each(|(k, v)| {
            see(k);
            each_string(v, see);
        }),
        _ => {}
    }
}

struct Marker<'a> {
    finder: &'a Finder,
    strength: Strength,
    taken: &'a HashSet<char>,
    marks: &'a mut Marks,
}

impl Marker<'_> {
    fn value(&mut self, value: Value) -> Outcome<Value> {
        Ok(match value {
            Value::String(text) => Value::String(self.text(text)?),
            Value::Array(items) => Value::Array(items.into_iter().map(|v| self.value(v)).collect::<Outcome<_>>()?),
            Value::Object(fields) => {
                let mut out = Map::new();
                for (key, value) in fields {
                    out.insert(self.text(key)?, self.value(value)?);
                }
                Value::Object(out)
            }
            other => other,
        })
    }

    fn text(&mut self, text: String) -> Outcome<String> {
        let mut ranges = self.finder.ranges(&text);
        let telltales = if self.strength == Strength::Thorough { self.finder.telltales.as_slice() } else { &[] };
        if ranges.is_empty() && !text.contains(telltales) {
            return Ok(text);
        }
        ranges.sort_unstable();
        // Punctuation alone is replaced where there is some: letters keep their case and quotes their JSON escapes, so that
        // filters see as much of the true text as possible. One changed character is enough to break a token's text.
        let mut replace = vec![false; text.len()];
        for (start, end) in ranges {
            let part = &text[start..end];
            let worth = if part.chars().any(is_plain_punctuation) {
                is_plain_punctuation
            } else if part.chars().any(is_visible) {
                is_visible
            } else {
                |_| true
            };
            for (offset, c) in part.char_indices() {
                if worth(c) {
                    replace[start + offset] = true;
                }
            }
        }
        let mut out = String::with_capacity(text.len() + 16);
        for (offset, c) in text.char_indices() {
            let marked = replace[offset] || telltales.contains(&c);
            out.push(if marked { self.marks.mark_for(c, self.taken)? } else { c });
        }
        Ok(out)
    }
}

fn is_plain_punctuation(c: char) -> bool {
    is_visible(c) && !c.is_alphanumeric() && c != '"' && c != '\\'
}

fn is_visible(c: char) -> bool {
    !c.is_whitespace() && !c.is_control()
}
