//! `messages`: the section's conversation as Lua sees it.

use std::sync::Arc;

use mlua::{AnyUserData, Function, Lua, MetaMethod, MultiValue, UserData, UserDataFields, UserDataMethods, Value};
use runvil_core::error::{Field, ListError};
use runvil_core::record::{Record, RecordFields};
use serde_json::Value as Json;

use crate::error_value::{raise, refuse};
use crate::failure::Failure;
use crate::host::attempted;
use crate::json::{Cause, DEPTH_LIMIT, Unrepresentable, Views, to_json};
use crate::model_calls::whole;
use crate::names::{LUA_TYPE, type_name};
use crate::parts::member;
use crate::section::Section;
use crate::view::RecordView;

/// The one value of the `messages` global of a section VM.
pub(crate) struct Messages(pub(crate) Arc<Section>);

const NOT_ASSIGNABLE: &str = "messages cannot be assigned to by index; add records with append(record), or rewrite \
                              history with models.compact(compactor, reason)";

/// The text of an assignment to the global itself.
pub(crate) const NOT_REASSIGNABLE: &str = "messages is the section's conversation and cannot be reassigned; add \
                                           records with append(record), or rewrite history with \
                                           models.compact(compactor, reason)";

impl UserData for Messages {
    fn add_fields<F: UserDataFields<Self>>(fields: &mut F) {
        fields.add_meta_field(MetaMethod::Type, LUA_TYPE);
    }

    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_meta_method(MetaMethod::Len, |_, this, ()| Ok(this.0.list().len()));
        methods.add_meta_method(MetaMethod::Index, |lua, this, key: Value| {
            let position = match key {
                Value::Integer(position) => Some(position),
                Value::Number(position) => whole(position),
                _ => None,
            };
            if let Value::String(name) = &key {
                return member(lua, &this.0, &this.0.anchors()?.list_methods, name);
            }
            record_at(lua, &this.0, position)
        });
        methods.add_meta_method(MetaMethod::NewIndex, |_, _, _: (Value, Value)| Err::<(), _>(refuse(NOT_ASSIGNABLE)));
    }
}

/// The Rust function behind a method of the list.
pub(crate) fn function(lua: &Lua, section: &Arc<Section>, name: &[u8]) -> mlua::Result<Option<Function>> {
    let builder = |role: &'static str, fields: &'static [Field]| {
        attempted(lua, section, move |lua, _, arguments| build(lua, role, fields, arguments))
    };
    match name {
        b"messages.append" => attempted(lua, section, |lua, _, arguments| {
            let (list, section) = receiver("append", arguments)?;
            let position = section.list().len() + 1;
            let record = record_argument(&section, arguments.get(1).unwrap_or(&Value::Nil), position)?;
            append(lua, &section, record)?;
            Ok(list)
        }),
        b"messages.assistant" => builder("assistant", &[Field::Content, Field::ToolCalls, Field::Meta]),
        b"messages.replace" => attempted(lua, section, |lua, _, arguments| {
            let (list, section) = receiver("replace", arguments)?;
            replace(lua, &section, arguments)?;
            Ok(list)
        }),
        b"messages.system" => builder("system", &[Field::Content, Field::Meta]),
        b"messages.tool" => builder("tool", &[Field::Content, Field::ToolCallId, Field::Meta]),
        b"messages.user" => builder("user", &[Field::Content, Field::Meta]),
        _ => return Ok(None),
    }
    .map(Some)
}

/// The view of the record at a 1-based position, or nil.
pub(crate) fn record_at(lua: &Lua, section: &Arc<Section>, position: Option<i64>) -> mlua::Result<Value> {
    let record = position
        .and_then(|position| usize::try_from(position).ok())
        .and_then(|position| position.checked_sub(1))
        .and_then(|index| section.list().get(index).cloned());
    match record {
        Some(record) => Ok(Value::UserData(lua.create_userdata(RecordView::new(record, Arc::clone(section)))?)),
        None => Ok(Value::Nil),
    }
}

/// The list a method was called on.
fn receiver(method: &str, arguments: &MultiValue) -> mlua::Result<(AnyUserData, Arc<Section>)> {
    if let Some(Value::UserData(data)) = arguments.front()
        && let Ok(messages) = data.borrow::<Messages>()
    {
        return Ok((data.clone(), Arc::clone(&messages.0)));
    }
    Err(refuse(format!("call {method} on messages with a colon: messages:{method}(...)")))
}

