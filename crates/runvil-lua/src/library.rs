//! `require`: libraries that run once per section VM.

use std::collections::BTreeMap;

use mlua::chunk::ChunkMode;
use mlua::{Function, Lua, MultiValue, Value};

use crate::error_value::{failure_of, refuse};
use crate::failure::quoted;
use crate::names::type_name;
use crate::request::Request;
use crate::section::{Section, lock};

/// The libraries of one section VM, by name: running, or with their result.
#[derive(Debug, Default)]
pub(crate) struct Libraries(BTreeMap<String, Option<Value>>);

/// Whether `name` is one or more segments of `[A-Za-z0-9_-]`, joined by `/` or `.`.
fn is_library_name(name: &str) -> bool {
    name.split(['/', '.']).all(|segment| {
        !segment.is_empty() && segment.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
    })
}

/// The source of a library that comes with the language.
fn shipped(name: &str) -> Option<&'static str> {
    match name {
        "runvil/compactors" | "runvil.compactors" => Some(include_str!("libraries/compactors.lua")),
        _ => None,
    }
}

/// Checks the name; gives it with the cached result, or with the source of a shipped library, or asks for the source.
pub(crate) fn begin(lua: &Lua, section: &Section, arguments: &MultiValue) -> mlua::Result<(String, bool, Value)> {
    let name = match arguments.front() {
        Some(Value::String(name)) => name.to_string_lossy(),
        other => {
            return Err(refuse(format!("require name must be a string, got {}", other.map_or("nil", type_name))));
        }
    };
    if !is_library_name(&name) {
        return Err(refuse(format!(
            "require name {} is invalid: expected segments of [A-Za-z0-9_-] joined by / or .",
            quoted(&name)
        )));
    }
    let mut libraries = lock(&section.libraries);
    match libraries.0.get(&name) {
        Some(Some(value)) => Ok((name, true, value.clone())),
        Some(None) => Err(refuse(format!(
            "library {} requires itself: it is still loading when it is required again",
            quoted(&name)
        ))),
        None => {
            libraries.0.insert(name.clone(), None);
            drop(libraries);
            if let Some(source) = shipped(&name) {
                return Ok((name, false, Value::String(lua.create_string(source)?)));
            }
            section.ask(Request::Library { name: name.clone() });
            Ok((name, false, Value::Nil))
        }
    }
}

/// Compiles a library's source, as text only.
pub(crate) fn compile(lua: &Lua, name: &str, source: &[u8]) -> mlua::Result<Function> {
    lua.load(source).set_name(format!("=library {name}")).set_mode(ChunkMode::Text).into_function()
}

/// Caches the result of a library that ran, or raises an error that names it.
///
/// The error value of a failure keeps its kind only when that kind is not `lua`: running out of rounds inside a library
/// is still running out of rounds.
pub(crate) fn finish(
    lua: &Lua,
    section: &Section,
    name: String,
    returned: bool,
    result: Value,
) -> mlua::Result<(bool, Value)> {
    let mut libraries = lock(&section.libraries);
    if returned {
        let value = if result.is_nil() { Value::Boolean(true) } else { result };
        libraries.0.insert(name, Some(value.clone()));
        return Ok((true, value));
    }
    libraries.0.remove(&name);
    drop(libraries);
    if section.is_cancelled() {
        return Ok((false, result));
    }
    let text = match &result {
        Value::Error(error) => match &**error {
            mlua::Error::SyntaxError { message, .. } => message.clone(),
            error => {
                let failure = failure_of(error);
                if failure.kind() != "lua" {
                    return Ok((false, Value::Table(section.errors.make(lua, &failure)?)));
                }
                failure.message()
            }
        },
        Value::Table(table) if section.errors.is_error_value(table) => match section.errors.failure(&result) {
            Some(failure) if failure.kind() == "lua" => failure.message(),
            _ => return Ok((false, result)),
        },
        Value::String(text) => text.to_string_lossy(),
        other => format!("(error object is a {} value)", type_name(other)),
    };
    Err(refuse(format!("library {} failed: {text}", quoted(&name))))
}
