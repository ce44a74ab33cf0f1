//! Builds the sandbox: the libraries that stay, the prelude, and the Rust functions the prelude stands on.

use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering as MemoryOrdering};

use mlua::{FromLuaMulti, Function, Lua, LuaOptions, LuaString, MetaMethod, MultiValue, StdLib, Table, Value};

use crate::compaction;
use crate::dialect;
use crate::error_value::{failure_of, is_memory_error, raise};
use crate::failure::Failure;
use crate::guards;
use crate::host::{attempted, bound, retry};
use crate::messages::{Messages, record_at};
use crate::names::REMOVED;
use crate::parts;
use crate::section::{Frame, Section, Trace};
use crate::strings;
use crate::tool_calls;
use crate::view::RecordView;

/// The chunk name of code without debug information. Only the prelude is stripped, so its frames are known by it.
const STRIPPED_NAME: &str = "=?";

/// How many keys are sorted between two looks at the cancel flag.
const STRING_POLL: usize = 4096;

/// The author frames a traceback keeps.
const TRACE_FRAMES: usize = 20;

/// A fresh interpreter with the libraries the prelude needs.
pub(crate) fn interpreter() -> mlua::Result<Lua> {
    // `catch_rust_panics` stays on: turning it off would replace `pcall` by one that cannot be yielded across.
    let lua = Lua::new_with(
        StdLib::STRING | StdLib::TABLE | StdLib::MATH | StdLib::COROUTINE | StdLib::UTF8,
        LuaOptions::default(),
    )?;
    // The first handle of an interpreter collects garbage when it is dropped: better now than right before the whole
    // heap is freed.
    Ok(lua.clone())
}

/// What the dialect needs to install its globals.
pub(crate) struct Base {
    pub(crate) native: Table,
    pub(crate) hidden: Table,
    pub(crate) behind: Table,
    /// Puts stubs of a part's functions into a table.
    pub(crate) on_demand: Function,
    /// Gives a table metamethods that are functions of a part.
    pub(crate) fronted: Function,
    /// The metatable of the globals, which takes effect once they are complete.
    pub(crate) globals_meta: Table,
}

/// Installs the prelude and takes away every library name that does not stay.
pub(crate) fn build(lua: &Lua, section: &Arc<Section>) -> mlua::Result<Base> {
    let globals = lua.globals();
    let native = lua.create_table_with_capacity(0, 32)?;
    let hidden = lua.create_table()?;
    let behind = lua.create_table()?;
    let weak = lua.create_table()?;
    weak.raw_set("__mode", "k")?;
    behind.set_metatable(Some(weak))?;
    native.raw_set("hidden", &hidden)?;
    native.raw_set("behind", &behind)?;
    native.set_metatable(Some(parts::libraries(lua, section, &native)?))?;
    let (on_demand, fronted, globals_meta) = parts::CORE.load(lua)?.call(&native)?;
    prune(lua, &globals)?;
    seed_random(lua, section, &globals)?;
    Ok(Base { native, hidden, behind, on_demand, fronted, globals_meta })
}

/// Removes what the libraries have beyond the language's list.
fn prune(lua: &Lua, globals: &Table) -> mlua::Result<()> {
    for library in ["coroutine", "utf8"] {
        lua.unload_module(library)?;
    }
    for name in REMOVED {
        globals.raw_set(name, Value::Nil)?;
    }
    globals.raw_get::<Table>("string")?.raw_set("dump", Value::Nil)
}

