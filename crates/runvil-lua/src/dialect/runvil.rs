//! The globals of a `runvil: 0` document.

use std::sync::Arc;

use mlua::{Function, Lua, LuaString, MultiValue, Table, Value};

use crate::error_value::{raise, refuse};
use crate::failure::Failure;
use crate::json::{Nulls, from_json};
use crate::messages::Messages;
use crate::sandbox::Base;
use crate::section::{Anchors, Section};
use crate::{compaction, host_calls, library, model_calls, tool_calls};

struct Installer<'a> {
    lua: &'a Lua,
    section: &'a Arc<Section>,
    native: &'a Table,
}

impl Installer<'_> {
    /// A function that gets the section and all its arguments.
    fn function<R, F>(&self, call: F) -> mlua::Result<Function>
    where
        R: mlua::IntoLuaMulti,
        F: Fn(&Lua, &Arc<Section>, &MultiValue) -> mlua::Result<R> + Send + 'static,
    {
        let section = Arc::clone(self.section);
        self.lua.create_function(move |lua, arguments: MultiValue| {
            // A loop around slow calls takes long to reach the next count hook.
            if section.is_cancelled() {
                return Err(raise(Failure::Cancelled));
            }
            call(lua, &section, &arguments)
        })
    }

    /// The shim of a suspending call, made by the prelude's factory of this name.
    fn shim(&self, factory: &str, parts: impl mlua::IntoLuaMulti) -> mlua::Result<Function> {
        self.native.raw_get::<Function>(factory)?.call(parts)
    }
}

/// Installs every host global of a section VM.
pub(crate) fn install(lua: &Lua, section: &Arc<Section>, base: Base) -> mlua::Result<()> {
    let globals = lua.globals();
    let Base { native, hidden, behind } = base;
    let installer = Installer { lua, section, native: &native };

    let messages = lua.create_userdata(Messages(Arc::clone(section)))?;
    hidden.raw_set("messages", messages)?;
    let compactors = compactors(&installer)?;
    globals.raw_set("compactors", &compactors)?;
    let handle_methods = lua.create_table()?;
    globals.raw_set("models", models(&installer, &handle_methods)?)?;

    let var_data = match from_json(lua, section, &section.params.var, Nulls::Keep)? {
        Value::Table(table) => table,
        _ => lua.create_table()?,
    };
    let var: Table = native.raw_get::<Function>("guard_var")?.call(&var_data)?;
    globals.raw_set("var", &var)?;
    let call_counts = lua.create_table()?;
    let fields = lua.create_table_with_capacity(0, section.params.sys.len())?;
    for (name, value) in &section.params.sys {
        fields.raw_set(*name, from_json(lua, section, value, Nulls::Nil)?)?;
    }
    globals.raw_set("tools", tools(&installer, &call_counts)?)?;
    globals.raw_set("packs", packs(&installer)?)?;
    globals.raw_set("sys", native.raw_get::<Function>("seal_sys")?.call::<Table>(&fields)?)?;
    globals.raw_set("args", section.params.args.as_str())?;
    arguments(lua, section, &native, &globals, &hidden)?;

    globals.raw_set("log", installer.function(|_, section, arguments| host_calls::log(section, arguments))?)?;
    globals.raw_set(
        "untrusted",
        installer.function(|lua, section, arguments| host_calls::untrusted(lua, section, arguments))?,
    )?;
    if section.environment.ui.is_some() {
        globals.raw_set("ui", installer.function(|lua, section, _| host_calls::ui(lua, section))?)?;
    }
    globals.raw_set(
        "jump",
        installer.function(|_, section, arguments| Err::<(), _>(host_calls::jump(section, arguments)))?,
    )?;
    globals.raw_set(
        "list_from_section",
        installer.function(|lua, section, arguments| host_calls::list_from_section(lua, section, arguments))?,
    )?;
    let begin = installer.function(|lua, section, arguments| host_calls::begin_call(lua, section, arguments))?;
    globals.raw_set("call", installer.shim("suspending", begin)?)?;
    let begin = installer.function(|_, section, arguments| host_calls::begin_user_input(section, arguments))?;
    globals.raw_set("user_input", installer.shim("suspending", begin)?)?;
    globals.raw_set("json", json(&installer)?)?;
    globals.raw_set("require", require(&installer)?)?;

    let anchors =
        Anchors { compactors, handle_methods, behind, hidden, var, var_data, sys_fields: fields, call_counts };
    let _ = section.anchors.set(anchors);
    Ok(())
}

