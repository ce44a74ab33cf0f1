//! `var`, `argv`, `sys` and `prose`: the data of a section behind its guards.

use std::cell::OnceCell;
use std::sync::Arc;

use mlua::{Lua, Table, Value};
use serde_json::Value as Json;

use crate::error_value::{raise, refuse};
use crate::failure::Failure;
use crate::json::{Cause, DEPTH_LIMIT, Nulls, Unrepresentable, Views, from_json, to_json};
use crate::names::type_name;
use crate::section::Section;
use crate::substitute::{Global, Refusal, Roots, Unrendered, render};

/// The text of a `var` global that no longer holds the section's variables.
pub(crate) const VAR_REASSIGNED: &str = "the `var` global was reassigned; write `var.<field>` instead";

const PROSE_READ_ONLY: &str = "prose is read-only: assign to `var` or a section global instead";
const ARGV_FROZEN: &str = "argv is frozen outside H1: assign it in H1 only";

/// A value refused as data, as the error of a Rust function.
pub(crate) fn not_data(error: &Unrepresentable, root: &str) -> mlua::Error {
    match error.cause {
        Cause::Memory => raise(Failure::Memory),
        Cause::Cancelled => raise(Failure::Cancelled),
        _ => refuse(error.data_message(root)),
    }
}

fn child_path(path: &str, key: &Value) -> String {
    match key {
        Value::String(key) => format!("{path}.{}", key.to_string_lossy()),
        Value::Integer(key) => format!("{path}[{key}]"),
        Value::Number(key) => format!("{path}[{key}]"),
        Value::Boolean(key) => format!("{path}[{key}]"),
        other => format!("{path}[{}]", type_name(other)),
    }
}

/// The value to store at `data[key]` of `var`: a copy, checked together with the place it goes to. `data` is found at
/// the path and has as many tables around it.
pub(crate) fn checked_data(
    lua: &Lua,
    section: &Section,
    data: &Table,
    (path, level): (&str, usize),
    key: &Value,
    value: &Value,
) -> mlua::Result<Value> {
    let length = i64::try_from(data.raw_len()).unwrap_or(i64::MAX);
    let is_list = data.metatable().is_some() || length > 0;
    let is_empty = || data.pairs::<Value, Value>().next().is_none();
    let position = match key {
        Value::Integer(position) => Some(*position),
        Value::Number(position) => crate::model_calls::whole(*position),
        _ => None,
    };
    let fits = match (key, position) {
        (Value::String(_), _) => !is_list || value.is_nil(),
        (_, Some(position)) if value.is_nil() => position >= length || position < 1,
        (_, Some(position)) => (1..=length + 1).contains(&position) && (is_list || is_empty()),
        _ => value.is_nil(),
    };
    if !fits {
        return Err(refuse(format!(
            "{path} must be JSON data, got a table that is neither a list nor an object: the key {} does not fit",
            child_path("", key).trim_start_matches('.')
        )));
    }
    if let Value::String(key) = key
        && key.to_str().is_err()
    {
        return Err(refuse(format!("{path} must be JSON data, got a key that is not valid UTF-8")));
    }
    if value.is_nil() {
        return Ok(Value::Nil);
    }
    let root = child_path(path, key);
    let levels = DEPTH_LIMIT.saturating_sub(level);
    let value = to_json(section, value, Views::Refuse, levels).map_err(|error| not_data(&error, &root))?;
    from_json(lua, section, &value, Nulls::Keep)
}

/// `var` as JSON, unless the global no longer holds it.
pub(crate) fn read_var(lua: &Lua, section: &Section) -> mlua::Result<Json> {
    let anchors = section.anchors()?;
    match lua.globals().raw_get::<Value>("var")? {
        Value::Table(var) if var.to_pointer() == anchors.var.to_pointer() => {
            // Nesting counts from the fields of `var`, one level below it.
            to_json(section, &Value::Table(anchors.var_data.clone()), Views::Refuse, DEPTH_LIMIT + 1)
                .map_err(|error| not_data(&error, "var"))
        }
        _ => Err(refuse(VAR_REASSIGNED)),
    }
}

/// The H1 body's `argv` as the walk will see it.
pub(crate) fn read_argv(lua: &Lua, section: &Section) -> mlua::Result<Option<Json>> {
    match lua.globals().raw_get::<Value>("argv")? {
        Value::Nil => Ok(None),
        value => match to_json(section, &value, Views::Refuse, DEPTH_LIMIT) {
            Ok(Json::Null) => Ok(None),
            Ok(value) => Ok(Some(value)),
            Err(error) => Err(not_data(&error, "argv")),
        },
    }
}

