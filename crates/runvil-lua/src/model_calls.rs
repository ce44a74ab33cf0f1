//! The `models` global and model handles in Lua.

use std::sync::Arc;

use mlua::{Lua, MetaMethod, MultiValue, Table, UserData, UserDataFields, UserDataMethods, Value};

use crate::error_value::refuse;
use crate::failure::quoted;
use crate::models::{ModelHandle, Options};
use crate::names::{LUA_TYPE, is_label, type_name};
use crate::parts::member;
use crate::request::Request;
use crate::section::{Running, Section};

/// A model handle as Lua holds it.
pub(crate) struct Handle {
    pub(crate) model: Arc<ModelHandle>,
    section: Arc<Section>,
}

impl UserData for Handle {
    fn add_fields<F: UserDataFields<Self>>(fields: &mut F) {
        fields.add_meta_field(MetaMethod::Type, LUA_TYPE);
    }

    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_meta_method(MetaMethod::Index, |lua, this, key: Value| {
            let Value::String(key_name) = &key else { return Err(unknown_field(&key)) };
            let model = &this.model;
            let name = key_name.as_bytes();
            Ok(match &*name {
                b"name" | b"label" => Value::String(lua.create_string(&model.label)?),
                b"description" => Value::String(lua.create_string(&model.description)?),
                b"capabilities" => {
                    Value::Table(lua.create_sequence_from(model.capabilities.iter().map(String::as_str))?)
                }
                b"model_id" => Value::String(lua.create_string(&model.model_id)?),
                b"context" => Value::Integer(i64::try_from(model.context).unwrap_or(i64::MAX)),
                b"thinking" => model.thinking.map_or(Value::Nil, Value::Boolean),
                b"temperature" => model.temperature.map_or(Value::Nil, Value::Number),
                b"max_tokens" => match model.max_tokens {
                    Some(tokens) => Value::Integer(i64::try_from(tokens).unwrap_or(i64::MAX)),
                    None => Value::Nil,
                },
                b"infer" | b"loop" => member(lua, &this.section, &this.section.anchors()?.handle_methods, key_name)?,
                _ => return Err(unknown_field(&key)),
            })
        });
        methods.add_meta_method(MetaMethod::NewIndex, |_, _, (key, _): (Value, Value)| {
            Err::<(), _>(refuse(format!("model handles are read-only; cannot set {}", field_text(&key))))
        });
        methods.add_meta_method(MetaMethod::ToString, |_, this, ()| Ok(format!("model handle {}", this.model.label)));
    }
}

fn field_text(key: &Value) -> String {
    match key {
        Value::String(name) => format!("'{}'", name.to_string_lossy()),
        other => format!("a {} key", type_name(other)),
    }
}

fn unknown_field(key: &Value) -> mlua::Error {
    refuse(format!("attempt to get an unknown field {}", field_text(key)))
}

/// The handle in a Lua value, when it is one.
pub(crate) fn handle_in(value: &Value) -> Option<Arc<ModelHandle>> {
    match value {
        Value::UserData(data) => data.borrow::<Handle>().ok().map(|handle| Arc::clone(&handle.model)),
        _ => None,
    }
}

fn handle_value(lua: &Lua, section: &Arc<Section>, model: &Arc<ModelHandle>) -> mlua::Result<Value> {
    let handle = Handle { model: Arc::clone(model), section: Arc::clone(section) };
    Ok(Value::UserData(lua.create_userdata(handle)?))
}

/// The text of a string argument that must be a label or an id.
fn name_argument(call: &str, what: &str, value: &Value) -> mlua::Result<String> {
    match value {
        Value::String(text) => match text.to_str() {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(refuse(format!("{call} {what} must be a valid UTF-8 string"))),
        },
        other => Err(refuse(format!("{call} {what} must be a string, got {}", type_name(other)))),
    }
}

fn label_argument(call: &str, value: &Value) -> mlua::Result<String> {
    let label = name_argument(call, "label", value)?;
    if is_label(&label) { Ok(label) } else { Err(invalid_label(&label)) }
}

fn invalid_label(label: &str) -> mlua::Error {
    refuse(format!("invalid alias {}: expected [A-Za-z][A-Za-z0-9_-]{{0,63}}", quoted(label)))
}

fn argument(arguments: &MultiValue, at: usize) -> Value {
    arguments.get(at).cloned().unwrap_or(Value::Nil)
}

