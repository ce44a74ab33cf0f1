//! The rules a second time, as plainly as they can be put, to compare the library with.

use std::collections::HashSet;

use serde_json::{Value, json};

/// The wire message of one record.
fn message(record: &Value) -> Value {
    let mut message = json!({"role": record["role"], "content": record["content"]});
    if let Some(calls) = record["tool_calls"].as_array() {
        message["tool_calls"] = calls
            .iter()
            .map(|call| {
                let arguments = call["arguments"].to_string();
                json!({"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": arguments}})
            })
            .collect();
    }
    if let Some(id) = record.get("tool_call_id") {
        message["tool_call_id"] = id.clone();
    }
    message
}

fn as_parts(content: &Value) -> Vec<Value> {
    match content {
        Value::Array(parts) => parts.clone(),
        Value::String(text) if text.is_empty() => Vec::new(),
        text => vec![json!({"type": "text", "text": text})],
    }
}

fn joined(role: &str, left: &Value, right: &Value) -> Value {
    let separator = if role == "assistant" { "" } else { "\n\n" };
    if let (Value::String(left), Value::String(right)) = (left, right) {
        return if role != "system" && left.is_empty() {
            json!(right)
        } else if role != "system" && right.is_empty() {
            json!(left)
        } else {
            json!(format!("{left}{separator}{right}"))
        };
    }
    let mut parts = as_parts(left);
    if !separator.is_empty() {
        parts.push(json!({"type": "text", "text": separator}));
    }
    parts.extend(as_parts(right));
    json!(parts)
}

/// The composed messages: a left fold over the records.
pub(crate) fn compose(records: &[Value]) -> Vec<Value> {
    let mut messages: Vec<Value> = Vec::new();
    for record in records {
        let next = message(record);
        match messages.last_mut() {
            Some(last)
                if last["role"] == next["role"] && next["role"] != "tool" && last.get("tool_calls").is_none() =>
            {
                let role = next["role"].as_str().unwrap_or_default().to_owned();
                last["content"] = joined(&role, &last["content"], &next["content"]);
                if let Some(calls) = next.get("tool_calls") {
                    last["tool_calls"] = calls.clone();
                }
            }
            _ => messages.push(next),
        }
    }
    messages
}

/// The estimate, from the composed messages.
pub(crate) fn estimate(messages: &[Value]) -> u64 {
    let mut bytes = 0;
    for message in messages {
        bytes += match &message["content"] {
            Value::String(text) => text.len(),
            Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).map(str::len).sum(),
            _ => 0,
        };
        if let Some(calls) = message["tool_calls"].as_array() {
            bytes += calls.iter().map(|call| call.to_string().len()).sum::<usize>();
        }
    }
    bytes as u64 / 4 + 4 * messages.len() as u64
}

/// A name as messages print it.
fn quoted(name: &str) -> String {
    Value::from(name).to_string()
}

/// The text of the first rule that the list breaks. Ids must not hold DEL or U+0080 to U+009F.
pub(crate) fn check(records: &[Value]) -> Result<(), String> {
    let leading = records.iter().take_while(|record| record["role"] == "system").count();
    if leading > 1
        && let Some(index) = records[..leading].iter().position(|record| record["content"].is_array())
    {
        return Err(format!(
            "messages[{}] is a system message with content parts; only plain text system messages can be composed",
            index + 1
        ));
    }
    let mut seen = HashSet::new();
    let mut open: Vec<String> = Vec::new();
    let mut caller = 0;
    for (index, record) in records.iter().enumerate() {
        let position = index + 1;
        let calls = record["tool_calls"].as_array();
        if calls.is_some() && record["role"] != "assistant" {
            return Err(format!("messages[{position}] sets tool_calls but is not an assistant message"));
        }
        if record["role"] == "tool" {
            let id = record["tool_call_id"].as_str().unwrap_or_default();
            let Some(place) = open.iter().position(|waiting| waiting == id) else {
                let id = quoted(id);
                return Err(format!(
                    "messages[{position}] is an orphan tool record: no pending assistant tool call with id {id}"
                ));
            };
            open.remove(place);
            continue;
        }
        if let Some(id) = open.first() {
            return Err(unanswered(caller, id));
        }
        for call in calls.into_iter().flatten() {
            let id = call["id"].as_str().unwrap_or_default();
            if !seen.insert(id.to_owned()) {
                return Err(format!(
                    "messages[{position}] tool call id {} duplicates an earlier tool call",
                    quoted(id)
                ));
            }
            open.push(id.to_owned());
            caller = position;
        }
    }
    match open.first() {
        Some(id) => Err(unanswered(caller, id)),
        None => Ok(()),
    }
}

fn unanswered(caller: usize, id: &str) -> String {
    format!("messages[{caller}] tool call {} has no tool result", quoted(id))
}

/// The position, from 1, of the first system record behind another one.
pub(crate) fn late_system(records: &[Value]) -> Option<usize> {
    let leading = records.iter().take_while(|record| record["role"] == "system").count();
    records.iter().skip(leading).position(|record| record["role"] == "system").map(|index| leading + index + 1)
}

/// A message in either JSON form as the record table it stands for, as `from_json` is documented.
pub(crate) fn as_record(message: &Value) -> Value {
    let Some(map) = message.as_object() else { return message.clone() };
    let mut record = map.clone();
    let first = record.get("tool_calls").and_then(Value::as_array).and_then(|calls| calls.first());
    let openai = match first {
        Some(call) => call.get("function").is_some(),
        None => !record.contains_key("meta"),
    };
    if !openai {
        return Value::Object(record);
    }
    record.retain(|key, value| !(matches!(key.as_str(), "tool_calls" | "tool_call_id") && value.is_null()));
    if let Some(calls) = record.get_mut("tool_calls").and_then(Value::as_array_mut) {
        for call in &mut *calls {
            let Some(entry) = call.as_object() else { continue };
            let mut made = json!({});
            if let Some(id) = entry.get("id") {
                made["id"] = id.clone();
            }
            if let Some(function) = entry.get("function").and_then(Value::as_object) {
                if let Some(name) = function.get("name") {
                    made["name"] = name.clone();
                }
                match function.get("arguments") {
                    None | Some(Value::Null) => {}
                    Some(Value::String(text)) => {
                        made["arguments"] = serde_json::from_str(text).unwrap_or_else(|_| json!("undecodable"));
                    }
                    Some(other) => made["arguments"] = other.clone(),
                }
            }
            *call = made;
        }
        if !calls.is_empty() && record.get("content").is_some_and(Value::is_null) {
            record["content"] = json!("");
        }
    }
    Value::Object(record)
}
