//! Short ways to write lists down.

use std::sync::Arc;

use runvil_core::error::ListError;
use runvil_core::list::MessageList;
use runvil_core::record::Record;
use serde_json::{Value, json};

/// A record at position 1, or the refusal's text.
pub(crate) fn record(value: &Value) -> Result<Record, String> {
    Record::from_value(value, 1).map_err(|error| error.to_string())
}

/// A record that must pass its checks.
pub(crate) fn good(value: &Value) -> Arc<Record> {
    Arc::new(Record::from_value(value, 1).unwrap_or_else(|error| panic!("{value}: {error}")))
}

/// Appends a record as a builder would, at the next position.
pub(crate) fn append(list: &mut MessageList, value: &Value) -> Result<(), ListError> {
    let record = Record::from_value(value, list.len() + 1)?;
    list.append(record)
}

/// A list of records that must all pass.
pub(crate) fn list(values: &[Value]) -> MessageList {
    let mut list = MessageList::new();
    for value in values {
        append(&mut list, value).unwrap_or_else(|error| panic!("{value}: {error}"));
    }
    list
}

pub(crate) fn values(list: &MessageList) -> Vec<Value> {
    list.iter().map(|record| record.to_value()).collect()
}

/// The records' contents, joined with spaces.
pub(crate) fn contents(list: &MessageList) -> String {
    let texts: Vec<_> = list.iter().map(|record| record.content_text().unwrap_or_default().into_owned()).collect();
    texts.join(" ")
}

pub(crate) fn system(content: impl Into<Value>) -> Value {
    json!({"role": "system", "content": content.into()})
}

pub(crate) fn user(content: impl Into<Value>) -> Value {
    json!({"role": "user", "content": content.into()})
}

pub(crate) fn assistant(content: impl Into<Value>) -> Value {
    json!({"role": "assistant", "content": content.into()})
}

/// An assistant record with calls of the tool `echo`.
pub(crate) fn calls(content: impl Into<Value>, ids: &[&str]) -> Value {
    let calls: Vec<_> = ids.iter().map(|id| json!({"id": id, "name": "echo", "arguments": {"value": "hi"}})).collect();
    json!({"role": "assistant", "content": content.into(), "tool_calls": calls})
}

pub(crate) fn tool(id: &str, content: impl Into<Value>) -> Value {
    json!({"role": "tool", "content": content.into(), "tool_call_id": id})
}

/// Parts: `t:` a text, `i:` an image.
pub(crate) fn parts(parts: &[&str]) -> Value {
    parts
        .iter()
        .map(|part| match part.split_once(':') {
            Some(("i", url)) => json!({"type": "image_url", "image_url": {"url": url}}),
            Some((_, text)) => json!({"type": "text", "text": text}),
            None => panic!("a part is t:TEXT or i:URL"),
        })
        .collect()
}