/// `argv`: an ordinary global in the H1 pass, frozen everywhere else.
fn arguments(lua: &Lua, section: &Arc<Section>, native: &Table, globals: &Table, hidden: &Table) -> mlua::Result<()> {
    let Some(argv) = &section.params.argv else { return Ok(()) };
    if section.params.is_h1 {
        return globals.raw_set("argv", from_json(lua, section, argv, Nulls::Keep)?);
    }
    let value = match from_json(lua, section, argv, Nulls::Nil)? {
        Value::Table(data) => Value::Table(native.raw_get::<Function>("guard_argv")?.call(data)?),
        scalar => scalar,
    };
    hidden.raw_set("argv", value)
}

fn compactors(installer: &Installer<'_>) -> mlua::Result<Table> {
    let table = installer.lua.create_table()?;
    let fail = installer.function(|_, section, arguments| {
        Err::<(), _>(compaction::fail(section, arguments.front().unwrap_or(&Value::Nil)))
    })?;
    table.raw_set("fail", fail)?;
    table.raw_set("clear", installer.function(|_, section, _| compaction::clear(section))?)?;
    Ok(table)
}

fn models(installer: &Installer<'_>, handle_methods: &Table) -> mlua::Result<Table> {
    let table = installer.lua.create_table()?;
    table
        .raw_set("use", installer.function(|lua, section, arguments| model_calls::select(lua, section, arguments))?)?;
    table.raw_set(
        "default",
        installer.function(|lua, section, arguments| model_calls::set_default(lua, section, arguments))?,
    )?;
    table.raw_set("get", installer.function(|lua, section, arguments| model_calls::get(lua, section, arguments))?)?;
    let begin = installer.function(|_, section, arguments| model_calls::begin_infer(section, arguments))?;
    table.raw_set("infer", installer.shim("suspending", begin)?)?;
    let begin = installer.function(|_, section, arguments| model_calls::begin_handle_infer(section, arguments))?;
    handle_methods.raw_set("infer", installer.shim("suspending", begin)?)?;
    let begin = installer.function(|_, section, arguments| model_calls::begin_loop(section, arguments))?;
    table.raw_set("loop", installer.shim("looping", begin)?)?;
    let begin = installer.function(|_, section, arguments| model_calls::begin_handle_loop(section, arguments))?;
    handle_methods.raw_set("loop", installer.shim("looping", begin)?)?;
    let begin = installer.function(|_, section, arguments| compaction::begin(section, arguments))?;
    let section = Arc::clone(installer.section);
    let finish = installer.lua.create_function(move |lua, (returned, raised): (bool, Value)| {
        compaction::finish(lua, &section, returned, raised)
    })?;
    table.raw_set("compact", installer.shim("compacting", (begin, finish))?)?;
    Ok(table)
}

fn tools(installer: &Installer<'_>, counts: &Table) -> mlua::Result<Table> {
    let table = installer.lua.create_table()?;
    table.raw_set("offer", installer.function(|_, section, arguments| tool_calls::offer(section, arguments))?)?;
    table.raw_set(
        "offer_local",
        installer.function(|_, section, arguments| tool_calls::offer_local(section, arguments))?,
    )?;
    let begin = installer.function(|lua, section, arguments| tool_calls::begin_call(lua, section, arguments))?;
    table.raw_set("call", installer.shim("calling", begin)?)?;
    installer.native.raw_set("has_counts", installer.function(|_, section, _| Ok(tool_calls::has_counts(section)))?)?;
    installer.native.raw_set(
        "refuse_count",
        installer.function(|_, section, arguments| {
            let key = arguments.front().cloned().unwrap_or(Value::Nil);
            Err::<(), _>(tool_calls::refuse_count(section, &key))
        })?,
    )?;
    installer.native.raw_set(
        "refuse_counting",
        installer.lua.create_function(|_, ()| Err::<(), _>(refuse("tools.calls is read-only")))?,
    )?;
    installer.native.raw_get::<Function>("counted")?.call((table, counts))
}

fn packs(installer: &Installer<'_>) -> mlua::Result<Table> {
    let table = installer.lua.create_table()?;
    table.raw_set("offer", installer.function(|_, section, arguments| tool_calls::offer_pack(section, arguments))?)?;
    Ok(table)
}