/// Seeds `math.random` from the run's seed and the section entry, also when the author seeds it with nothing.
fn seed_random(lua: &Lua, section: &Arc<Section>, globals: &Table) -> mlua::Result<()> {
    let math: Table = globals.raw_get("math")?;
    let reseed: Function = math.raw_get("randomseed")?;
    let entry = section
        .params
        .sys
        .iter()
        .find(|(name, _)| *name == "id")
        .and_then(|(_, id)| id.as_str())
        .unwrap_or_default()
        .bytes()
        .fold(0_i64, |hash, byte| hash.wrapping_mul(31).wrapping_add(i64::from(byte)));
    let seed = i64::from_ne_bytes(section.environment.seed.to_ne_bytes());
    reseed.call::<()>((seed, entry))?;
    let calls = AtomicUsize::new(0);
    let original = reseed.clone();
    let wrapped = lua.create_function(move |_, arguments: MultiValue| {
        if arguments.is_empty() {
            let call = calls.fetch_add(1, MemoryOrdering::Relaxed) + 1;
            return original.call::<MultiValue>((seed, entry.wrapping_add(i64::try_from(call).unwrap_or(0))));
        }
        original.call::<MultiValue>(arguments)
    })?;
    math.raw_set("randomseed", wrapped)
}

/// A Rust function that the prelude calls by this name. Few sections need many of them, so each is made when it is first
/// looked up.
pub(crate) fn function(lua: &Lua, section: &Arc<Section>, name: &[u8]) -> mlua::Result<Option<Function>> {
    if let Some(function) = dialect::runvil::function(lua, section, name)? {
        return Ok(Some(function));
    }
    if let Some(function) = strings::function(lua, section, name)? {
        return Ok(Some(function));
    }
    match name {
        b"caught" => {
            section.errors.prepare(lua)?;
            bound(lua, section, |lua, section, value: Value| caught(lua, section, value))
        }
        b"checked_data" => attempted(lua, section, |lua, section, arguments| {
            let (data, path, level, key, value) =
                <(Table, LuaString, usize, Value, Value)>::from_lua_multi(arguments.clone(), lua)?;
            guards::checked_data(lua, section, &data, (&path.to_string_lossy(), level), &key, &value)
        }),
        b"handled" => bound(lua, section, |lua, section, (returned, value): (bool, Value)| {
            tool_calls::finish_in_loop(lua, section, returned, value)
        }),
        b"compacted" => bound(lua, section, |lua, section, (returned, raised): (bool, Value)| {
            compaction::finish_in_loop(lua, section, returned, raised)
        }),
        b"describe" => bound(lua, section, |_, section, text: LuaString| {
            if let Some(trace) = &mut *section.trace() {
                trace.text = Some(text.to_string_lossy());
            }
            Ok(())
        }),
        b"has_text" => bound(lua, section, |_, _, value: Value| has_text(&value)),
        b"is_cancelled" => bound(lua, section, |_, section, ()| Ok(section.is_cancelled())),
        b"metatable" => bound(lua, section, |_, _, value: Value| match value {
            Value::Table(table) => Ok(table.metatable()),
            _ => Ok(None),
        }),
        b"place_of" => bound(lua, section, |_, _, (keys, key): (Table, Value)| place_of(&keys, &key)),
        b"prose" => attempted(lua, section, |lua, section, _| guards::prose(lua, section)),
        b"record" => bound(lua, section, |lua, section, value: Value| {
            *section.trace() = Some(Trace { text: None, frames: author_frames(lua) });
            Ok(value)
        }),
        b"refuse_argv_field" => bound(lua, section, |_, _, key: Value| Err::<(), _>(guards::refuse_argv_field(&key))),
        b"refuse_assignment" => bound(lua, section, |_, section, key: Value| guards::refuse_assignment(section, &key)),
        b"read_sys" => {
            bound(lua, section, |lua, section, (_, key): (Value, Value)| guards::read_sys(lua, section, &key))
        }
        b"write_sys" => {
            bound(lua, section, |_, _, (_, key): (Value, Value)| Err::<(), _>(guards::refuse_sys_write(&key)))
        }
        b"refuses" => bound(lua, section, |_, section, key: Value| Ok(guards::guarded(section, &key).is_some())),
        b"retry" => bound(lua, section, |_, section, ()| Ok(retry(section))),
        b"sort_strings" => bound(lua, section, |_, section, table: Table| sort_strings(section, &table)),
        b"text" => bound(lua, section, |_, _, value: Value| text(&value)),
        b"walk" => bound(lua, section, |lua, section, value: Value| walk(lua, section, &value)),
        _ => return Ok(None),
    }
    .map(Some)
}