/// Appends a record of a message role, with the fields that the arguments set; gives the list.
fn build(lua: &Lua, role: &str, fields: &[Field], arguments: &MultiValue) -> mlua::Result<AnyUserData> {
    let (list, section) = receiver(role, arguments)?;
    let position = section.list().len() + 1;
    let mut record = RecordFields { role: Some(Json::from(role)), ..RecordFields::default() };
    for (at, &field) in fields.iter().enumerate() {
        let slot = match field {
            Field::Role => &mut record.role,
            Field::Content => &mut record.content,
            Field::ToolCalls => &mut record.tool_calls,
            Field::ToolCallId => &mut record.tool_call_id,
            Field::Meta => &mut record.meta,
        };
        match arguments.get(at + 1) {
            None | Some(Value::Nil) => {}
            Some(value) => {
                let value = to_json(&section, value, Views::Convert, DEPTH_LIMIT).map_err(|error| {
                    refused_value(&error, |reason| ListError::not_json_field(position, field, reason))
                })?;
                *slot = Some(value);
            }
        }
    }
    let record = Record::from_fields(record, position).map_err(|error| broken(&error))?;
    append(lua, &section, Arc::new(record.charged_to(&section.ledger)))?;
    Ok(list)
}

/// A refusal of the list as the error of a Rust function.
pub(crate) fn broken(error: &ListError) -> mlua::Error {
    refuse(error.to_string())
}

fn refused_value(error: &Unrepresentable, refusal: impl FnOnce(String) -> ListError) -> mlua::Error {
    match error.cause {
        Cause::Memory => raise(Failure::Memory),
        Cause::Cancelled => raise(Failure::Cancelled),
        _ => broken(&refusal(error.reason())),
    }
}

/// A whole record, given as a table or as a view, checked as the record at `position`.
fn record_argument(section: &Section, value: &Value, position: usize) -> mlua::Result<Arc<Record>> {
    if let Value::UserData(data) = value
        && let Ok(view) = data.borrow::<RecordView>()
    {
        return Ok(Arc::clone(view.record()));
    }
    // Nesting counts from the record's fields, one level below the table itself.
    let value = to_json(section, value, Views::Convert, DEPTH_LIMIT + 1)
        .map_err(|error| refused_value(&error, |reason| ListError::not_json_record(position, reason)))?;
    let record = Record::from_value(&value, position).map_err(|error| broken(&error))?;
    Ok(Arc::new(record.charged_to(&section.ledger)))
}

fn append(lua: &Lua, section: &Section, record: Arc<Record>) -> mlua::Result<()> {
    section.check_memory(lua)?;
    section.list().append(record).map_err(|error| broken(&error))
}

/// A bound of `replace`: a whole number, or the refusal that says what was given.
fn bound(lua: &Lua, name: &str, value: &Value) -> mlua::Result<i64> {
    let got = match value {
        Value::Integer(bound) => return Ok(*bound),
        Value::Number(number) => {
            if let Some(bound) = whole(*number) {
                return Ok(bound);
            }
            if number.is_finite() {
                lua.coerce_string(value.clone())?.map(|text| text.to_string_lossy()).unwrap_or_default()
            } else {
                "number".to_owned()
            }
        }
        other => type_name(other).to_owned(),
    };
    Err(refuse(format!("replace {name} must be an integer, got {got}")))
}

fn replace(lua: &Lua, section: &Section, arguments: &MultiValue) -> mlua::Result<()> {
    if !section.running().is_compactor() {
        return Err(refuse(
            "replace works only inside a compactor; rewrite history with models.compact(compactor, reason)",
        ));
    }
    let first = bound(lua, "first", arguments.get(1).unwrap_or(&Value::Nil))?;
    let last = bound(lua, "last", arguments.get(2).unwrap_or(&Value::Nil))?;
    let (first, last) = section.list().check_range(first.into(), last.into()).map_err(|error| broken(&error))?;
    let mut records = Vec::with_capacity(arguments.len().saturating_sub(3));
    for (at, value) in arguments.iter().skip(3).enumerate() {
        records.push(record_argument(section, value, first + at)?);
    }
    section.check_memory(lua)?;
    section.list().replace(first, last, records).map_err(|error| broken(&error))
}
