//! The globals of a `runvil: 0` document.

use std::sync::Arc;

use mlua::{Function, Lua, LuaString, Table, Value};

use crate::error_value::refuse;
use crate::host::{attempted, bound};
use crate::json::{Nulls, from_json};
use crate::messages::{self, Messages};
use crate::sandbox::Base;
use crate::section::{Anchors, Section};
use crate::{compaction, host_calls, library, model_calls, tool_calls};

/// The Rust function behind a global, by the name that `runvil.lua` calls it by.
pub(crate) fn function(lua: &Lua, section: &Arc<Section>, name: &[u8]) -> mlua::Result<Option<Function>> {
    match name {
        b"call" => attempted(lua, section, |lua, section, arguments| host_calls::begin_call(lua, section, arguments)),
        b"compactors.clear" => attempted(lua, section, |_, section, _| compaction::clear(section)),
        b"compactors.fail" => {
            bound(lua, section, |_, section, reason: Value| Err::<(), _>(compaction::fail(section, &reason)))
        }
        b"handle.infer" => {
            attempted(lua, section, |_, section, arguments| model_calls::begin_handle_infer(section, arguments))
        }
        b"handle.loop" => {
            attempted(lua, section, |_, section, arguments| model_calls::begin_handle_loop(section, arguments))
        }
        b"json.array" => attempted(lua, section, |lua, section, arguments| host_calls::array(lua, section, arguments)),
        b"json.decode" => {
            attempted(lua, section, |lua, section, arguments| host_calls::decode(lua, section, arguments))
        }
        b"json.encode" => {
            attempted(lua, section, |lua, section, arguments| host_calls::encode(lua, section, arguments))
        }
        b"jump" => attempted(lua, section, |_, section, arguments| Err::<(), _>(host_calls::jump(section, arguments))),
        b"list_from_section" => {
            attempted(lua, section, |lua, section, arguments| host_calls::list_from_section(lua, section, arguments))
        }
        b"log" => attempted(lua, section, |_, section, arguments| host_calls::log(section, arguments)),
        b"models.compact" => attempted(lua, section, |_, section, arguments| compaction::begin(section, arguments)),
        b"models.compact_end" => bound(lua, section, |lua, section, (returned, raised): (bool, Value)| {
            compaction::finish(lua, section, returned, raised)
        }),
        b"models.default" => {
            attempted(lua, section, |lua, section, arguments| model_calls::set_default(lua, section, arguments))
        }
        b"models.get" => attempted(lua, section, |lua, section, arguments| model_calls::get(lua, section, arguments)),
        b"models.infer" => {
            attempted(lua, section, |_, section, arguments| model_calls::begin_infer(section, arguments))
        }
        b"models.loop" => attempted(lua, section, |_, section, arguments| model_calls::begin_loop(section, arguments)),
        b"models.use" => {
            attempted(lua, section, |lua, section, arguments| model_calls::select(lua, section, arguments))
        }
        b"require" => attempted(lua, section, |lua, section, arguments| library::begin(lua, section, arguments)),
        b"require_compile" => bound(lua, section, |lua, _, (name, source): (LuaString, LuaString)| {
            library::compile(lua, &name.to_string_lossy(), &source.as_bytes())
        }),
        b"require_end" => bound(lua, section, |lua, section, (name, returned, result): (String, bool, Value)| {
            library::finish(lua, section, name, returned, result)
        }),
        b"packs.offer" => attempted(lua, section, |_, section, arguments| tool_calls::offer_pack(section, arguments)),
        b"tools.call" => {
            attempted(lua, section, |lua, section, arguments| tool_calls::begin_call(lua, section, arguments))
        }
        b"tools.call_end" => {
            bound(lua, section, |lua, section, (name, turn, returned, value): (String, u64, bool, Value)| {
                tool_calls::finish_call(lua, section, (name, turn), returned, value)
            })
        }
        b"tools.offer" => attempted(lua, section, |_, section, arguments| tool_calls::offer(section, arguments)),
        b"tools.offer_local" => {
            attempted(lua, section, |_, section, arguments| tool_calls::offer_local(section, arguments))
        }
        b"has_counts" => bound(lua, section, |_, section, ()| Ok(tool_calls::has_counts(section))),
        b"refuse_count" => {
            bound(lua, section, |_, section, key: Value| Err::<(), _>(tool_calls::refuse_count(section, &key)))
        }
        b"refuse_counting" => bound(lua, section, |_, _, ()| Err::<(), _>(refuse("tools.calls is read-only"))),
        b"ui" => attempted(lua, section, |lua, section, _| host_calls::ui(lua, section)),
        b"untrusted" => {
            attempted(lua, section, |lua, section, arguments| host_calls::untrusted(lua, section, arguments))
        }
        b"user_input" => {
            attempted(lua, section, |_, section, arguments| host_calls::begin_user_input(section, arguments))
        }
        _ => return messages::function(lua, section, name),
    }
    .map(Some)
}

/// What `runvil.lua` needs to know.
pub(crate) fn prepare(section: &Section, native: &Table) -> mlua::Result<()> {
    native.raw_set("null", Value::NULL)?;
    native.raw_set("has_ui", section.environment.ui.is_some())
}

/// Installs the data of a section VM.
pub(crate) fn install(lua: &Lua, section: &Arc<Section>, base: Base) -> mlua::Result<()> {
    let globals = lua.globals();
    let Base { native, hidden, behind } = base;
    hidden.raw_set("messages", lua.create_userdata(Messages(Arc::clone(section)))?)?;
    let var_data = match from_json(lua, section, &section.params.var, Nulls::Keep)? {
        Value::Table(table) => table,
        _ => lua.create_table()?,
    };
    let var: Table = native.raw_get::<Function>("guard_var")?.call(&var_data)?;
    globals.raw_set("var", &var)?;
    let fields = lua.create_table_with_capacity(0, section.params.sys.len())?;
    for (name, value) in &section.params.sys {
        fields.raw_set(*name, from_json(lua, section, value, Nulls::Nil)?)?;
    }
    globals.raw_set("sys", native.raw_get::<Function>("seal_sys")?.call::<Table>(&fields)?)?;
    globals.raw_set("args", section.params.args.as_str())?;
    arguments(lua, section, &native, &globals, &hidden)?;
    let anchors = Anchors {
        compactors: native.raw_get("compactors")?,
        handle_methods: native.raw_get("handle_methods")?,
        list_methods: native.raw_get("list_methods")?,
        behind,
        hidden,
        var,
        var_data,
        sys_fields: fields,
        call_counts: native.raw_get("call_counts")?,
    };
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::atomic::AtomicU64;

    use serde_json::{Value as Json, json};

    use super::*;
    use crate::budget::Budget;
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
            budget: Budget::default(),
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