/// A raised value as the author's code sees it, and whether the run is cancelled, which it must not see.
fn caught(lua: &Lua, section: &Section, value: Value) -> mlua::Result<(Value, bool)> {
    if section.is_cancelled() {
        return Ok((Value::Nil, true));
    }
    if is_memory_error(&value) {
        // What the failed code held may be gone by now.
        lua.gc_collect()?;
        section.update_memory_limit(lua)?;
    }
    Ok((section.errors.normalize(lua, value)?, false))
}

/// The frames of the author's code on the running stack, innermost first.
fn author_frames(lua: &Lua) -> Vec<Frame> {
    let mut frames = Vec::new();
    let mut level = 1;
    while frames.len() < TRACE_FRAMES {
        let frame = lua.inspect_stack(level, |debug| {
            let source = debug.source();
            let chunk = source.source.as_deref().unwrap_or_default();
            if source.what == "C" || chunk == STRIPPED_NAME {
                return None;
            }
            let label = chunk.strip_prefix('=').unwrap_or(chunk).to_owned();
            let line = debug.current_line().unwrap_or(0);
            let names = debug.names();
            let what = match (source.what, names.name.as_deref(), names.name_what) {
                ("main", _, _) => "in main chunk".to_owned(),
                (_, Some(name), Some(kind)) => format!("in {kind} '{name}'"),
                (_, Some(name), None) => format!("in function '{name}'"),
                _ => format!("in function <{label}:{}>", source.line_defined.unwrap_or(0)),
            };
            Some(Frame { label, line, what })
        });
        match frame {
            None => break,
            Some(Some(frame)) => frames.push(frame),
            Some(None) => {}
        }
        level += 1;
    }
    frames
}

/// Whether a value says itself what its text is.
fn has_text(value: &Value) -> mlua::Result<bool> {
    match value {
        Value::Table(table) => match table.metatable() {
            Some(metatable) => metatable.raw_get::<Value>("__tostring").map(|text| !text.is_nil()),
            None => Ok(false),
        },
        Value::UserData(data) => data.metatable()?.contains(MetaMethod::ToString),
        _ => Ok(false),
    }
}

/// The text of a userdata that has one of its own.
fn text(value: &Value) -> mlua::Result<Option<String>> {
    match value {
        Value::LightUserData(light) if light.0.is_null() => Ok(Some("null".to_owned())),
        // What the handler of a `<close>` variable gets for an error of the host.
        Value::Error(error) => Ok(Some(failure_of(error).message())),
        Value::UserData(data) if data.metatable()?.contains(MetaMethod::ToString)? => Ok(Some(value.to_string()?)),
        _ => Ok(None),
    }
}

/// Sorts a sequence of strings by their bytes. Only two of them are held at a time: the interpreter has room for a
/// limited number of values held by Rust.
fn sort_strings(section: &Section, table: &Table) -> mlua::Result<()> {
    let poll = |at: usize| {
        if at.is_multiple_of(STRING_POLL) && section.is_cancelled() { Err(raise(Failure::Cancelled)) } else { Ok(()) }
    };
    let mut strings = Vec::with_capacity(table.raw_len());
    for at in 1..=table.raw_len() {
        poll(at)?;
        strings.push((table.raw_get::<LuaString>(at)?.as_bytes().to_vec(), at));
    }
    strings.sort_unstable();
    // Each cycle of the permutation moves its strings one place along.
    let mut sources: Vec<usize> = strings.into_iter().map(|(_, at)| at).collect();
    for start in 0..sources.len() {
        poll(start)?;
        if sources[start] == start + 1 {
            continue;
        }
        let first: LuaString = table.raw_get(start + 1)?;
        let mut to = start;
        loop {
            let from = std::mem::replace(&mut sources[to], to + 1);
            if from == start + 1 {
                table.raw_set(to + 1, first)?;
                break;
            }
            table.raw_set(to + 1, table.raw_get::<LuaString>(from)?)?;
            to = from - 1;
        }
    }
    Ok(())
}

