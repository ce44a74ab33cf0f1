//! Record views: what `messages[i]` gives.

use std::sync::Arc;

use mlua::{Lua, MetaMethod, UserData, UserDataFields, UserDataMethods, Value};
use runvil_core::record::Record;

use crate::error_value::refuse;
use crate::json::{Nulls, from_json};
use crate::names::LUA_TYPE;
use crate::section::Section;

/// A read-only view of a record. It holds the record itself, so later edits of the list do not change what it shows.
pub(crate) struct RecordView {
    record: Arc<Record>,
    section: Arc<Section>,
}

/// The fields of a record, in the order a walk visits them.
const FIELDS: [&str; 5] = ["role", "content", "tool_calls", "tool_call_id", "meta"];

impl RecordView {
    pub(crate) fn new(record: Arc<Record>, section: Arc<Section>) -> Self {
        Self { record, section }
    }

    pub(crate) fn record(&self) -> &Arc<Record> {
        &self.record
    }

    fn field(&self, lua: &Lua, name: &[u8]) -> mlua::Result<Value> {
        let text = |text: &str| Ok(Value::String(lua.create_string(text)?));
        let data = |value: Option<serde_json::Value>| match value {
            Some(value) => from_json(lua, &self.section, &value, Nulls::Keep),
            None => Ok(Value::Nil),
        };
        match name {
            b"role" => text(self.record.role().as_str()),
            b"content" => match self.record.content_text() {
                Some(content) => text(&content),
                None => data(Some(self.record.content())),
            },
            b"tool_calls" => data(self.record.tool_calls()),
            b"tool_call_id" => self.record.tool_call_id().map_or(Ok(Value::Nil), |id| text(&id)),
            b"meta" => data(self.record.meta()),
            _ => Ok(Value::Nil),
        }
    }

    /// The present field at or after `from`: its position in the fixed order, its name and value.
    pub(crate) fn next_field(&self, lua: &Lua, from: usize) -> mlua::Result<Option<(usize, &'static str, Value)>> {
        for (at, name) in FIELDS.iter().enumerate().skip(from) {
            let value = self.field(lua, name.as_bytes())?;
            if !value.is_nil() {
                return Ok(Some((at, name, value)));
            }
        }
        Ok(None)
    }
}

impl UserData for RecordView {
    fn add_fields<F: UserDataFields<Self>>(fields: &mut F) {
        fields.add_meta_field(MetaMethod::Type, LUA_TYPE);
    }

    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_meta_method(MetaMethod::Index, |lua, this, key: Value| match &key {
            Value::String(name) => this.field(lua, &name.as_bytes()),
            _ => Ok(Value::Nil),
        });
        methods.add_meta_method(MetaMethod::NewIndex, |_, _, _: (Value, Value)| {
            Err::<(), _>(refuse(
                "records read from messages are read-only; rewrite history with models.compact(compactor, reason)",
            ))
        });
    }
}
