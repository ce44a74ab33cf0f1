//! The small host globals: `log`, `untrusted`, `ui`, `json`, `jump`, `list_from_section`, and the arguments of `call`
//! and `user_input`.

use std::io::{self, Write};

use mlua::{Lua, MultiValue, Table, Value};

use crate::decode::{self, Undecodable};
use crate::envelope;
use crate::error_value::{raise, refuse};
use crate::failure::{Failure, LogQuota};
use crate::guards::{not_data, read_var};
use crate::json::{DEPTH_LIMIT, Nulls, Plain, Views, from_json, to_json};
use crate::names::type_name;
use crate::request::Request;
use crate::section::Section;
use crate::tools::Report;

/// The longest message of one `log` call, in characters.
const LOG_CHARACTERS: usize = 256;

fn argument(arguments: &MultiValue, at: usize) -> Value {
    arguments.get(at).cloned().unwrap_or(Value::Nil)
}

/// `log(message)`. The call itself is paid before its message is looked at.
pub(crate) fn log(section: &Section, arguments: &MultiValue) -> mlua::Result<()> {
    if arguments.len() != 1 {
        return Err(refuse("log expects exactly one argument"));
    }
    let mut logged = section.logged();
    if logged.events_left == 0 {
        return Err(raise(Failure::LogQuota(LogQuota::Events)));
    }
    logged.events_left -= 1;
    let Some(Value::String(text)) = arguments.front() else {
        return Err(refuse("log message must be a UTF-8 string"));
    };
    let Ok(text) = text.to_str() else {
        return Err(refuse("log message must be a UTF-8 string"));
    };
    if text.chars().count() > LOG_CHARACTERS {
        return Err(refuse("log message must be at most 256 characters"));
    }
    if text.chars().any(|character| character.is_control() || matches!(character, '\u{2028}' | '\u{2029}')) {
        return Err(refuse("log message must not contain newline or control characters"));
    }
    let bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
    if bytes > logged.bytes_left {
        return Err(raise(Failure::LogQuota(LogQuota::Bytes)));
    }
    logged.bytes_left -= bytes;
    logged.reports.push(Report::Logged(text.to_owned()));
    Ok(())
}

/// `untrusted(text)`: the text in the run's envelope.
pub(crate) fn untrusted(lua: &Lua, section: &Section, arguments: &MultiValue) -> mlua::Result<Value> {
    let value = argument(arguments, 0);
    let text = match &value {
        Value::String(_) | Value::Integer(_) | Value::Number(_) => lua.coerce_string(value.clone())?,
        _ => None,
    };
    let Some(text) = text else {
        return Err(refuse(format!("untrusted text must be a string, got {}", type_name(&value))));
    };
    let Ok(text) = text.to_str() else {
        return Err(refuse("untrusted text must be a valid UTF-8 string"));
    };
    Ok(Value::String(lua.create_string(envelope::untrusted(&text, &section.environment.nonce))?))
}

/// `ui()`: a fresh copy of the Host's snapshot.
pub(crate) fn ui(lua: &Lua, section: &Section) -> mlua::Result<Value> {
    match &section.environment.ui {
        Some(snapshot) => from_json(lua, section, snapshot, Nulls::Nil),
        None => Ok(Value::Nil),
    }
}

/// `json.encode(value)`.
pub(crate) fn encode(lua: &Lua, section: &Section, arguments: &MultiValue) -> mlua::Result<Value> {
    let value = to_json(section, &argument(arguments, 0), Views::Refuse, DEPTH_LIMIT)
        .map_err(|error| not_data(&error, "json.encode: value"))?;
    let mut text = Bounded { bytes: Vec::new(), ceiling: section.memory_ceiling() };
    serde_json::to_writer(&mut text, &value).map_err(|_| raise(Failure::Memory))?;
    Ok(Value::String(lua.create_string(text.bytes)?))
}