fn json(installer: &Installer<'_>) -> mlua::Result<Table> {
    let table = installer.lua.create_table()?;
    table.raw_set(
        "encode",
        installer.function(|lua, section, arguments| host_calls::encode(lua, section, arguments))?,
    )?;
    table.raw_set(
        "decode",
        installer.function(|lua, section, arguments| host_calls::decode(lua, section, arguments))?,
    )?;
    table
        .raw_set("array", installer.function(|lua, section, arguments| host_calls::array(lua, section, arguments))?)?;
    table.raw_set("null", Value::NULL)?;
    Ok(table)
}

fn require(installer: &Installer<'_>) -> mlua::Result<Function> {
    let begin = installer.function(|_, section, arguments| library::begin(section, arguments))?;
    let compile = installer.lua.create_function(|lua, (name, source): (LuaString, LuaString)| {
        library::compile(lua, &name.to_string_lossy(), &source.as_bytes())
    })?;
    let section = Arc::clone(installer.section);
    let finish = installer.lua.create_function(move |lua, (name, returned, result): (String, bool, Value)| {
        library::finish(lua, &section, name, returned, result)
    })?;
    installer.shim("requiring", (begin, compile, finish))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::atomic::AtomicU64;

    use serde_json::{Value as Json, json};

    use super::*;
    use crate::error_value::ErrorValues;
    use crate::models::Models;
    use crate::names::{BASE, LIBRARIES, MATH, STRING, TABLE};
    use crate::packs::Packs;
    use crate::sandbox;
    use crate::section::{CancelFlag, Environment, Headings, SectionParams};

    /// The host's globals that read as ordinary ones.
    const HOST: [&str; 15] = [
        "args",
        "call",
        "compactors",
        "json",
        "jump",
        "list_from_section",
        "log",
        "models",
        "packs",
        "require",
        "sys",
        "tools",
        "untrusted",
        "user_input",
        "var",
    ];

    /// The host's globals that refuse assignment; `prose` is one more, made when it is read.
    const GUARDED: [&str; 2] = ["argv", "messages"];

    struct NoHeadings;

    impl Headings for NoHeadings {
        fn items(&self, reference: &str) -> Result<Vec<String>, String> {
            Err(reference.to_owned())
        }
    }

    fn names(table: &Table) -> BTreeSet<String> {
        table.pairs::<String, Value>().map(|pair| pair.unwrap().0).collect()
    }

    fn expected(lists: &[&[&str]]) -> BTreeSet<String> {
        lists.iter().flat_map(|list| list.iter().map(|name| (*name).to_owned())).collect()
    }

    /// The globals, those that refuse assignment, and the interpreter of a fresh VM.
    fn fresh(ui: Option<Json>) -> (Lua, BTreeSet<String>, BTreeSet<String>) {
        let lua = sandbox::interpreter().unwrap();
        let environment = Environment {
            models: Models::new(Vec::new(), false),
            packs: Packs::default(),
            turns: AtomicU64::new(0),
            cancel: CancelFlag::default(),
            nonce: String::new(),
            seed: 0,
            memory_bytes: 64 << 20,
            log_events: 1,
            ui,
        };
        let params = SectionParams {
            name: "Only".to_owned(),
            sys: Vec::new(),
            var: json!({}),
            args: String::new(),
            argv: Some(json!({})),
            argv_in_prose: None,
            is_h1: false,
            headings: Arc::new(NoHeadings),
        };
        let errors = ErrorValues::new(&lua).unwrap();
        let section = Arc::new(Section::new(Arc::new(environment), params, errors));
        let base = sandbox::build(&lua, &section).unwrap();
        let hidden = base.hidden.clone();
        install(&lua, &section, base).unwrap();
        let globals = names(&lua.globals());
        let hidden = names(&hidden);
        (lua, globals, hidden)
    }

    #[test]
    fn a_fresh_vm_has_the_listed_names_and_no_others() {
        let (lua, globals, hidden) = fresh(None);
        assert_eq!(globals, expected(&[&BASE, &LIBRARIES, &HOST]));
        assert_eq!(hidden, expected(&[&GUARDED]));
        for (library, members) in [("string", &STRING[..]), ("table", &TABLE), ("math", &MATH)] {
            let table: Table = lua.globals().get(library).unwrap();
            assert_eq!(names(&table), expected(&[members]), "{library}");
        }
        let (_, globals, _) = fresh(Some(json!({})));
        assert_eq!(globals, expected(&[&BASE, &LIBRARIES, &HOST, &["ui"]]));
    }
}
