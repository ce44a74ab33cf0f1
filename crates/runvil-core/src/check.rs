//! The checks a record passes when it is made, in their fixed order.

use serde_json::{Map, Value};

use crate::error::{Code, Field, ListError, META_LIMIT};
use crate::json::{TOO_DEEP, depth_fits};
use crate::record::{Record, RecordFields};
use crate::role::Role;
use crate::wire::{Draft, compact};

impl Record {
    /// Makes a record from builder fields, or names the first rule it breaks.
    ///
    /// `position` is the place, from 1, that the record takes in its list; errors name it.
    pub fn from_fields(fields: RecordFields, position: usize) -> Result<Self, ListError> {
        let RecordFields { role, content, tool_calls, tool_call_id, meta } = fields;
        let given = Given {
            role: role.as_ref(),
            content: content.as_ref(),
            tool_calls: tool_calls.as_ref(),
            tool_call_id: tool_call_id.as_ref(),
            meta: meta.as_ref(),
        };
        for (field, value) in given.json_fields() {
            if value.is_some_and(|value| !depth_fits(value)) {
                return Err(ListError::not_json_field(position, field, TOO_DEEP));
            }
        }
        given.check(position)
    }

    /// Makes a record from a whole record table, or names the first rule it breaks.
    ///
    /// Keys that are no field of a record are dropped. `position` is the place, from 1, that the record takes.
    pub fn from_value(value: &Value, position: usize) -> Result<Self, ListError> {
        let fields: Vec<&Value> = match value {
            Value::Object(map) => map.values().collect(),
            Value::Array(items) => items.iter().collect(),
            _ => Vec::new(),
        };
        if !fields.into_iter().all(depth_fits) {
            return Err(ListError::not_json_record(position, TOO_DEEP));
        }
        let map = value.as_object().ok_or_else(|| ListError::at(Code::RecordNotTable, position))?;
        let given = Given {
            role: map.get("role"),
            content: map.get("content"),
            tool_calls: map.get("tool_calls"),
            tool_call_id: map.get("tool_call_id"),
            meta: map.get("meta"),
        };
        given.check(position)
    }
}

/// The fields of a record to be.
#[derive(Clone, Copy)]
struct Given<'a> {
    role: Option<&'a Value>,
    content: Option<&'a Value>,
    tool_calls: Option<&'a Value>,
    tool_call_id: Option<&'a Value>,
    meta: Option<&'a Value>,
}

impl<'a> Given<'a> {
    /// The fields a builder converts, in the order of its arguments.
    fn json_fields(&self) -> [(Field, Option<&'a Value>); 4] {
        [
            (Field::Content, self.content),
            (Field::ToolCalls, self.tool_calls),
            (Field::ToolCallId, self.tool_call_id),
            (Field::Meta, self.meta),
        ]
    }

    fn check(self, position: usize) -> Result<Record, ListError> {
        let role = check_role(self.role, position)?;
        let room = self.content.and_then(Value::as_str).map_or(0, |content| Draft::plain_len(role, content));
        let mut text = String::with_capacity(room);
        let mut draft = Draft::begin(&mut text, role);
        write_content(&mut draft, &mut text, self.content, position)?;
        let tool_call_id = check_tool_call_id(role, self.tool_call_id, position)?;
        write_calls(&mut draft, &mut text, self.tool_calls, position)?;
        Draft::finish(&mut text, tool_call_id.map(Into::into));
        let meta = check_meta(self.meta, position)?;
        Ok(Record::own(&draft, text, &meta))
    }
}

fn check_role(role: Option<&Value>, position: usize) -> Result<Role, ListError> {
    let name = role.and_then(Value::as_str).ok_or_else(|| ListError::at(Code::RoleNotString, position))?;
    Role::parse(name).ok_or_else(|| ListError::named(Code::RoleUnknown, position, name))
}

fn write_content(
    draft: &mut Draft,
    out: &mut String,
    content: Option<&Value>,
    position: usize,
) -> Result<(), ListError> {
    match content {
        Some(Value::String(text)) => draft.text(out, text.as_str().into()),
        Some(Value::Array(parts)) if !parts.is_empty() => {
            for (index, part) in parts.iter().enumerate() {
                write_part(draft, out, part, position, index + 1)?;
            }
            draft.end_parts(out);
        }
        _ => return Err(ListError::at(Code::ContentInvalid, position)),
    }
    Ok(())
}

fn write_part(
    draft: &mut Draft,
    out: &mut String,
    part: &Value,
    position: usize,
    index: usize,
) -> Result<(), ListError> {
    let kind = part.as_object().and_then(|part| string_field(part, "type"));
    let kind = kind.ok_or_else(|| ListError::at_part(Code::PartNotTable, position, index))?;
    match kind {
        "text" => {
            let text = part.get("text").and_then(Value::as_str);
            let text = text.ok_or_else(|| ListError::at_part(Code::TextPartInvalid, position, index))?;
            draft.text_part(out, text.into());
        }
        "image_url" => {
            let url = part.get("image_url").and_then(|image| image.get("url")).and_then(Value::as_str);
            let url = url.ok_or_else(|| ListError::at_part(Code::ImagePartInvalid, position, index))?;
            draft.image_part(out, url.into());
        }
        other => return Err(ListError::named_part(position, index, other)),
    }
    Ok(())
}

pub(crate) fn string_field<'a>(map: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    map.get(key).and_then(Value::as_str)
}

fn check_tool_call_id(role: Role, id: Option<&Value>, position: usize) -> Result<Option<&str>, ListError> {
    let id = match id {
        None => None,
        Some(Value::String(id)) => Some(id.as_str()),
        Some(_) => return Err(ListError::at(Code::ToolCallIdNotString, position)),
    };
    match (role, id) {
        (Role::Tool, None) => Err(ListError::at(Code::ToolCallIdMissing, position)),
        (Role::System | Role::User | Role::Assistant, Some(_)) => {
            Err(ListError::at(Code::ToolCallIdMisplaced, position))
        }
        (_, id) => Ok(id),
    }
}

fn write_calls(draft: &mut Draft, out: &mut String, calls: Option<&Value>, position: usize) -> Result<(), ListError> {
    let Some(calls) = calls else { return Ok(()) };
    let calls = calls.as_array().ok_or_else(|| ListError::at(Code::ToolCallsNotArray, position))?;
    for (index, call) in calls.iter().enumerate() {
        let refused = |code| ListError::at_call(code, position, index + 1);
        let call = call.as_object().ok_or_else(|| refused(Code::CallNotTable))?;
        let id = string_field(call, "id").ok_or_else(|| refused(Code::CallIdNotString))?;
        let name = string_field(call, "name").ok_or_else(|| refused(Code::CallNameNotString))?;
        match call.get("arguments") {
            None => draft.call(out, id.into(), name.into(), "{}".into()),
            Some(arguments @ Value::Object(_)) => {
                draft.call(out, id.into(), name.into(), compact(arguments).as_str().into());
            }
            Some(_) => return Err(refused(Code::CallArgumentsNotTable)),
        }
    }
    draft.end_calls(out);
    Ok(())
}

fn check_meta(meta: Option<&Value>, position: usize) -> Result<String, ListError> {
    let text = match meta {
        None | Some(Value::Null) => String::new(),
        Some(meta) => compact(meta),
    };
    if text.len() > META_LIMIT {
        return Err(ListError::meta_too_large(position, text.len()));
    }
    Ok(text)
}
