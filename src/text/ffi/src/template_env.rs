//! The Jinja environment that Hugging Face transformers gives to chat templates, on minijinja.
use crate::control::Marks;
use crate::python;
use minijinja::value::{Kwargs, Rest, Value, ValueKind};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, State};
use std::cell::RefCell;

/// Instructions one rendering may execute; a long chat with tools needs some hundred thousand.
pub const FUEL: u64 = 2_000_000;
const MAX_STRFTIME_BYTES: usize = 256;

/// What functions need from the rendering that calls them. A rendering runs on one thread from begin to end.
#[derive(Default)]
struct Rendering {
    now_unix: i64,
    marks: Marks,
}

thread_local! {
    static RENDERING: RefCell<Rendering> = RefCell::default();
}

/// Sets the thread's rendering until dropped.
pub struct RenderingScope;

impl RenderingScope {
    pub fn enter(now_unix: i64, marks: Marks) -> Self {
        RENDERING.with(|r| *r.borrow_mut() = Rendering { now_unix, marks });
        RenderingScope
    }
}

impl Drop for RenderingScope {
    fn drop(&mut self) {
        RENDERING.with(|r| *r.borrow_mut() = Rendering::default());
    }
}

fn with_marks<T>(f: impl FnOnce(&Marks) -> T) -> T {
    RENDERING.with(|r| f(&r.borrow().marks))
}

/// What a template said through raise_exception.
#[derive(Debug)]
struct Raised(String);

impl std::fmt::Display for Raised {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Raised {}

/// The template's own words, when `error` began in raise_exception.
pub fn raised_words(error: &Error) -> Option<String> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(raised) = error.downcast_ref::<Raised>() {
            return Some(raised.0.clone());
        }
        cause = error.source();
    }
    None
}

pub fn new_environment() -> Environment<'static> {
    let mut env = Environment::new();
    env.set_trim_blocks(true);
    env.set_lstrip_blocks(true);
    env.set_debug(false);
    env.set_fuel(Some(FUEL));
    env.set_auto_escape_callback(|_| AutoEscape::None);
    env.set_unknown_method_callback(methods);
    env.set_formatter(|out, _, value| {
        let text = with_marks(|marks| python::str_of(value, marks))?;
        out.write_str(&text).map_err(Error::from)
    });
    env.add_function("raise_exception", |message: Value| -> Result<Value, Error> {
        let text = python::str_of(&message, &Marks::default())?;
        let words = with_marks(|marks| marks.unmark(&text));
        Err(Error::new(ErrorKind::InvalidOperation, words.clone()).with_source(Raised(words)))
    });
    env.add_function("strftime_now", strftime_now);
    env.add_filter("tojson", tojson);
    env.add_filter("string", |value: Value| with_marks(|marks| python::str_of(&value, marks)));
    env.add_filter("join", join);
    env.add_test("iterable", |value: &Value| value.as_str().is_some() || value.try_iter().is_ok());
    env.add_test("sequence", |value: &Value| {
        matches!(value.kind(), ValueKind::String | ValueKind::Seq | ValueKind::Iterable | ValueKind::Map)
    });
    env
}

fn methods(state: &State, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    let fix = |strip: fn(&str, &str) -> Option<String>| -> Option<Value> {
        let (text, affix) = (value.as_str()?, args.first()?.as_str()?);
        Some(Value::from(strip(text, affix).unwrap_or_else(|| text.to_string())))
    };
    let own = match method {
        "removeprefix" => fix(|text, affix| text.strip_prefix(affix).map(str::to_string)),
        "removesuffix" => fix(|text, affix| text.strip_suffix(affix).map(str::to_string)),
        _ => None,
    };
    match own {
        Some(value) => Ok(value),
        None => minijinja_contrib::pycompat::unknown_method_callback(state, value, method, args),
    }
}

/// `join` with Python's str() for the items.
fn join(value: Value, separator: Option<String>, kwargs: Kwargs) -> Result<String, Error> {
    let separator = match separator {
        Some(text) => text,
        None => kwargs.get::<Option<String>>("d")?.unwrap_or_default(),
    };
    let attribute: Option<String> = kwargs.get("attribute")?;
    kwargs.assert_all_used()?;
    if let Some(text) = value.as_str() {
        let parts: Vec<String> = text.chars().map(String::from).collect();
        return Ok(parts.join(&separator));
    }
    let mut parts = Vec::new();
    for item in value.try_iter()? {
        let item = match &attribute {
            Some(name) => item.get_attr(name)?,
            None => item,
        };
        parts.push(with_marks(|marks| python::str_of(&item, marks))?);
    }
    Ok(parts.join(&separator))
}

fn tojson(value: Value, positional: Rest<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    // tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False)
    let argument = |n: usize, name: &str| -> Result<Value, Error> {
        match positional.get(n) {
            Some(value) => Ok(value.clone()),
            None => Ok(kwargs.get::<Option<Value>>(name)?.unwrap_or_default()),
        }
    };
    let ensure_ascii = argument(0, "ensure_ascii")?.is_true();
    let indent = argument(1, "indent")?;
    let separators = argument(2, "separators")?;
    let sort_keys = argument(3, "sort_keys")?.is_true();
    kwargs.assert_all_used()?;

    let indent = match indent.as_str() {
        Some(text) => Some(text.to_string()),
        None if indent.is_undefined() || indent.is_none() => None,
        None => Some(" ".repeat(usize::try_from(indent)?.min(64))),
    };
    let separator = |n: usize, default: &str| -> Result<String, Error> {
        if separators.is_undefined() || separators.is_none() {
            return Ok(default.to_string());
        }
        let item = separators.get_item_by_index(n)?;
        item.as_str().map(str::to_string).ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "separators must be two strings"))
    };
    let style = python::JsonStyle {
        ensure_ascii,
        item_separator: separator(0, if indent.is_some() { "," } else { ", " })?,
        key_separator: separator(1, ": ")?,
        indent,
        sort_keys,
    };
    Ok(Value::from(with_marks(|marks| python::dumps(&value, &style, marks))?))
}

/// datetime.now().strftime(format): local time, through the C library like Python.
fn strftime_now(format: String) -> Result<String, Error> {
    let bad = |why: &str| Error::new(ErrorKind::InvalidOperation, format!("strftime_now: {why}"));
    if format.len() > MAX_STRFTIME_BYTES {
        return Err(bad("format is too long"));
    }
    let now = RENDERING.with(|r| r.borrow().now_unix);
    // A trailing mark tells an empty result (legal) from one that did not fit.
    let c_format = std::ffi::CString::new(format + ".").map_err(|_| bad("format contains a zero byte"))?;
    let mut buffer = vec![0u8; 16 * MAX_STRFTIME_BYTES];
    // SAFETY: both pointers are valid for the call; `tm` is plain data that localtime_r fills.
    let len = unsafe {
        let mut tm: libc::tm = std::mem::zeroed();
        if libc::localtime_r(&now as *const i64, &mut tm).is_null() {
            return Err(bad("the time is out of range"));
        }
        libc::strftime(buffer.as_mut_ptr().cast(), buffer.len(), c_format.as_ptr(), &tm)
    };
    if len == 0 {
        return Err(bad("the result is too long"));
    }
    buffer.truncate(len - 1);
    String::from_utf8(buffer).map_err(|_| bad("the result is not UTF-8"))
}