/// `models.use(label, options?)`: selects a role for the section.
pub(crate) fn select(lua: &Lua, section: &Arc<Section>, arguments: &MultiValue) -> mlua::Result<Value> {
    if arguments.len() > 2 {
        return Err(refuse(format!("models.use takes at most 2 arguments, got {}", arguments.len())));
    }
    let label = label_argument("models.use", &argument(arguments, 0))?;
    let options = match argument(arguments, 1) {
        Value::Nil => Options::default(),
        Value::Table(table) => options(lua, &table)?,
        other => return Err(refuse(format!("models.use options must be a table, got {}", type_name(&other)))),
    };
    let Some(handle) = section.environment.models.role(&label, options) else {
        return Err(refuse(format!("models.use label {} is not a bound model role", quoted(&label))));
    };
    let handle = Arc::new(handle);
    *section.selection() = Some(Arc::clone(&handle));
    handle_value(lua, section, &handle)
}

/// `models.default(label)`: sets the prompt-wide default.
pub(crate) fn set_default(lua: &Lua, section: &Arc<Section>, arguments: &MultiValue) -> mlua::Result<Value> {
    let label = label_argument("models.default", &argument(arguments, 0))?;
    let models = &section.environment.models;
    let Some(handle) = models.role(&label, Options::default()) else {
        return Err(refuse(format!("models.default label {} is not a bound model role", quoted(&label))));
    };
    let handle = Arc::new(handle);
    models.set_default(&handle).map_err(|existing| {
        refuse(format!(
            "models.default is already {}: the prompt-wide default cannot change mid-run",
            quoted(&existing)
        ))
    })?;
    handle_value(lua, section, &handle)
}

/// `models.get(name)`: a handle of a role, or of a raw model id.
pub(crate) fn get(lua: &Lua, section: &Arc<Section>, arguments: &MultiValue) -> mlua::Result<Value> {
    let name = name_argument("models.get", "alias", &argument(arguments, 0))?;
    let models = &section.environment.models;
    let handle = match models.role(&name, Options::default()) {
        Some(handle) => Some(handle),
        None => models
            .raw(&name)
            .map_err(|reason| refuse(format!("models.get model id {} is invalid: {reason}", quoted(&name))))?,
    };
    let Some(handle) = handle else {
        return Err(refuse(format!("models.get alias {} is not a bound model role", quoted(&name))));
    };
    handle_value(lua, section, &Arc::new(handle))
}

/// The options table of `models.use`. Keys that are no strings are judged first, then the others by their bytes.
fn options(lua: &Lua, table: &Table) -> mlua::Result<Options> {
    let mut entries: Vec<(String, Value)> = Vec::new();
    let mut strange: Vec<&'static str> = Vec::new();
    for pair in table.pairs::<Value, Value>() {
        match pair? {
            (Value::String(key), value) => entries.push((key.to_string_lossy(), value)),
            (key, _) => strange.push(type_name(&key)),
        }
    }
    if let Some(name) = strange.iter().min() {
        return Err(refuse(format!("models.use option names must be strings, got {name}")));
    }
    entries.sort_by(|left, right| left.0.cmp(&right.0));
    let mut options = Options::default();
    for (name, value) in entries {
        match name.as_str() {
            "temperature" => options.temperature = Some(temperature(lua, value)?),
            "max_tokens" => options.max_tokens = Some(max_tokens(lua, value)?),
            "thinking" => match value {
                Value::Boolean(flag) => options.thinking = Some(flag),
                other => {
                    return Err(refuse(format!(
                        "models.use option thinking must be a boolean, got {}",
                        type_name(&other)
                    )));
                }
            },
            _ => {
                return Err(refuse(format!(
                    "models.use option {} is unknown: expected temperature, max_tokens, or thinking",
                    quoted(&name)
                )));
            }
        }
    }
    Ok(options)
}

fn lua_text(lua: &Lua, value: Value) -> String {
    lua.coerce_string(value).ok().flatten().map(|text| text.to_string_lossy()).unwrap_or_default()
}

#[expect(clippy::cast_precision_loss, reason = "the range check that follows knows no number past 2")]
fn temperature(lua: &Lua, value: Value) -> mlua::Result<f64> {
    let number = match &value {
        Value::Integer(number) => *number as f64,
        Value::Number(number) => *number,
        other => {
            return Err(refuse(format!("models.use option temperature must be a number, got {}", type_name(other))));
        }
    };
    if !number.is_finite() {
        return Err(refuse(format!("models.use option temperature must be finite, got {}", lua_text(lua, value))));
    }
    if !(0.0..=2.0).contains(&number) {
        return Err(refuse(format!(
            "models.use option temperature {} is outside the supported range [0.0, 2.0]",
            lua_text(lua, value)
        )));
    }
    Ok(number)
}

