//! The `tools` and `packs` globals in Lua: offering tools, calling them, and running the handlers of local ones.

use std::sync::atomic::Ordering;

use mlua::{Lua, MultiValue, Table, Value};
use runvil_core::tools::ToolSchema;
use serde_json::{Map, Value as Json};

use crate::compaction::raised_value;
use crate::error_value::{raise, refuse};
use crate::failure::{Failure, quoted};
use crate::json::{Cause, DEPTH_LIMIT, Nulls, Views, from_json, to_json};
use crate::names::{is_label, type_name};
use crate::packs::PackTool;
use crate::request::Request;
use crate::section::{Running, Section};
use crate::tools::{LocalTool, Offered, Parameter, ParameterType, Report, parameter_schema};
use crate::vm::scalar;

/// The names of the tools that a model starts and watches tasks with; no script calls them.
const TASK_TOOLS: [&str; 5] = ["task", "task_cancel", "task_status", "task_events", "await_tasks"];

fn argument(arguments: &MultiValue, at: usize) -> Value {
    arguments.get(at).cloned().unwrap_or(Value::Nil)
}

/// A string argument in valid UTF-8.
fn text(what: &str, value: &Value) -> mlua::Result<String> {
    match value {
        Value::String(text) => match text.to_str() {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(refuse(format!("{what} must be a valid UTF-8 string"))),
        },
        other => Err(refuse(format!("{what} must be a string, got {}", type_name(other)))),
    }
}

fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().map(quoted).collect::<Vec<_>>().join(", ")
}

/// Refuses an offer once the section's list is fixed.
fn still_open(section: &Section, call: &str) -> mlua::Result<()> {
    if section.scope().is_rendered {
        return Err(refuse(format!(
            "{call} comes too late: this section's tool list was rendered by its first loop round; offer tools before \
             models.loop"
        )));
    }
    Ok(())
}

fn declared_packs(section: &Section) -> String {
    listed(section.environment.packs.names())
}

/// Adds a tool to the section's offers, or renews its description.
fn offer_tool(section: &Section, tool: &PackTool, description: Option<String>, call: &str) -> mlua::Result<()> {
    let mut scope = section.scope();
    if let Some(offered) = scope.offered.iter_mut().find(|offered| offered.tool.path == tool.path) {
        if description.is_some() {
            offered.description = description;
        }
        return Ok(());
    }
    let name = tool.wire_name();
    if let Some(other) = scope.taken(&name) {
        return Err(refuse(format!(
            "{call} path {} would be offered as {}, which {} already uses",
            quoted(&tool.path),
            quoted(&name),
            quoted(other)
        )));
    }
    scope.offered.push(Offered { tool: tool.clone(), description });
    Ok(())
}

/// `tools.offer(path, description?)`.
pub(crate) fn offer(section: &Section, arguments: &MultiValue) -> mlua::Result<()> {
    if arguments.len() > 2 {
        return Err(refuse("tools.offer takes (path, description?)"));
    }
    let path = text("tools.offer path", &argument(arguments, 0))?;
    let description = match argument(arguments, 1) {
        Value::Nil => None,
        value => Some(text("tools.offer description", &value)?),
    };
    still_open(section, "tools.offer")?;
    let Some(tool) = section.environment.packs.find(&path) else {
        return Err(refuse(format!(
            "tools.offer path {} is not a tool of a declared pack; declared packs: [{}]",
            quoted(&path),
            declared_packs(section)
        )));
    };
    offer_tool(section, tool, description, "tools.offer")
}

/// `packs.offer(pack)`: every tool of the pack, or none of them.
pub(crate) fn offer_pack(section: &Section, arguments: &MultiValue) -> mlua::Result<()> {
    if arguments.len() > 1 {
        return Err(refuse("packs.offer takes (pack)"));
    }
    let pack = text("packs.offer pack", &argument(arguments, 0))?;
    still_open(section, "packs.offer")?;
    let Some(tools) = section.environment.packs.tools(&pack) else {
        return Err(refuse(format!(
            "packs.offer pack {} is not a declared pack; declared packs: [{}]",
            quoted(&pack),
            declared_packs(section)
        )));
    };
    let before = section.scope().offered.len();
    for tool in tools {
        if let Err(error) = offer_tool(section, tool, None, "packs.offer") {
            section.scope().offered.truncate(before);
            return Err(error);
        }
    }
    Ok(())
}

