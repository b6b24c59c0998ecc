//! How Python writes values: str(), repr() and json.dumps(), because templates are written against Jinja on Python.
use crate::control::Marks;
use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind};
use std::fmt::Write;

/// Values come from depth-limited JSON, but a template can nest lists further.
const MAX_DEPTH: usize = 200;

fn too_deep() -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("value is nested deeper than {MAX_DEPTH} levels"))
}

/// str(value), as `{{ value }}` prints it.
pub fn str_of(value: &Value, marks: &Marks) -> Result<String, Error> {
    let mut out = String::new();
    match value.as_str() {
        Some(text) => out.push_str(text),
        None => repr_into(&mut out, value, marks, 0)?,
    }
    Ok(out)
}

fn repr_into(out: &mut String, value: &Value, marks: &Marks, depth: usize) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    match value.kind() {
        ValueKind::Undefined => {}
        ValueKind::None => out.push_str("None"),
        ValueKind::Bool => out.push_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::Number => number_into(out, value),
        ValueKind::String => string_repr_into(out, value.as_str().unwrap_or_default(), marks),
        ValueKind::Map => {
            out.push('{');
            for (n, key) in value.try_iter()?.enumerate() {
                out.push_str(if n == 0 { "" } else { ", " });
                repr_into(out, &key, marks, depth + 1)?;
                out.push_str(": ");
                repr_into(out, &value.get_item(&key)?, marks, depth + 1)?;
            }
            out.push('}');
        }
        ValueKind::Seq | ValueKind::Iterable => {
            out.push('[');
            for (n, item) in value.try_iter()?.enumerate() {
                out.push_str(if n == 0 { "" } else { ", " });
                repr_into(out, &item, marks, depth + 1)?;
            }
            out.push(']');
        }
        _ => {
            let _ = write!(out, "{value}");
        }
    }
    Ok(())
}

fn number_into(out: &mut String, value: &Value) {
    if value.is_integer() {
        let _ = write!(out, "{value}");
    } else {
        out.push_str(&float_repr(f64::try_from(value.clone()).unwrap_or(f64::NAN)));
    }
}

/// repr(float): the shortest digits that read back, fixed between 1e-4 and 1e16, else with a two-digit exponent.
pub fn float_repr(x: f64) -> String {
    if x.is_nan() {
        return "nan".into();
    }
    if x.is_infinite() {
        return if x > 0.0 { "inf" } else { "-inf" }.into();
    }
    let scientific = format!("{x:e}");
    let (mantissa, exponent) = scientific.split_once('e').expect("{:e} writes an exponent");
    let exponent: i32 = exponent.parse().expect("an integer");
    if (-4..16).contains(&exponent) {
        let fixed = format!("{x}");
        return if fixed.contains('.') { fixed } else { fixed + ".0" };
    }
    format!("{mantissa}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

fn string_repr_into(out: &mut String, text: &str, marks: &Marks) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            _ if c == quote => {
                out.push('\\');
                out.push(c);
            }
            _ if marks.is_mark(c) || is_printable(c) => out.push(c),
            _ if (c as u32) < 0x100 => {
                let _ = write!(out, "\\x{:02x}", c as u32);
            }
            _ if (c as u32) < 0x10000 => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            _ => {
                let _ = write!(out, "\\U{:08x}", c as u32);
            }
        }
    }
    out.push(quote);
}

/// An approximation of str.isprintable(): controls, separators other than the space, and private use are not printable.
fn is_printable(c: char) -> bool {
    !(c.is_control()
        || (c.is_whitespace() && c != ' ')
        || c == '\u{AD}'
        || ('\u{200B}'..='\u{200F}').contains(&c)
        || ('\u{202A}'..='\u{202E}').contains(&c)
        || ('\u{2060}'..='\u{206F}').contains(&c)
        || ('\u{E000}'..='\u{F8FF}').contains(&c)
        || c == '\u{FEFF}'
        || ('\u{FFF0}'..='\u{FFFB}').contains(&c)
        || c >= '\u{E0000}')
}

/// json.dumps with Hugging Face's options.
pub struct JsonStyle {
    pub ensure_ascii: bool,
    pub indent: Option<String>,
    pub item_separator: String,
    pub key_separator: String,
    pub sort_keys: bool,
}

pub fn dumps(value: &Value, style: &JsonStyle, marks: &Marks) -> Result<String, Error> {
    let mut out = String::new();
    dump_into(&mut out, value, style, marks, 0)?;
    Ok(out)
}

fn dump_into(out: &mut String, value: &Value, style: &JsonStyle, marks: &Marks, depth: usize) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    match value.kind() {
        ValueKind::None => out.push_str("null"),
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number if value.is_integer() => number_into(out, value),
        ValueKind::Number => {
            let text = float_repr(f64::try_from(value.clone()).unwrap_or(f64::NAN));
            out.push_str(match text.as_str() {
                "nan" => "NaN",
                "inf" => "Infinity",
                "-inf" => "-Infinity",
                other => other,
            });
        }
        ValueKind::String => json_string_into(out, value.as_str().unwrap_or_default(), style, marks),
        ValueKind::Seq | ValueKind::Iterable => {
            let items: Vec<Value> = value.try_iter()?.collect();
            dump_items(out, ('[', ']'), items.len(), style, depth, |out, n| {
                dump_into(out, &items[n], style, marks, depth + 1)
            })?;
        }
        ValueKind::Map => {
            let mut keys: Vec<Value> = value.try_iter()?.collect();
            if style.sort_keys {
                keys.sort();
            }
            dump_items(out, ('{', '}'), keys.len(), style, depth, |out, n| {
                let key = &keys[n];
                let name = match key.as_str() {
                    Some(text) => text.to_string(),
                    None => {
                        let mut text = String::new();
                        dump_into(&mut text, key, style, marks, depth + 1)?;
                        text
                    }
                };
                json_string_into(out, &name, style, marks);
                out.push_str(&style.key_separator);
                dump_into(out, &value.get_item(key)?, style, marks, depth + 1)
            })?;
        }
        other => {
            return Err(Error::new(ErrorKind::BadSerialization, format!("a value of kind {other} is not JSON serializable")));
        }
    }
    Ok(())
}

fn dump_items(
    out: &mut String, brackets: (char, char), len: usize, style: &JsonStyle, depth: usize,
    mut item: impl FnMut(&mut String, usize) -> Result<(), Error>,
) -> Result<(), Error> {
    out.push(brackets.0);
    for n in 0..len {
        if n > 0 {
            out.push_str(&style.item_separator);
        }
        new_line(out, style, depth + 1);
        item(out, n)?;
    }
    if len > 0 {
        new_line(out, style, depth);
    }
    out.push(brackets.1);
    Ok(())
}

fn new_line(out: &mut String, style: &JsonStyle, depth: usize) {
    if let Some(indent) = &style.indent {
        out.push('\n');
        (0..depth).for_each(|_| out.push_str(indent));
    }
}

fn json_string_into(out: &mut String, text: &str, style: &JsonStyle, marks: &Marks) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            _ if (c as u32) < 0x20 || (style.ensure_ascii && !marks.is_mark(c) && (c as u32) > 0x7e) => {
                let mut units = [0u16; 2];
                for unit in c.encode_utf16(&mut units) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
            _ => out.push(c),
        }
    }
    out.push('"');
}
