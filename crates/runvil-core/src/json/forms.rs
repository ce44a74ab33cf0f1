//! The chat form of a message, that of `OpenAI`'s API, turned into the record form.

use serde_json::{Map, Value};

use super::parse::parse;

/// A message in either form as a record table, for [`Record::from_value`](crate::record::Record::from_value) to check.
///
/// The forms are told apart as in [`MessageList::from_json`](crate::list::MessageList::from_json). Arguments whose text
/// cannot be decoded stay text, which the check of the record refuses at their position.
pub fn record_form(message: Value) -> Value {
    let Value::Object(mut record) = message else { return message };
    let first = record.get("tool_calls").and_then(Value::as_array).and_then(|calls| calls.first());
    let chat_form = match first {
        Some(call) => call.get("function").is_some(),
        None => !record.contains_key("meta"),
    };
    if chat_form {
        for key in ["tool_calls", "tool_call_id"] {
            if record.get(key).is_some_and(Value::is_null) {
                record.shift_remove(key);
            }
        }
        if let Some(Value::Array(calls)) = record.get_mut("tool_calls") {
            let calling = !calls.is_empty();
            for call in calls {
                if let Value::Object(entry) = call {
                    *call = record_call(std::mem::take(entry));
                }
            }
            if calling && record.get("content").is_some_and(Value::is_null) {
                record.insert("content".to_owned(), Value::from(""));
            }
        }
    }
    Value::Object(record)
}

/// A call of the chat form as a call of the record form.
fn record_call(mut entry: Map<String, Value>) -> Value {
    let mut call = Map::new();
    if let Some(id) = entry.shift_remove("id") {
        call.insert("id".to_owned(), id);
    }
    if let Some(Value::Object(mut function)) = entry.shift_remove("function") {
        if let Some(name) = function.shift_remove("name") {
            call.insert("name".to_owned(), name);
        }
        let arguments = match function.shift_remove("arguments") {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(parse(&text).unwrap_or(Value::String(text))),
            other => other,
        };
        if let Some(arguments) = arguments {
            call.insert("arguments".to_owned(), arguments);
        }
    }
    Value::Object(call)
}
