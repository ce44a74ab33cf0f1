//! Error values: the tables that `pcall` gives for every failure of the host or the runtime.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use mlua::{AnyUserData, Lua, Table, UserData, Value};

use crate::failure::Failure;

/// Makes, recognises and remembers error values of one section VM.
#[derive(Debug)]
pub(crate) struct ErrorValues {
    list_mark: Table,
    /// Made before the first error value.
    tables: OnceLock<Tables>,
    /// Counts the suspending calls.
    calls: AtomicU64,
}

#[derive(Debug)]
struct Tables {
    metatable: Table,
    /// The origin of each error value that is still in use, by the value.
    origins: Table,
}

/// What an error value was made from, and the count of suspending calls at that moment: raised again before the next
/// one, the value counts as never caught.
struct Origin {
    failure: Failure,
    calls: u64,
}

impl UserData for Origin {}

/// The text Lua raises, as a plain string, when an allocation inside its own code fails.
const LUA_MEMORY_ERROR: &[u8] = b"not enough memory";

/// The place Lua puts in front of an error of its own that comes up inside the prelude, which has no places.
const NO_PLACE: &[u8] = b"?:?: ";

/// The text of an error without the mark of the prelude.
pub(crate) fn without_place(text: &[u8]) -> &[u8] {
    text.strip_prefix(NO_PLACE).unwrap_or(text)
}

impl Tables {
    fn new(lua: &Lua) -> mlua::Result<Self> {
        let metatable = lua.create_table()?;
        let text = lua.create_function(|_, value: Table| value.raw_get::<Value>("message"))?;
        metatable.raw_set("__tostring", text)?;
        let concat = lua.create_function(|lua, (left, right): (Value, Value)| {
            let mut joined = text_of(&left)?;
            joined.extend_from_slice(&text_of(&right)?);
            lua.create_string(joined)
        })?;
        metatable.raw_set("__concat", concat)?;
        metatable.raw_set("__metatable", "error value")?;
        let origins = lua.create_table()?;
        let weak = lua.create_table()?;
        weak.raw_set("__mode", "k")?;
        origins.set_metatable(Some(weak))?;
        Ok(Self { metatable, origins })
    }
}

impl ErrorValues {
    pub(crate) fn new(lua: &Lua) -> mlua::Result<Self> {
        Ok(Self { list_mark: lua.create_table()?, tables: OnceLock::new(), calls: AtomicU64::new(0) })
    }

    /// Makes what every error value needs, so that one can be made with little memory left.
    pub(crate) fn prepare(&self, lua: &Lua) -> mlua::Result<()> {
        self.tables(lua).map(|_| ())
    }

    fn tables(&self, lua: &Lua) -> mlua::Result<&Tables> {
        if let Some(tables) = self.tables.get() {
            return Ok(tables);
        }
        let tables = Tables::new(lua)?;
        Ok(self.tables.get_or_init(|| tables))
    }

    pub(crate) fn list_mark(&self) -> &Table {
        &self.list_mark
    }

