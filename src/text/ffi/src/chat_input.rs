//! What a rendering gets: parsed, checked and put into the form that Hugging Face gives to templates.
use crate::border::{fault, Outcome, INVALID, TOO_LARGE};
use crate::json_guard;
use serde_json::{json, Map, Value};

const MAX_INPUT_BYTES: usize = 64 << 20;
const OURS: [&str; 4] = ["messages", "tools", "documents", "add_generation_prompt"];
/// The names that Hugging Face reads a message's reasoning under, the preferred one first.
const REASONING: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];

pub struct Input<'a> {
    pub messages: &'a str,
    pub tools: &'a str,
    pub documents: &'a str,
    pub kwargs: &'a str,
    pub now_unix: i64,
    pub add_generation_prompt: bool,
    pub continue_final_message: bool,
    pub allow_control_tokens: bool,
    pub add_special_tokens: bool,
}

#[derive(Clone)]
pub struct Chat {
    pub messages: Value,
    pub tools: Value,
    pub documents: Value,
    pub kwargs: Value,
}

pub fn read_chat(input: &Input) -> Outcome<Chat> {
    let total = input.messages.len() + input.tools.len() + input.documents.len() + input.kwargs.len();
    if total > MAX_INPUT_BYTES {
        return fault(TOO_LARGE, format!("messages, tools, documents and chat_template_kwargs have {total} bytes; the limit is {MAX_INPUT_BYTES}"));
    }
    let optional = |text: &str, what: &str| if text.is_empty() { Ok(Value::Null) } else { json_guard::parse(text, what) };
    let list_of_objects = |value: &Value| value.as_array().is_some_and(|items| items.iter().all(Value::is_object));

    let messages = json_guard::parse(input.messages, "messages")?;
    if !list_of_objects(&messages) || messages.as_array().is_some_and(Vec::is_empty) {
        return fault(INVALID, "messages must be a non-empty array of objects");
    }
    let tools = optional(input.tools, "tools")?;
    let documents = optional(input.documents, "documents")?;
    for (value, what) in [(&tools, "tools"), (&documents, "documents")] {
        if !value.is_null() && !list_of_objects(value) {
            return fault(INVALID, format!("{what} must be an array of objects"));
        }
    }
    let mut kwargs = optional(input.kwargs, "chat_template_kwargs")?;
    if kwargs.is_null() {
        kwargs = json!({});
    }
    let Some(fields) = kwargs.as_object() else { return fault(INVALID, "chat_template_kwargs must be an object") };
    if let Some(name) = OURS.iter().find(|name| fields.contains_key(**name)) {
        return fault(INVALID, format!("chat_template_kwargs must not contain '{name}'; the request has its own field for it"));
    }
    Ok(Chat { messages: normalised(messages), tools, documents, kwargs })
}

/// As Hugging Face prepares messages: fields that are null are dropped, and reasoning is given under both names in use.
fn normalised(messages: Value) -> Value {
    let Value::Array(messages) = messages else { return messages };
    let one = |message: Value| {
        let Value::Object(fields) = message else { return message };
        let mut fields: Map<String, Value> = fields.into_iter().filter(|(_, v)| !v.is_null()).collect();
        if let Some(reasoning) = REASONING.iter().find_map(|name| fields.get(*name).cloned()) {
            let mut with_alias = Map::new();
            with_alias.insert("thinking".into(), reasoning.clone());
            with_alias.extend(fields);
            with_alias.insert("reasoning_content".into(), reasoning);
            fields = with_alias;
        }
        Value::Object(fields)
    };
    Value::Array(messages.into_iter().map(one).collect())
}