/// The group of a key in the language's order, counted from 1; keys of the last group have no order among themselves.
fn key_group(key: &Value) -> u8 {
    match key {
        Value::Boolean(_) => 1,
        Value::Integer(_) => 2,
        Value::Number(number) if number.is_finite() => 2,
        Value::String(text) if text.to_str().is_ok() => 3,
        _ => 4,
    }
}

/// The 1-based place in `keys`, which are in the language's order, behind which the absent `key` would be. A key of the
/// last group goes in front of its group, so that no other one of it is missed.
fn place_of(keys: &Table, key: &Value) -> mlua::Result<usize> {
    let group = key_group(key);
    for (at, other) in keys.sequence_values::<Value>().enumerate() {
        let other = other?;
        let order = key_group(&other).cmp(&group).then_with(|| key_order(&other, key));
        if order.is_gt() || (group == 4 && order.is_eq()) {
            return Ok(at + 1);
        }
    }
    Ok(keys.raw_len() + 1)
}

/// The order of two keys of one group.
fn key_order(other: &Value, key: &Value) -> Ordering {
    match (other, key) {
        (Value::Boolean(left), Value::Boolean(right)) => left.cmp(right),
        (Value::Integer(left), Value::Integer(right)) => left.cmp(right),
        (Value::String(left), Value::String(right)) => left.as_bytes().cmp(&right.as_bytes()),
        (Value::Number(left), Value::Number(right)) => left.total_cmp(right),
        (Value::Number(left), Value::Integer(right)) => compare_exactly(*right, *left).reverse(),
        (Value::Integer(left), Value::Number(right)) => compare_exactly(*left, *right),
        _ => Ordering::Equal,
    }
}

/// Compares an integer with a finite float by their exact values.
#[expect(clippy::cast_possible_truncation, reason = "the bounds are checked before the cast")]
fn compare_exactly(integer: i64, float: f64) -> Ordering {
    if float >= 9_223_372_036_854_775_808.0 {
        return Ordering::Less;
    }
    if float < -9_223_372_036_854_775_808.0 {
        return Ordering::Greater;
    }
    let whole = float.floor();
    integer.cmp(&(whole as i64)).then(if float > whole { Ordering::Less } else { Ordering::Equal })
}

/// The iterator `pairs` uses for the list and for record views; nil for any other userdata.
fn walk(lua: &Lua, section: &Arc<Section>, value: &Value) -> mlua::Result<Value> {
    let Value::UserData(data) = value else { return Ok(Value::Nil) };
    let nothing = (Value::Nil, Value::Nil);
    if data.is::<Messages>() {
        let section = Arc::clone(section);
        // The count is fixed here; each record is read when the walk reaches it.
        let count = section.list().len();
        let mut position = 0usize;
        let step = lua.create_function_mut(move |lua, _: MultiValue| {
            position += 1;
            if position > count {
                return Ok(nothing.clone());
            }
            let index = i64::try_from(position).unwrap_or(i64::MAX);
            let record = record_at(lua, &section, Some(index))?;
            if record.is_nil() {
                position = count;
                return Ok(nothing.clone());
            }
            Ok((Value::Integer(index), record))
        })?;
        return Ok(Value::Function(step));
    }
    if data.is::<RecordView>() {
        let view = data.clone();
        let mut from = 0usize;
        let step = lua.create_function_mut(move |lua, _: MultiValue| {
            if let Some((at, name, value)) = view.borrow::<RecordView>()?.next_field(lua, from)? {
                from = at + 1;
                Ok((Value::String(lua.create_string(name)?), value))
            } else {
                from = usize::MAX;
                Ok(nothing.clone())
            }
        })?;
        return Ok(Value::Function(step));
    }
    Ok(Value::Nil)
}
