//! The prelude: what every VM runs, and what is made when it is first looked up.
//!
//! A *library* is a table of functions for stubs of the prelude: those of a part, which is one Lua file, or those of the
//! host, one Rust function each. It holds its own name at index 1; the table `native` has none.

use std::sync::{Arc, OnceLock};

use mlua::chunk::ChunkMode;
use mlua::{Function, Lua, LuaString, Table, Value};

use crate::dialect;
use crate::host::{bound, unfinished};
use crate::sandbox;
use crate::section::Section;

/// The chunk name of the prelude while it is compiled.
const PRELUDE_NAME: &str = "=[runvil]";

/// A file of the prelude, compiled once per process and kept without debug information.
pub(crate) struct Part {
    source: &'static str,
    bytecode: OnceLock<Vec<u8>>,
}

impl Part {
    pub(crate) const fn new(source: &'static str) -> Self {
        Self { source, bytecode: OnceLock::new() }
    }

    pub(crate) fn load(&self, lua: &Lua) -> mlua::Result<Function> {
        let load = |source: &[u8], mode| lua.load(source).set_name(PRELUDE_NAME).set_mode(mode).into_function();
        if let Some(bytecode) = self.bytecode.get() {
            return load(bytecode, ChunkMode::Binary);
        }
        let function = load(self.source.as_bytes(), ChunkMode::Text)?;
        load(self.bytecode.get_or_init(|| function.dump(true)), ChunkMode::Binary)
    }
}

/// What every VM runs.
pub(crate) static CORE: Part = Part::new(include_str!("prelude/core.lua"));

/// Makes a call of the host that is more than a Rust function.
static SHIMS: Part = Part::new(include_str!("prelude/shims.lua"));

static PARTS: [(&str, Part); 6] = [
    ("data", Part::new(include_str!("prelude/data.lua"))),
    ("errors", Part::new(include_str!("prelude/errors.lua"))),
    ("metatables", Part::new(include_str!("prelude/metatables.lua"))),
    ("strings", Part::new(include_str!("prelude/strings.lua"))),
    ("tables", Part::new(include_str!("prelude/tables.lua"))),
    ("values", Part::new(include_str!("prelude/values.lua"))),
];

/// The library functions the prelude calls whatever the author has done to the globals, by library.
const RAW: [(&str, &[&str]); 5] = [
    (
        "_G",
        &[
            "error",
            "getmetatable",
            "next",
            "pcall",
            "rawequal",
            "rawget",
            "rawlen",
            "rawset",
            "select",
            "setmetatable",
            "tonumber",
            "tostring",
            "type",
        ],
    ),
    ("math", &["tointeger", "type"]),
    ("string", &["find", "format", "lower", "match", "rep", "reverse", "upper"]),
    ("table", &["concat", "insert", "move", "remove", "sort", "unpack"]),
    ("utf8", &["len"]),
];

/// The metatable of every library, whose array part holds `native` and then the functions of [`RAW`], which need less
/// room there than under their names.
pub(crate) fn libraries(lua: &Lua, section: &Arc<Section>, native: &Table) -> mlua::Result<Table> {
    let metatable = lua.create_table()?;
    metatable.raw_push(native)?;
    let globals = lua.globals();
    for (library, names) in RAW {
        let library: Table = globals.raw_get(library)?;
        for name in names {
            metatable.raw_push(library.raw_get::<Value>(*name)?)?;
        }
    }
    metatable.raw_set(
        "__index",
        bound(lua, section, |lua, section, (library, name): (Table, LuaString)| member(lua, section, &library, &name))?,
    )?;
    Ok(metatable)
}

/// The value under a name in a library, made now when it is looked up for the first time.
pub(crate) fn member(lua: &Lua, section: &Arc<Section>, library: &Table, name: &LuaString) -> mlua::Result<Value> {
    let made = library.raw_get::<Value>(name)?;
    if !made.is_nil() {
        return Ok(made);
    }
    let metatable = library.metatable().ok_or_else(|| mlua::Error::runtime("a library has lost its metatable"))?;
    let made = match library.raw_get::<Option<LuaString>>(1)? {
        None => native_value(lua, section, &metatable, &name.as_bytes())?,
        Some(library_name) => {
            let native: Table = metatable.raw_get(1)?;
            let library_name = library_name.as_bytes();
            if let Some((_, part)) = PARTS.iter().find(|(part, _)| part.as_bytes() == &*library_name) {
                part.load(lua)?.call::<()>((&native, library))?;
                return library.raw_get(name);
            }
            host_call(lua, section, &native, &dialect::runvil::qualified(&library_name, &name.as_bytes()))?
        }
    };
    if !made.is_nil() {
        library.raw_set(name, &made)?;
    }
    Ok(made)
}

/// A value of the table `native`.
fn native_value(lua: &Lua, section: &Arc<Section>, metatable: &Table, name: &[u8]) -> mlua::Result<Value> {
    Ok(match name {
        b"call_counts" => Value::Table(section.anchors()?.call_counts.clone()),
        b"has_ui" => Value::Boolean(section.environment.ui.is_some()),
        b"list_mark" => Value::Table(section.list_mark()),
        b"null" => Value::NULL,
        b"raw" => Value::Table(raw(lua, metatable)?),
        b"unfinished" => unfinished(),
        name => {
            let is_part = PARTS.iter().any(|(part, _)| part.as_bytes() == name);
            if is_part || dialect::runvil::LIBRARIES.iter().any(|library| library.as_bytes() == name) {
                let library = lua.create_sequence_from([lua.create_string(name)?])?;
                library.set_metatable(Some(metatable.clone()))?;
                return Ok(Value::Table(library));
            }
            sandbox::function(lua, section, name)?.map_or(Value::Nil, Value::Function)
        }
    })
}

/// The function of a call of the host, by the whole name of its Rust function.
fn host_call(lua: &Lua, section: &Arc<Section>, native: &Table, name: &[u8]) -> mlua::Result<Value> {
    let Some(begin) = sandbox::function(lua, section, name)? else { return Ok(Value::Nil) };
    match dialect::runvil::shim(name) {
        Some(kind) => SHIMS.load(lua)?.call((native, kind, begin)),
        None => native.raw_get::<Function>("host")?.call(begin),
    }
}

/// The functions of [`RAW`] under their names.
fn raw(lua: &Lua, metatable: &Table) -> mlua::Result<Table> {
    let raw = lua.create_table()?;
    let mut at = 1;
    for (library, names) in RAW {
        let functions = if library == "_G" { raw.clone() } else { lua.create_table()? };
        for name in names {
            at += 1;
            functions.raw_set(*name, metatable.raw_get::<Value>(at)?)?;
        }
        if library != "_G" {
            raw.raw_set(library, functions)?;
        }
    }
    Ok(raw)
}
