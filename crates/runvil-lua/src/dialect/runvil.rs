//! The globals of a `runvil: 0` document.

use std::sync::Arc;

use mlua::{Function, Lua, LuaString, Value};

use crate::error_value::refuse;
use crate::host::{attempted, bound};
use crate::json::{Nulls, from_json};
use crate::messages::{self, Messages};
use crate::parts::Part;
use crate::sandbox::Base;
use crate::section::{Anchors, Section};
use crate::{compaction, host_calls, library, model_calls, tool_calls};

/// The Rust function behind a global, by its whole name.
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
        b"compact_end" => bound(lua, section, |lua, section, (returned, raised): (bool, Value)| {
            compaction::finish(lua, section, returned, raised)
        }),
        b"models.default" => attempted(lua, section, model_calls::set_default),
        b"models.get" => attempted(lua, section, model_calls::get),
        b"models.infer" => {
            attempted(lua, section, |_, section, arguments| model_calls::begin_infer(section, arguments))
        }
        b"models.loop" => attempted(lua, section, |_, section, arguments| model_calls::begin_loop(section, arguments)),
        b"models.use" => attempted(lua, section, model_calls::select),
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
        b"call_end" => {
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

/// The libraries of the host's functions; those of `base` are named by themselves alone.
pub(crate) const LIBRARIES: [&str; 8] =
    ["base", "compactors", "handle", "json", "messages", "models", "packs", "tools"];

/// The name of the Rust function behind a name in a library.
pub(crate) fn qualified(library: &[u8], name: &[u8]) -> Vec<u8> {
    if library == b"base" { name.to_vec() } else { [library, b".", name].concat() }
}

/// How the prelude makes the call with this Rust function, unless it just calls it.
pub(crate) fn shim(name: &[u8]) -> Option<&'static str> {
    Some(match name {
        b"call" | b"user_input" | b"models.infer" | b"handle.infer" => "suspending",
        b"models.loop" | b"handle.loop" => "looping",
        b"models.compact" => "compacting",
        b"tools.call" => "calling",
        b"require" => "requiring",
        _ => return None,
    })
}

static SURFACE: Part = Part::new(include_str!("runvil.lua"));

/// Installs the globals of a section VM.
pub(crate) fn install(lua: &Lua, section: &Arc<Section>, base: Base) -> mlua::Result<()> {
    let globals = lua.globals();
    let Base { native, hidden, behind, on_demand, fronted, globals_meta } = base;
    hidden.raw_set("messages", lua.create_userdata(Messages(Arc::clone(section)))?)?;
    let var_data = match from_json(lua, section, &section.params.var, Nulls::Keep)? {
        Value::Table(table) => table,
        _ => lua.create_table()?,
    };
    // `argv` is an ordinary global in the H1 pass, and guarded everywhere else.
    let (argv, guarded_argv) = match &section.params.argv {
        Some(argv) if section.params.is_h1 => (from_json(lua, section, argv, Nulls::Keep)?, Value::Nil),
        Some(argv) => (Value::Nil, from_json(lua, section, argv, Nulls::Nil)?),
        None => (Value::Nil, Value::Nil),
    };
    SURFACE.load(lua)?.call::<()>((&native, on_demand, fronted, &var_data, guarded_argv))?;
    globals.raw_set("args", section.params.args.as_str())?;
    globals.raw_set("argv", argv)?;
    globals.set_metatable(Some(globals_meta))?;
    let anchors = Anchors {
        compactors: globals.raw_get("compactors")?,
        handle_methods: native.get("handle")?,
        list_methods: native.get("messages")?,
        behind,
        hidden,
        var: globals.raw_get("var")?,
        var_data,
        call_counts: lua.create_table()?,
    };
    let _ = section.anchors.set(anchors);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::atomic::AtomicU64;

    use mlua::Table;
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
            argv: Some(Arc::new(json!({}))),
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