/// `tools.offer_local(name, description, params, handler)`.
pub(crate) fn offer_local(section: &Section, arguments: &MultiValue) -> mlua::Result<()> {
    const CALL: &str = "tools.offer_local";
    if arguments.len() > 4 {
        return Err(refuse("tools.offer_local takes (name, description, params, handler)"));
    }
    let name = text("tools.offer_local name", &argument(arguments, 0))?;
    if !is_label(&name) {
        return Err(refuse(format!("invalid name {}: expected [A-Za-z][A-Za-z0-9_-]{{0,63}}", quoted(&name))));
    }
    let description = text("tools.offer_local description", &argument(arguments, 1))?;
    let parameters = match argument(arguments, 2) {
        Value::Table(table) => parameter_schema(parameters(&table)?),
        other => {
            return Err(refuse(format!("tools.offer_local params must be a table, got {}", type_name(&other))));
        }
    };
    let handler = match argument(arguments, 3) {
        Value::Function(handler) => handler,
        other => {
            return Err(refuse(format!("tools.offer_local handler must be a function, got {}", type_name(&other))));
        }
    };
    still_open(section, CALL)?;
    let mut scope = section.scope();
    if scope.local(&name).is_some() {
        return Err(refuse(format!("{CALL} name {} is already registered", quoted(&name))));
    }
    if scope.taken(&name).is_some() {
        return Err(refuse(format!("{CALL} name {} duplicates an offered tool", quoted(&name))));
    }
    scope.local.push(LocalTool { schema: ToolSchema { name, description, parameters }, handler });
    Ok(())
}

/// The parameters of a local tool: names to a type, or to `{type, description?}`. The first error by name is given.
fn parameters(table: &Table) -> mlua::Result<Vec<Parameter>> {
    let mut entries = Vec::new();
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair?;
        let Value::String(name) = &key else {
            return Err(refuse(format!("tools.offer_local param names must be strings, got {}", type_name(&key))));
        };
        let Ok(name) = name.to_str() else {
            return Err(refuse("tools.offer_local param names must be valid UTF-8 strings"));
        };
        entries.push((name.to_owned(), value));
    }
    entries.sort_by(|left, right| left.0.cmp(&right.0));
    entries.into_iter().map(|(name, value)| parameter(name, &value)).collect()
}

fn parameter(name: String, value: &Value) -> mlua::Result<Parameter> {
    let malformed = || {
        refuse(format!(
            "tools.offer_local param {} must be a type string or a {{type, description}} array",
            quoted(&name)
        ))
    };
    let (kind, description) = match value {
        Value::String(kind) => (kind.clone(), None),
        Value::Table(table) => {
            let fields = table.pairs::<Value, Value>().count();
            match (table.raw_get::<Value>(1)?, table.raw_get::<Value>(2)?) {
                (Value::String(kind), Value::Nil) if fields == 1 => (kind, None),
                (Value::String(kind), Value::String(description)) if fields == 2 => (kind, Some(description)),
                _ => return Err(malformed()),
            }
        }
        _ => return Err(malformed()),
    };
    let kind = kind.to_string_lossy();
    let description = match description.map(|text| text.to_str().map(|text| text.to_owned())) {
        None => None,
        Some(Ok(text)) => Some(text),
        Some(Err(_)) => {
            return Err(refuse(format!(
                "tools.offer_local param {} has a description that is not valid UTF-8",
                quoted(&name)
            )));
        }
    };
    match ParameterType::from_name(&kind) {
        Some(kind) => Ok(Parameter { name, kind, description }),
        None => Err(refuse(format!(
            "tools.offer_local param {} has unsupported type {}: expected \"string\", \"integer\", \"number\", or \
             \"boolean\"",
            quoted(&name),
            quoted(&kind)
        ))),
    }
}

/// `tools.call(path, args?)`. A pack's tool is asked of the Engine; of a local one the handler, its arguments, its name
/// and the current turn are given, to be run by the prelude.
pub(crate) fn begin_call(lua: &Lua, section: &Section, arguments: &MultiValue) -> mlua::Result<MultiValue> {
    if arguments.len() > 2 {
        return Err(refuse("tools.call takes (path, args?)"));
    }
    let path = match argument(arguments, 0) {
        Value::String(path) => path.to_string_lossy(),
        other => return Err(refuse(format!("tools.call path must be a string, got {}", type_name(&other)))),
    };
    let given = call_arguments(section, &argument(arguments, 1))?;
    let handler = match section.scope().local(&path) {
        Some(tool) if !TASK_TOOLS.contains(&path.as_str()) => Some(tool.handler.clone()),
        _ => None,
    };
    if let Some(handler) = handler {
        let turn = section.environment.turns.load(Ordering::Relaxed);
        let values = [
            Value::Function(handler),
            from_json(lua, section, &Json::Object(given), Nulls::Keep)?,
            Value::String(lua.create_string(&path)?),
            Value::Integer(i64::try_from(turn).unwrap_or(i64::MAX)),
        ];
        count(section, &path)?;
        // Last, as nothing ends a handler that never began.
        section.scope().handlers += 1;
        return Ok(MultiValue::from_iter(values));
    }
    if section.environment.packs.find(&path).is_none() {
        let bound = section.environment.packs.all().map(|tool| tool.path.clone()).collect();
        return Err(raise(Failure::UnboundTool { name: path, bound }));
    }
    count(section, &path)?;
    section.ask(Request::ToolCall { path, arguments: given });
    Ok(MultiValue::new())
}