    /// From now on a failure made so far that is raised again is classified by its fields alone.
    pub(crate) fn forget(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    /// The error value of a failure.
    pub(crate) fn make(&self, lua: &Lua, failure: &Failure) -> mlua::Result<Table> {
        let table = lua.create_table_with_capacity(0, 3)?;
        table.raw_set("kind", failure.kind())?;
        table.raw_set("message", failure.message())?;
        if let Some((name, text)) = failure.field() {
            table.raw_set(name, text)?;
        }
        let tables = self.tables(lua)?;
        table.set_metatable(Some(tables.metatable.clone()))?;
        let origin = Origin { failure: failure.clone(), calls: self.calls.load(Ordering::Relaxed) };
        tables.origins.raw_set(&table, lua.create_userdata(origin)?)?;
        Ok(table)
    }

    /// What `pcall` hands to the author: error values for failures, everything else untouched.
    pub(crate) fn normalize(&self, lua: &Lua, value: Value) -> mlua::Result<Value> {
        match &value {
            _ if is_memory_error(&value) => Ok(Value::Table(self.make(lua, &Failure::Memory)?)),
            Value::Error(error) => Ok(Value::Table(self.make(lua, &failure_of(error))?)),
            Value::String(text) if text.as_bytes().starts_with(NO_PLACE) => {
                Ok(Value::String(lua.create_string(without_place(&text.as_bytes()))?))
            }
            _ => Ok(value),
        }
    }

    pub(crate) fn is_error_value(&self, value: &Table) -> bool {
        self.tables.get().is_some_and(|tables| {
            value.metatable().is_some_and(|metatable| metatable.to_pointer() == tables.metatable.to_pointer())
        })
    }

    /// The failure behind a value that left a block, when it is one of ours.
    pub(crate) fn failure(&self, value: &Value) -> Option<Failure> {
        match value {
            Value::Error(error) => Some(failure_of(error)),
            Value::String(text) if *text.as_bytes() == *LUA_MEMORY_ERROR => Some(Failure::Memory),
            Value::Table(table) if self.is_error_value(table) => {
                if let Some(tables) = self.tables.get()
                    && let Ok(origin) = tables.origins.raw_get::<AnyUserData>(table)
                    && let Ok(origin) = origin.borrow::<Origin>()
                    && origin.calls == self.calls.load(Ordering::Relaxed)
                {
                    return Some(origin.failure.clone());
                }
                Some(rebuilt(table))
            }
            _ => None,
        }
    }
}

/// Whether a raised value says that the section's memory has run out.
pub(crate) fn is_memory_error(value: &Value) -> bool {
    match value {
        Value::Error(error) => failure_of(error) == Failure::Memory,
        Value::String(text) => *text.as_bytes() == *LUA_MEMORY_ERROR,
        _ => false,
    }
}

/// The failure that the fields of an error value describe, once it has outlived a suspending call.
fn rebuilt(table: &Table) -> Failure {
    let field = |name: &str| match table.raw_get::<Value>(name) {
        Ok(Value::String(text)) => Some(text.to_string_lossy()),
        _ => None,
    };
    let message = field("message").unwrap_or_default();
    match (field("kind").as_deref(), field("reason")) {
        (Some("context_exhausted"), Some(reason)) => Failure::ContextExhausted { reason, used: None, limit: None },
        (Some("tool_loop_exhausted"), _) => Failure::ToolLoopExhausted,
        (Some("empty_model_reply"), _) => Failure::EmptyReply { message, finish_reason: field("finish_reason") },
        (Some("tool"), _) => {
            Failure::Tool(message.strip_prefix("tool call failure: ").map(str::to_owned).unwrap_or(message))
        }
        (Some("cancelled"), _) => Failure::Cancelled,
        _ => Failure::Lua(message),
    }
}

/// The failure inside an error that a Rust function returned, below whatever mlua wrapped around it.
pub(crate) fn failure_of(error: &mlua::Error) -> Failure {
    match error {
        mlua::Error::CallbackError { cause, .. } | mlua::Error::WithContext { cause, .. } => failure_of(cause),
        mlua::Error::ExternalError(inner) => match inner.downcast_ref::<Failure>() {
            Some(failure) => failure.clone(),
            None => Failure::Lua(inner.to_string()),
        },
        mlua::Error::MemoryError(_) => Failure::Memory,
        mlua::Error::RuntimeError(text) => Failure::Lua(without_traceback(text).to_owned()),
        other => Failure::Lua(other.to_string()),
    }
}

/// An error that Lua raised inside a Rust function, without the traceback that mlua adds: it shows frames of the prelude.
fn without_traceback(text: &str) -> &str {
    text.split_once("\nstack traceback:\n").map_or(text, |(message, _)| message)
}

/// A failure as the error of a Rust function.
pub(crate) fn raise(failure: Failure) -> mlua::Error {
    mlua::Error::external(failure)
}

/// A `lua`-kind failure as the error of a Rust function.
pub(crate) fn refuse(text: impl Into<String>) -> mlua::Error {
    raise(Failure::Lua(text.into()))
}

fn text_of(value: &Value) -> mlua::Result<Vec<u8>> {
    match value {
        Value::String(text) => Ok(text.as_bytes().to_vec()),
        Value::Integer(_) | Value::Number(_) => Ok(value.to_string()?.into_bytes()),
        Value::Table(table) => match table.raw_get::<Value>("message")? {
            Value::String(text) => Ok(text.as_bytes().to_vec()),
            _ => Err(refuse("attempt to concatenate a table value")),
        },
        other => Err(refuse(format!("attempt to concatenate a {} value", crate::names::type_name(other)))),
    }
}