/// A text that refuses to grow past the memory ceiling; escapes make JSON up to six times as long as what it says.
struct Bounded {
    bytes: Vec<u8>,
    ceiling: usize,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.ceiling {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// `json.decode(text)`.
pub(crate) fn decode(lua: &Lua, section: &Section, arguments: &MultiValue) -> mlua::Result<Value> {
    let text = match arguments.front() {
        Some(Value::String(text)) => text.clone(),
        other => {
            let got = other.map_or("nil", type_name);
            return Err(refuse(format!("json.decode: text must be a string, got {got}")));
        }
    };
    let value = decode::decode(section, &text.as_bytes()).map_err(|error| match error {
        Undecodable::Invalid(error) => refuse(format!("json.decode: text must be JSON: {error}")),
        Undecodable::Memory => raise(Failure::Memory),
        Undecodable::Cancelled => raise(Failure::Cancelled),
    })?;
    from_json(lua, section, &value, Nulls::Keep)
}

/// `json.array(table?)`: marks a table as a list.
pub(crate) fn array(lua: &Lua, section: &Section, arguments: &MultiValue) -> mlua::Result<Value> {
    let table = match arguments.front() {
        None | Some(Value::Nil) => lua.create_table()?,
        Some(Value::Table(table)) => table.clone(),
        Some(other) => {
            return Err(refuse(format!("json.array: value must be a table, got {}", type_name(other))));
        }
    };
    match section.plain_table(&table) {
        Plain::List(_) => {}
        Plain::Table(_) if table.metatable().is_some() => {
            return Err(refuse("json.array: value must be a table without a metatable"));
        }
        Plain::Table(_) => table.set_metatable(Some(section.list_mark()))?,
    }
    Ok(Value::Table(table))
}

/// The heading reference that `call`, `jump` and `list_from_section` take.
fn target(value: &Value) -> mlua::Result<String> {
    match value {
        Value::String(text) => Ok(text.to_string_lossy()),
        other => Err(refuse(format!("section target must be a string, got {}", type_name(other)))),
    }
}

/// `jump(heading)`: remembers the target and unwinds the block.
pub(crate) fn jump(section: &Section, arguments: &MultiValue) -> mlua::Error {
    match target(&argument(arguments, 0)) {
        Ok(_) if section.scope().handlers > 0 => refuse(
            "jump is unavailable inside a local tool handler: return a value from the handler and call jump from the block \
             after the tool call returns",
        ),
        Ok(target) => {
            let text = format!("jump to {target}");
            *section.jump() = Some(target);
            refuse(text)
        }
        Err(error) => error,
    }
}

/// `list_from_section(heading)`: the items of a list section.
pub(crate) fn list_from_section(lua: &Lua, section: &Section, arguments: &MultiValue) -> mlua::Result<Table> {
    let target = target(&argument(arguments, 0))?;
    let items = section.params.headings.items(&target).map_err(refuse)?;
    lua.create_sequence_from(items)
}

/// `call(heading, input?)`.
pub(crate) fn begin_call(lua: &Lua, section: &Section, arguments: &MultiValue) -> mlua::Result<()> {
    let target = target(&argument(arguments, 0))?;
    let input = match argument(arguments, 1) {
        Value::Nil => None,
        Value::String(text) => match text.to_str() {
            Ok(text) => Some(text.to_owned()),
            Err(_) => return Err(refuse("input must be a valid UTF-8 string")),
        },
        other => return Err(refuse(format!("input must be a string, got {}", type_name(&other)))),
    };
    let var = read_var(lua, section)?;
    section.ask(Request::Call { target, input, var });
    Ok(())
}

/// `user_input()`.
pub(crate) fn begin_user_input(section: &Section, arguments: &MultiValue) -> mlua::Result<()> {
    if !arguments.is_empty() {
        return Err(refuse("user_input takes no arguments"));
    }
    section.ask(Request::UserInput);
    Ok(())
}