fn call_arguments(section: &Section, value: &Value) -> mlua::Result<Map<String, Json>> {
    match value {
        Value::Nil => return Ok(Map::new()),
        Value::Table(_) => {}
        other => return Err(refuse(format!("args must be a table, got {}", type_name(other)))),
    }
    match to_json(section, value, Views::Convert, DEPTH_LIMIT) {
        Ok(Json::Object(arguments)) => Ok(arguments),
        Ok(_) => Err(refuse("args must be a JSON-representable table")),
        Err(error) => Err(match error.cause {
            Cause::Memory => raise(Failure::Memory),
            Cause::Cancelled => raise(Failure::Cancelled),
            _ => refuse("args must be a JSON-representable table"),
        }),
    }
}

/// Ends the handler of a local tool that a script called: the result as text, or the value to raise.
pub(crate) fn finish_call(
    lua: &Lua,
    section: &Section,
    (name, turn): (String, u64),
    returned: bool,
    value: Value,
) -> mlua::Result<(bool, Value)> {
    leave_handler(section);
    match handler_text(lua, section, returned, value)? {
        Ok(content) => {
            let text = lua.create_string(&content)?;
            section.report(Report::LocalResult { turn, name, content });
            Ok((true, Value::String(text)))
        }
        Err(raised) => {
            section.report(Report::LocalFailed);
            Ok((false, raised))
        }
    }
}

/// Ends the handler of a local tool that a model called. When it returned, the Engine goes on with the batch; when it
/// raised, the loop has ended and the value to raise is given.
pub(crate) fn finish_in_loop(
    lua: &Lua,
    section: &Section,
    returned: bool,
    value: Value,
) -> mlua::Result<(bool, Value)> {
    leave_handler(section);
    match handler_text(lua, section, returned, value)? {
        Ok(text) => {
            section.ask(Request::Handled { text });
            Ok((true, Value::Nil))
        }
        Err(raised) => {
            section.set_running(Running::Nothing);
            section.report(Report::LocalFailed);
            Ok((false, raised))
        }
    }
}

fn leave_handler(section: &Section) {
    let mut scope = section.scope();
    scope.handlers = scope.handlers.saturating_sub(1);
}

/// The text of what a handler returned, or the value that the call raises.
fn handler_text(lua: &Lua, section: &Section, returned: bool, value: Value) -> mlua::Result<Result<String, Value>> {
    if !returned {
        return Ok(Err(raised_value(lua, section, value)?));
    }
    match scalar(&value) {
        Ok(text) => Ok(Ok(text.unwrap_or_default())),
        Err(failure) => Ok(Err(Value::Table(section.errors.make(lua, &failure)?))),
    }
}

/// Counts a tool call before it runs; the section's first one makes `tools.calls` and `sys.model`.
pub(crate) fn count(section: &Section, name: &str) -> mlua::Result<()> {
    let offered: Vec<String> = section.scope().offered.iter().map(|offered| offered.tool.path.clone()).collect();
    let mut calls = section.calls();
    let anchors = section.anchors()?;
    if calls.counts.is_none()
        && let Some(model) = section.current_model()
    {
        let _ = section.tool_model.set(Json::String(model.model_id.clone()));
    }
    let counts = calls.counts.get_or_insert_with(|| anchors.call_counts.clone()).clone();
    for path in offered {
        if calls.names.insert(path.clone()) {
            counts.raw_set(path, 0)?;
        }
    }
    calls.names.insert(name.to_owned());
    let so_far: i64 = counts.raw_get::<Option<i64>>(name)?.unwrap_or(0);
    counts.raw_set(name, so_far + 1)
}

/// Whether the section has made a tool call, which makes `tools.calls` readable.
pub(crate) fn has_counts(section: &Section) -> bool {
    section.calls().counts.is_some()
}

/// `tools.calls` has nothing under this key.
pub(crate) fn refuse_count(section: &Section, key: &Value) -> mlua::Error {
    let Value::String(key) = key else {
        return refuse(format!("tools.calls keys are tool paths, got {}", type_name(key)));
    };
    let key = key.to_string_lossy();
    let hint = if section.environment.packs.find(&key).is_some() {
        " (tool path is a bound tool but was neither offered in this section nor dispatched by tools.call)"
    } else {
        " - check for typos or add it via tools.offer"
    };
    let calls = section.calls();
    refuse(format!(
        "tools.calls: {} has no seeded count; seeded tools: [{}]{hint}",
        quoted(&key),
        listed(calls.names.iter().map(String::as_str))
    ))
}
