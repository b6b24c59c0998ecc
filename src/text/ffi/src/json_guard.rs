//! JSON from files and clients: nesting is measured without recursion before any parser sees the text.
use crate::border::{fault, Outcome, INVALID};
use serde_json::Value;

/// Deeper documents are refused. serde_json's own limit is 128; the parsers behind it use more stack per level.
pub const MAX_DEPTH: usize = 64;

pub fn check_depth(text: &[u8], what: &str, code: i32) -> Outcome<()> {
    let mut depth = 0usize;
    let mut in_string = false;
    let mut escaped = false;
    for (offset, &byte) in text.iter().enumerate() {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'[' | b'{' => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return fault(code, format!("{what} is nested deeper than {MAX_DEPTH} levels (at byte {offset})"));
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    Ok(())
}

pub fn parse(text: &str, what: &str) -> Outcome<Value> {
    check_depth(text.as_bytes(), what, INVALID)?;
    serde_json::from_str(text).or_else(|e| fault(INVALID, format!("{what} is not valid JSON: {e}")))
}