/// Refuses an assignment to a guarded global; nothing happens for every other name.
pub(crate) fn refuse_assignment(section: &Section, key: &Value) -> mlua::Result<()> {
    match guarded(section, key) {
        Some(text) => Err(refuse(text)),
        None => Ok(()),
    }
}

/// The text of an assignment to a guarded global.
pub(crate) fn guarded(section: &Section, key: &Value) -> Option<&'static str> {
    let Value::String(key) = key else { return None };
    match &*key.as_bytes() {
        b"messages" => Some(crate::messages::NOT_REASSIGNABLE),
        b"prose" => Some(PROSE_READ_ONLY),
        b"argv" if !section.params.is_h1 => Some(ARGV_FROZEN),
        _ => None,
    }
}

/// A write to a field of the frozen `argv`.
pub(crate) fn refuse_argv_field(key: &Value) -> mlua::Error {
    let field = match key {
        Value::String(key) => format!("'{}'", key.to_string_lossy()),
        other => child_path("", other),
    };
    refuse(format!("argv is frozen outside H1: cannot set field {field}"))
}

/// A scalar of the section's `sys`.
fn sys_field<'a>(section: &'a Section, name: &[u8]) -> Option<&'a Json> {
    if name == b"model" {
        return section.tool_model.get();
    }
    section.params.sys.iter().find(|(field, _)| field.as_bytes() == name).map(|(_, value)| value)
}

/// Reads a field of `sys`, which must have it.
pub(crate) fn read_sys(lua: &Lua, section: &Section, key: &Value) -> mlua::Result<Value> {
    let Value::String(name) = key else { return Err(refuse("sys fields must be accessed by string key")) };
    let value = match sys_field(section, &name.as_bytes()) {
        Some(value) => from_json(lua, section, value, Nulls::Nil)?,
        None => Value::Nil,
    };
    if value.is_nil() {
        return Err(refuse(format!("unknown sys field '{}'", name.to_string_lossy())));
    }
    Ok(value)
}

/// A write to `sys`.
pub(crate) fn refuse_sys_write(key: &Value) -> mlua::Error {
    let field = match key {
        Value::String(key) => key.to_string_lossy(),
        other => child_path("", other),
    };
    refuse(format!("sys is read-only; cannot set '{field}'"))
}

/// `prose`: rendered at its first read in a block, then kept until the block ends.
pub(crate) fn prose(lua: &Lua, section: &Arc<Section>) -> mlua::Result<Value> {
    let template = {
        let prose = section.prose();
        if let Some(rendered) = &prose.rendered {
            return Ok(Value::String(lua.create_string(rendered)?));
        }
        prose.template.clone()
    };
    let roots = SectionRoots { lua, section, var: OnceCell::new() };
    // A reassigned `var` fails the rendering whether or not the prose reads it.
    read_var(lua, section)?;
    let rendered = render(&template, &roots, section.memory_ceiling()).map_err(|error| match error {
        Unrendered::Refused(Refusal(text)) => refuse(text),
        Unrendered::TooLarge => raise(Failure::Memory),
    })?;
    let value = Value::String(lua.create_string(&rendered)?);
    section.anchors()?.hidden.raw_set("prose", value.clone())?;
    section.prose().rendered = Some(rendered);
    Ok(value)
}

struct SectionRoots<'a> {
    lua: &'a Lua,
    section: &'a Section,
    var: OnceCell<Json>,
}

impl Roots for SectionRoots<'_> {
    fn args(&self) -> &str {
        &self.section.params.args
    }

    fn argv(&self) -> Option<&Json> {
        self.section.params.argv_in_prose.as_deref()
    }

    fn var(&self) -> Result<&Json, Refusal> {
        if let Some(var) = self.var.get() {
            return Ok(var);
        }
        let var = read_var(self.lua, self.section)
            .map_err(|error| Refusal(crate::error_value::failure_of(&error).message()))?;
        Ok(self.var.get_or_init(|| var))
    }

    fn sys(&self, name: &str) -> Option<&Json> {
        sys_field(self.section, name.as_bytes())
    }

    fn global(&self, name: &str) -> Global {
        let value = match name {
            // Reading `prose` here would render it from itself.
            "prose" => return Global::NotData,
            "messages" => return Global::Userdata,
            _ => self.lua.globals().raw_get::<Value>(name),
        };
        match value {
            Ok(Value::Nil) | Err(_) => Global::Unset,
            Ok(Value::UserData(_)) => Global::Userdata,
            Ok(value) => match to_json(self.section, &value, Views::Refuse, DEPTH_LIMIT) {
                Ok(value) => Global::Data(value),
                Err(_) => Global::NotData,
            },
        }
    }
}