fn max_tokens(lua: &Lua, value: Value) -> mlua::Result<u64> {
    let found = match &value {
        Value::Integer(number) => u32::try_from(*number).ok(),
        Value::Number(number) => whole(*number).and_then(|number| u32::try_from(number).ok()),
        _ => None,
    };
    match found {
        Some(tokens) if tokens > 0 => Ok(u64::from(tokens)),
        _ => {
            let actual = match value {
                Value::Integer(_) | Value::Number(_) => lua_text(lua, value),
                other => type_name(&other).to_owned(),
            };
            Err(refuse(format!("models.use option max_tokens must be an integer in [1, 4294967295], got {actual}")))
        }
    }
}

/// The integer a float without a fraction stands for, when 64 bits hold it.
#[expect(clippy::cast_possible_truncation, reason = "the bounds are checked first; -2^63 itself is exact")]
pub(crate) fn whole(number: f64) -> Option<i64> {
    (number.fract() == 0.0 && (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&number))
        .then_some(number as i64)
}

fn prompt_argument(value: &Value) -> mlua::Result<String> {
    match value {
        Value::String(text) => match text.to_str() {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(refuse("prompt must be a valid UTF-8 string")),
        },
        other => Err(refuse(format!("prompt must be a string, got {}", type_name(other)))),
    }
}

/// `models.infer(prompt)`.
pub(crate) fn begin_infer(section: &Section, arguments: &MultiValue) -> mlua::Result<()> {
    if arguments.len() > 1 || handle_in(&argument(arguments, 0)).is_some() {
        return Err(refuse("models.infer takes (prompt); call handle:infer(prompt) to run on a model handle"));
    }
    let prompt = prompt_argument(&argument(arguments, 0))?;
    section.ask(Request::Infer { handle: None, prompt });
    Ok(())
}

/// `handle:infer(prompt)`.
pub(crate) fn begin_handle_infer(section: &Section, arguments: &MultiValue) -> mlua::Result<()> {
    let Some(handle) = handle_in(&argument(arguments, 0)) else {
        return Err(refuse("call infer on a model handle with a colon: handle:infer(prompt)"));
    };
    if arguments.len() > 2 {
        return Err(refuse("handle:infer takes (prompt)"));
    }
    let prompt = prompt_argument(&argument(arguments, 1))?;
    section.ask(Request::Infer { handle: Some(handle), prompt });
    Ok(())
}

/// `models.loop(compactor?)`: the checks of its arguments, in their order. Gives the compactor of the call.
pub(crate) fn begin_loop(section: &Section, arguments: &MultiValue) -> mlua::Result<Value> {
    if handle_in(&argument(arguments, 0)).is_some() {
        return Err(refuse("models.loop takes (compactor?); call handle:loop(compactor?) to run on a model handle"));
    }
    if arguments.len() > 1 {
        return Err(refuse("models.loop takes (compactor?)"));
    }
    start_loop(section, None, &argument(arguments, 0))
}

/// `handle:loop(compactor?)`.
pub(crate) fn begin_handle_loop(section: &Section, arguments: &MultiValue) -> mlua::Result<Value> {
    let Some(handle) = handle_in(&argument(arguments, 0)) else {
        return Err(refuse("call loop on a model handle with a colon: handle:loop(compactor?)"));
    };
    if arguments.len() > 2 {
        return Err(refuse("handle:loop takes (compactor?)"));
    }
    start_loop(section, Some(handle), &argument(arguments, 1))
}

fn start_loop(section: &Section, handle: Option<Arc<ModelHandle>>, compactor: &Value) -> mlua::Result<Value> {
    let compactor = match compactor {
        // The default is read now and looked at only when it is needed.
        Value::Nil => section.anchors()?.compactors.raw_get("fail")?,
        Value::Function(_) => compactor.clone(),
        other => return Err(refuse(format!("compactor must be a function, got {}", type_name(other)))),
    };
    if section.running() != Running::Nothing {
        return Err(refuse(
            "a loop or a compactor is already running in this section; ask a side question with models.infer(prompt)",
        ));
    }
    section.set_running(Running::Loop);
    section.ask(Request::Loop { handle });
    Ok(compactor)
}
